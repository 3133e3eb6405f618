#include "wire_habits.hh"

#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace corewire::packetdrill {

namespace {

/// The numbers of a setting; empty if the host does not have it.
std::vector<std::uint64_t> setting(const char* name) {
    std::ifstream file(std::string("/proc/sys/net/ipv4/") + name);
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t n; file >> n;) numbers.push_back(n);
    return numbers;
}

std::string word_of_setting(const char* name) {
    std::ifstream file(std::string("/proc/sys/net/ipv4/") + name);
    std::string word;
    file >> word;
    return word;
}

void read_flag(const char* name, bool& into) {
    if (const auto n = setting(name); !n.empty()) into = n[0] != 0;
}

template <typename Number>
void read_number(const char* name, Number& into) {
    if (const auto n = setting(name); !n.empty()) into = static_cast<Number>(std::min<std::uint64_t>(n[0], 255));
}

void read_int(const char* name, int& into) {
    if (const auto n = setting(name); !n.empty()) into = static_cast<int>(std::min<std::uint64_t>(n[0], INT32_MAX));
}

void read_bytes(const char* name, std::uint32_t& into) {
    if (const auto n = setting(name); !n.empty()) into = static_cast<std::uint32_t>(std::min<std::uint64_t>(n[0], UINT32_MAX));
}

template <typename Unit>
void read_time(const char* name, duration& into) {
    if (const auto n = setting(name); !n.empty()) into = Unit{static_cast<std::int64_t>(std::min<std::uint64_t>(n[0], INT32_MAX))};
}

/// "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4", and perhaps the older key behind a comma. Each group is a number in the host's order.
std::optional<tcp::fast_open_keys> keys_of(std::string_view text) {
    std::array<std::byte, 32> bytes{};
    std::size_t size = 0;
    while (!text.empty() && size < bytes.size()) {
        std::uint32_t group = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), group, 16);
        if (error != std::errc{}) return std::nullopt;
        for (unsigned i = 0; i < 4; ++i) bytes[size++] = static_cast<std::byte>(group >> (8 * i)); // Linux: cpu_to_le32
        text.remove_prefix(std::min<std::size_t>(static_cast<std::size_t>(end - text.data()) + 1, text.size()));
    }
    if (size != 16 && size != 32) return std::nullopt;
    tcp::fast_open_keys keys{.current = tcp::fast_open_keys::key_of(std::span<const std::byte, 16>(bytes.data(), 16)), .older = {}};
    if (size == 32) keys.older = tcp::fast_open_keys::key_of(std::span<const std::byte, 16>(bytes.data() + 16, 16));
    return keys;
}

/// As scripts and sysctl(8) write them: 514, 0x202.
template <typename Number>
Number number_of(std::string_view text, Number otherwise) {
    const bool hexadecimal = text.starts_with("0x");
    if (hexadecimal) text.remove_prefix(2);
    Number n{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n, hexadecimal ? 16 : 10);
    return error == std::errc{} ? n : otherwise;
}

/// net.ipv4.tcp_ecn: 0 never; 1 both ways; 2 as servers; AccECN: 3 both ways, 4 as servers and classic ECN as clients, 5 as servers.
void choose_ecn(unsigned mode, posix::stream_settings& s) noexcept {
    s.ecn_offered = mode == 1 || mode == 4;
    s.ecn_accepted = mode >= 1 && mode <= 5;
    s.accurate_ecn_offered = mode == 3;
    s.accurate_ecn_accepted = mode >= 3 && mode <= 5;
}

void apply(std::string_view word, wire_habits& h) {
    const std::size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view{} : word.substr(equals + 1);
    if (name == "linux") h.stack.tcp.habits = tcp::personality::linux_;
    if (name == "freebsd") h.stack.tcp.habits = tcp::personality::freebsd;
    if (name == "default") h.stack.tcp.habits = tcp::personality::standard;
    if (name == "settings") h.reads_settings = value != "none";
    if (name == "mtu") {
        h.mtu = std::min(std::max(number_of<std::uint32_t>(value, h.mtu), 576u), 65'535u);
        h.mtu_named = true;
    }
    if (name == "seed") h.stack.seed = number_of<std::uint64_t>(value, 1);
    if (name == "min_tso_segs") h.stack.tcp.super_segments.least = number_of<std::uint8_t>(value, 2);
    if (name == "segments") {
        h.joins_segments = value == "whole";
        h.stack.tcp.super_segments.on = value != "single";
    }
    if (name == "mtu_probing") h.probing = number_of<unsigned>(value, h.probing);
    if (name == "ecn") choose_ecn(number_of<unsigned>(value, 2), h.stream);
    if (name == "no_pmtu_disc") h.set_no_path_discovery(number_of<int>(value, 0));
    if (name == "syn_cookies") h.stream.syn_cookies = number_of<int>(value, 1);
    if (name == "fast_open") h.stream.fast_open_allowed = number_of<unsigned>(value, h.stream.fast_open_allowed);
    if (name == "fast_open_key") h.fast_open_keys = keys_of(value);
    if (name == "address") {
        if (const std::optional<ipv4> a = ipv4::parse(value)) h.address = *a;
    }
}

} // namespace

wire_habits wire_habits::of(std::string_view flags) {
    wire_habits h;
    h.stack.seed = 1; // each run the same
    h.stack.announce = false;
    h.stream.has_link_headers = false; // packets are as on a TUN device
    h.stack.tcp.receive_buffer_limit = 6'291'456; // Linux as it comes
    h.stack.tcp.super_segments.on = true;         // of those who follow Linux
    while (!flags.empty()) {
        const std::size_t end = flags.find_first_of(" ,:;");
        apply(flags.substr(0, end), h);
        flags.remove_prefix(end == std::string_view::npos ? flags.size() : end + 1);
    }
    if (h.stack.tcp.like_linux()) {
        h.stack.tcp.least_segment = 48;
        h.stack.tcp.max_rto = std::chrono::seconds{120};
        h.stack.tcp.delayed_ack = h.stack.tcp.peer_delayed_ack = std::chrono::milliseconds{200};
        h.stack.tcp.syn_retries = 6;
        h.stack.tcp.mtu_probing = tcp::path_probing::off;
        h.stack.tcp.mtu_probing_floor = 48;
        h.stream.send_buffer = 16'384;
        h.stream.send_buffer_most = 4'194'304;
    }
    if (h.stack.tcp.like_freebsd()) h.follow_freebsd();
    h.read_settings();
    h.choose_probing();
    return h;
}

/// What FreeBSD 13 and 14 come with (tcp(4), syncache(4), tuning(7)).
void wire_habits::follow_freebsd() {
    using namespace std::chrono_literals;
    tcp::parameters& p = stack.tcp;
    reads_settings = false; // net.ipv4 is another host's
    p.receive_buffer_limit = 2u << 20; // kern.ipc.maxsockbuf, of which the window's scale is made
    p.least_segment = 216;             // minmss
    p.quick_acks = 0;
    p.delayed_ack = 40ms;
    p.min_rto = 30ms;
    p.rto_slop = 200ms;
    p.max_rto = 64s;
    p.retries = p.orphan_retries = p.syn_retries = 12;
    p.open_timeout = 75s; // keepinit
    p.syn_ack_retries = 3;
    p.tail_loss_probe = p.forward_rto = false;
    p.answer_pause = duration{0};
    p.keeps_time_wait = true;
    p.mtu_probing = tcp::path_probing::off;
    stream.like_freebsd = true;
    stream.receive_buffer = 65'536; // recvspace
    stream.send_buffer = 32'768;    // sendspace
    stream.send_low_water = 2048;   // MCLBYTES
    stream.receive_buffer_grows = false;
    stream.send_buffer_most = 2u << 20;
    stream.largest_backlog = 128;   // kern.ipc.soacceptqueue
    stream.keepalive_probes = 8;
    stream.fin_wait_2 = stream.keepalive_probes * stream.keepalive_interval;
}

void wire_habits::read_settings() {
    tcp::parameters& p = stack.tcp;
    if (!reads_settings) return;
    const auto read_size = [](const char* name, std::uint16_t& into) {
        if (const auto n = setting(name); !n.empty()) into = static_cast<std::uint16_t>(std::min<std::uint64_t>(n[0], 65'000));
    };
    read_flag("tcp_sack", p.sack);
    read_flag("tcp_timestamps", p.timestamps);
    read_flag("tcp_window_scaling", p.window_scaling);
    read_flag("tcp_shrink_window", p.shrinks_window);
    if (const auto n = setting("tcp_early_retrans"); !n.empty()) p.tail_loss_probe = n[0] == 3 || n[0] == 4;
    read_number("tcp_comp_sack_nr", p.sparse_sacks.most);
    read_time<std::chrono::nanoseconds>("tcp_comp_sack_delay_ns", p.sparse_sacks.wait);
    read_time<std::chrono::nanoseconds>("tcp_comp_sack_slack_ns", p.sparse_sacks.slack);
    read_flag("tcp_slow_start_after_idle", p.restart_after_idle);
    read_number("tcp_min_tso_segs", p.super_segments.least);
    read_number("tcp_tso_rtt_log", p.super_segments.rtt_log);
    read_number("tcp_tso_win_divisor", p.super_segments.window_divisor);
    const auto read_percent = [](const char* name, std::uint16_t& into) {
        if (const auto n = setting(name); !n.empty()) into = static_cast<std::uint16_t>(std::min<std::uint64_t>(n[0], 1000));
    };
    read_percent("tcp_pacing_ss_ratio", p.super_segments.slow_start_percent);
    read_percent("tcp_pacing_ca_ratio", p.super_segments.percent);
    read_number("tcp_syn_retries", p.syn_retries);
    read_number("tcp_syn_linear_timeouts", p.syn_linear_timeouts);
    read_number("tcp_synack_retries", p.syn_ack_retries);
    read_number("tcp_retries2", p.retries);
    read_number("tcp_retries1", p.trouble_after);
    if (const auto n = setting("tcp_orphan_retries"); !n.empty() && n[0] != 0) read_number("tcp_orphan_retries", p.orphan_retries);
    if (const auto n = setting("tcp_frto"); !n.empty()) p.forward_rto = n[0] != 0;
    read_flag("tcp_dsack", p.duplicate_sack);
    read_number("tcp_pingpong_thresh", p.interactive_after);
    read_flag("tcp_rfc1337", p.keeps_time_wait);
    read_flag("tcp_ecn_fallback", p.ecn_fallback);
    read_number("tcp_ecn_option", p.accurate_ecn_option);
    read_number("tcp_ecn_option_beacon", p.accurate_ecn_beacon);
    read_flag("tcp_thin_linear_timeouts", p.thin_linear_timeouts);
    read_size("tcp_reordering", p.duplicate_threshold);
    read_size("tcp_max_reordering", p.reordering_limit);
    read_time<std::chrono::microseconds>("tcp_rto_min_us", p.min_rto);
    if (p.like_linux()) p.peer_delayed_ack = p.min_rto; // tcp_schedule_loss_probe()
    read_time<std::chrono::milliseconds>("tcp_rto_max_ms", p.max_rto);
    read_time<std::chrono::milliseconds>("tcp_invalid_ratelimit", p.answer_pause);
    read_int("tcp_keepalive_time", stream.keepalive_idle);
    read_int("tcp_keepalive_intvl", stream.keepalive_interval);
    read_int("tcp_keepalive_probes", stream.keepalive_probes);
    read_int("ip_default_ttl", stream.default_time_to_live);
    if (const auto n = setting("ip_no_pmtu_disc"); !n.empty() && p.like_linux()) set_no_path_discovery(static_cast<int>(n[0]));
    read_int("../core/somaxconn", stream.largest_backlog);
    read_flag("tcp_moderate_rcvbuf", stream.receive_buffer_grows);
    read_bytes("tcp_notsent_lowat", stream.unsent_low_water);
    read_int("tcp_syncookies", stream.syn_cookies);
    read_bytes("tcp_max_syn_backlog", stream.most_half_open);
    read_flag("tcp_abort_on_overflow", stream.refuses_overflow);
    read_flag("tcp_reflect_tos", stream.reflects_service);
    read_bytes("../core/rmem_max", stream.receive_buffer_cap);
    read_bytes("../core/wmem_max", stream.send_buffer_cap);
    if (const auto n = setting("tcp_rmem"); n.size() == 3) {
        stream.receive_buffer = static_cast<std::uint32_t>(std::min<std::uint64_t>(n[1], 1u << 30));
        p.receive_buffer_limit = stream.receive_buffer_most = static_cast<std::uint32_t>(std::min<std::uint64_t>(n[2], 1u << 30));
    }
    if (const auto n = setting("tcp_wmem"); n.size() == 3) {
        const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(std::max(n[1], n[2]), 1u << 30));
        stream.send_buffer = p.like_linux() ? static_cast<std::uint32_t>(std::min<std::uint64_t>(n[1], 1u << 30)) : most;
        if (p.like_linux()) stream.send_buffer_most = most;
    }
    if (const auto n = setting("tcp_mtu_probing"); !n.empty()) probing = static_cast<unsigned>(n[0]);
    read_size("tcp_min_snd_mss", p.least_segment);
    read_size("tcp_base_mss", p.mtu_probing_base);
    read_size("tcp_mtu_probe_floor", p.mtu_probing_floor);
    read_size("tcp_probe_threshold", p.mtu_probing_threshold);
    if (const auto n = setting("tcp_probe_interval"); !n.empty()) p.mtu_probing_interval = std::chrono::seconds{n[0] & 0x7fff'ffff};
    choose_probing();
    if (const auto n = setting("tcp_fin_timeout"); !n.empty()) {
        stream.fin_wait_2 = stream.host_fin_wait_2 = static_cast<int>(std::min<std::uint64_t>(n[0], 3600));
    }
    if (const auto n = setting("tcp_fastopen"); !n.empty()) stream.fast_open_allowed = static_cast<unsigned>(n[0]);
    fast_open_keys = keys_of(word_of_setting("tcp_fastopen_key"));
    const std::string controller = word_of_setting("tcp_congestion_control");
    stream.congestion = controller == "reno" || controller == "dctcp" || controller == "bbr" ? controller : "cubic";
    if (const auto n = setting("tcp_ecn"); !n.empty()) {
        choose_ecn(static_cast<unsigned>(n[0]), stream);
    }
}

void wire_habits::set_no_path_discovery(int mode) noexcept {
    stream.no_path_discovery = mode;
    stream.path_mtu_discovery = mode != 0 ? 0 : 1; // IP_PMTUDISC_DONT, IP_PMTUDISC_WANT
}

void wire_habits::choose_probing() noexcept {
    using enum tcp::path_probing;
    if (probing != ~0u) stack.tcp.mtu_probing = probing == 0 ? off : probing == 1 ? on_black_hole : always;
}

tcp_tuning wire_habits::connection_tuning() const {
    return [host = stack.tcp, largest = static_cast<std::uint16_t>(mtu - 40)](tcp::parameters& p) {
        p.mss = std::min(p.mss, largest);
        p.path_mss = std::min(p.path_mss, p.mss);
        p.sack = host.sack;
        p.timestamps = host.timestamps;
        p.window_scaling = host.window_scaling;
        p.shrinks_window = host.shrinks_window;
        p.tail_loss_probe = host.tail_loss_probe;
        p.restart_after_idle = host.restart_after_idle;
        p.syn_retries = host.syn_retries;
        p.syn_ack_retries = host.syn_ack_retries;
        p.retries = host.retries;
        p.habits = host.habits;
        p.super_segments = host.super_segments;
        p.sparse_sacks = host.sparse_sacks;
        p.mtu_probing = host.mtu_probing;
        p.mtu_probing_base = host.mtu_probing_base;
        p.mtu_probing_floor = host.mtu_probing_floor;
        p.mtu_probing_threshold = host.mtu_probing_threshold;
        p.mtu_probing_interval = host.mtu_probing_interval;
        p.receive_buffer_limit = host.receive_buffer_limit;
        p.peer_delayed_ack = host.peer_delayed_ack;
        p.syn_linear_timeouts = host.syn_linear_timeouts;
        p.forward_rto = host.forward_rto;
        p.duplicate_sack = host.duplicate_sack;
        p.duplicate_threshold = host.duplicate_threshold;
        p.reordering_limit = host.reordering_limit;
        p.least_segment = host.least_segment;
        p.min_rto = host.min_rto;
        p.max_rto = host.max_rto;
        p.answer_pause = host.answer_pause;
        p.trouble_after = host.trouble_after;
        p.orphan_retries = host.orphan_retries;
        p.quick_acks = host.quick_acks;
        p.delayed_ack = host.delayed_ack;
        p.interactive_after = host.interactive_after;
        p.rto_slop = host.rto_slop;
        p.open_timeout = host.open_timeout;
        p.keeps_time_wait = host.keeps_time_wait;
        p.ecn_fallback = host.ecn_fallback;
        p.accurate_ecn_option = host.accurate_ecn_option;
        p.accurate_ecn_beacon = host.accurate_ecn_beacon;
        p.thin_linear_timeouts = host.thin_linear_timeouts;
        p.fast_path = false; // habits are followed on the general way
    };
}

} // namespace corewire::packetdrill
