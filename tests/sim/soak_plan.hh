// What a seed of the soak stands for: a cable, two hosts with their options and their memory, the connections and what they
// carry. Drawn here, lived through in soak_world.hh.
#pragma once

#include <corewire/net/sim/simulation.hh>
#include <corewire/net/tcp/congestion/controller.hh>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace corewire::soaking {

/// One connection as it was planned, and what came of it. Bytes of each direction follow a pattern of their own.
struct exchange {
    std::uint32_t number = 0;
    std::uint64_t up = 0, down = 0; ///< bytes from the client, from the server
    std::uint32_t write_size = 1000;
    duration start{}, client_pause{}, server_pause{}; ///< before it begins; after each read
    std::uint64_t abort_after = UINT64_MAX;           ///< the client's reader aborts when it has so many bytes
    bool over_ipv6 = false;
    tcp_options_set options{};

    duration client_ended = duration::max(), server_ended = duration::max(); ///< since the beginning
    std::optional<std::errc> client_error, server_error; ///< set when that end is over; errc{}: all went well
    bool server_began = false;
    duration aborted = duration::max(); ///< since the beginning
};

/// The closed list of what a connection may end with, whatever befell it. Anything else says that something else broke.
constexpr bool may_end_with(std::errc how) noexcept {
    using enum std::errc;
    constexpr std::array known{std::errc{},          connection_reset, connection_refused, connection_aborted, broken_pipe, timed_out,
                               host_unreachable, operation_canceled};
    return std::ranges::find(known, how) != known.end();
}

/// Something that befalls the world.
struct mishap {
    enum class kind { partition, one_way, freeze_server, freeze_client, jump_server, jump_client, crash_server, stop_server };
    static constexpr std::array<const char*, 8> names{"partition",   "one way",     "frozen server",  "frozen client",
                                                      "server jump", "client jump", "crashed server", "stopped server"};
    kind what;
    duration at;
    duration lasts;

    /// It may end connections that do nothing wrong: a crash; a stop; more time without a network, or past them, than keepalives and
    /// retransmissions bear. All else has to be borne.
    bool violent() const { return ends_sessions() || lasts > std::chrono::minutes{1}; }
    /// What the server had in hand may be gone without having come to an end.
    bool ends_sessions() const { return what == kind::crash_server || what == kind::stop_server; }
};

struct plan {
    std::uint64_t seed = 0;
    sim_link_options forward, backward;
    sim_host_options client, server;
    listen_options listening{};
    std::vector<exchange> exchanges;
    std::vector<mishap> mishaps;
    std::uint32_t hole = UINT32_MAX; ///< longer frames vanish on the way to the server, and nobody says so

    static plan draw(std::uint64_t seed);
    /// May an end of this exchange have failed that was over then?
    bool excuses_client(const exchange& e) const { return excuses(e, e.client_ended); }
    /// What befell the server afterwards is no excuse. An exchange of which it never heard was over when the client was; a session that a
    /// crash or a stop took away ended then.
    bool excuses_server(const exchange& e) const {
        if (e.server_error || !e.server_began) return excuses(e, e.server_error ? e.server_ended : e.client_ended);
        return std::ranges::any_of(mishaps, &mishap::ends_sessions);
    }
    std::string describe() const;
    static ipv6 client_address() { return *ipv6::parse("2001:db8::c"); }
    static ipv6 server_address() { return *ipv6::parse("2001:db8::5"); }

private:
    bool excuses(const exchange& e, duration ended) const {
        using namespace std::chrono_literals;
        // A listener that answered by a SYN cookie forgets after ten seconds that it did: what reaches it first then, and does not bring
        // the cookie, is reset (docs/rfc/9293.md, deviations).
        const bool cookies = listening.backlog == 1, freebsd = server.stack.tcp.like_freebsd();
        if (cookies && freebsd) return true; // whose full queue resets (net.inet.tcp.syncache.rst_on_sock_fail)
        const bool forgets = cookies || freebsd; // who repeats a SYN-ACK three times
        return e.aborted <= ended || std::ranges::any_of(mishaps, [&](const mishap& m) {
                   return m.at <= ended && (m.violent() || (forgets && m.lasts > 10s));
               });
    }
};

namespace detail {

template <typename T, std::size_t N>
T one_of(random_generator& r, const std::array<T, N>& values) {
    return values[r.below(N)];
}
inline duration between(random_generator& r, duration low, duration high) {
    return low + duration(static_cast<std::int64_t>(r.below(static_cast<std::uint64_t>((high - low).count()) + 1)));
}

inline sim_link_options draw_link(random_generator& r) {
    using namespace std::chrono_literals;
    sim_link_options o;
    o.latency = one_of(r, std::array<duration, 6>{5us, 100us, 1ms, 10ms, 40ms, 150ms});
    o.bits_per_second = one_of<std::uint64_t>(r, std::array<std::uint64_t, 5>{0, 2'000'000, 20'000'000, 200'000'000, 10'000'000'000});
    o.queue_bytes = one_of<std::uint64_t>(r, std::array<std::uint64_t, 4>{6'000, 20'000, 100'000, 1 << 20});
    if (r.chance(.7)) o.loss = one_of(r, std::array{.001, .01, .05, .15});
    if (r.chance(.4)) o.duplicate = one_of(r, std::array{.01, .1, .3});
    if (r.chance(.4)) o.corrupt = one_of(r, std::array{.001, .02, .1});
    if (r.chance(.5)) o.mark = one_of(r, std::array{.01, .1, .5});
    if (r.chance(.5)) {
        o.reorder = one_of(r, std::array{.01, .1, .5});
        o.reorder_delay = between(r, 1us, o.latency * 4);
    }
    return o;
}

inline sim_host_options draw_host(random_generator& r) {
    using namespace std::chrono_literals;
    sim_host_options h;
    h.nic.frames = one_of(r, std::array{96u, 192u, 512u, 1024u});
    h.nic.inbox = one_of(r, std::array{8u, 32u, 256u});
    h.uptime = one_of(r, std::array<duration, 3>{1s, 1000s, std::chrono::hours{24 * 49}}); // timestamps wrap in the third
    stack_config& s = h.stack;
    s.max_connections = 64;
    s.reassembly_frames = 1;
    s.neighbors.max_entries = 16; // of whom there is one: invariants look at each after every turn
    s.udp = {};
    tcp::parameters& t = s.tcp;
    t.timestamps = !r.chance(.2);
    t.sack = !r.chance(.2);
    t.window_scaling = !r.chance(.2);
    t.ecn = r.chance(.2);
    t.accurate_ecn = r.chance(.2);
    t.habits = r.chance(.3) ? tcp::personality::linux_ : r.chance(.3) ? tcp::personality::freebsd : tcp::personality::standard;
    t.pacing = r.chance(.2);
    t.mtu_probing = one_of(r, std::array{tcp::path_probing::off, tcp::path_probing::on_black_hole, tcp::path_probing::always});
    t.fast_open_without_cookie = s.fast_open_without_cookie = r.chance(.3);
    s.ipv6.emplace().duplicate_probes = 0;
    t.tail_loss_probe = !r.chance(.2);
    t.fast_path = !r.chance(.3);
    t.delayed_ack = one_of(r, std::array<duration, 3>{0ms, 40ms, 200ms});
    constexpr std::array kinds{&tcp::reno_congestion, &tcp::cubic_congestion, &tcp::cubic_congestion, &tcp::bbr_congestion,
                               &tcp::dctcp_congestion};
    t.congestion = one_of(r, kinds);
    t.receive_pieces = one_of(r, std::array{16u, 64u, 2048u});
    t.reassembly_pieces = one_of(r, std::array{4u, 32u, 1024u});
    t.send_chunks = one_of(r, std::array{8u, 64u, 4096u});
    t.keepalive_idle = 60s;
    // Attempts enough that bad luck alone ends nothing, with two frames of five lost.
    t.syn_retries = t.syn_ack_retries = t.retries = t.orphan_retries = 30;
    // What ships, and RFC 9293's 2 MSL: a minute is no longer than the longest RTO, after which a FIN may come again (world::judge()).
    t.time_wait = r.chance(.5) ? 60s : 4min;
    return h;
}

inline tcp_options_set draw_options(random_generator& r) {
    using namespace std::chrono_literals;
    tcp_options_set o;
    o.no_delay = r.chance(.5);
    o.receive_buffer = one_of(r, std::array{4'000u, 16'000u, 60'000u, 1u << 20});
    o.send_buffer = one_of(r, std::array{2'000u, 16'000u, 60'000u, 1u << 20});
    o.fast_open = r.chance(.4);
    if (r.chance(.2)) o.max_pacing_rate = one_of<std::uint64_t>(r, std::array<std::uint64_t, 3>{20'000, 1'000'000, 100'000'000});
    using enum congestion_algorithm;
    if (r.chance(.2)) o.congestion = one_of(r, std::array{newreno, dctcp, bbr});
    o.keepalive = true; // or who waits for a host that has crashed waits for ever
    o.keepalive_idle = 60s;
    o.keepalive_interval = 20s;
    o.keepalive_probes = 16;
    return o;
}

inline exchange draw_exchange(random_generator& r, std::uint32_t number) {
    using namespace std::chrono_literals;
    exchange e;
    e.number = number;
    const std::uint64_t most = one_of<std::uint64_t>(r, std::array<std::uint64_t, 4>{10, 2'000, 30'000, 120'000});
    e.up = r.chance(.2) ? 0 : r.below(most + 1);
    e.down = r.chance(.2) ? 0 : r.below(most + 1);
    e.write_size = one_of(r, std::array{3u, 100u, 1'448u, 9'000u});
    if (most > 2'000) e.write_size = std::max(e.write_size, 100u);
    e.start = between(r, 0ns, 200ms);
    if (r.chance(.2)) e.client_pause = between(r, 1us, 20ms);
    if (r.chance(.2)) e.server_pause = between(r, 1us, 20ms);
    if (r.chance(.1)) e.abort_after = r.below(e.down + 1);
    e.over_ipv6 = r.chance(.4);
    e.options = draw_options(r);
    return e;
}

inline mishap draw_mishap(random_generator& r) {
    using namespace std::chrono_literals;
    using enum mishap::kind;
    mishap m;
    m.what = one_of(r, std::array{partition, partition, one_way, freeze_server, freeze_client, jump_server, jump_client, crash_server});
    m.at = between(r, 0ns, r.chance(.5) ? duration(300ms) : duration(20s));
    m.lasts = one_of(r, std::array<duration, 5>{5ms, 200ms, 2s, 20s, 30min});
    if (m.what == freeze_server || m.what == freeze_client) m.lasts = std::min<duration>(m.lasts, 20s);
    return m;
}

} // namespace detail

inline plan plan::draw(std::uint64_t seed) {
    using namespace std::chrono_literals;
    random_generator r(seed * 0x2545f4914f6cdd1dull + 1);
    plan p;
    p.seed = seed;
    p.forward = detail::draw_link(r);
    p.backward = r.chance(.6) ? p.forward : detail::draw_link(r);
    p.client = detail::draw_host(r);
    p.server = detail::draw_host(r);
    p.listening.backlog = r.chance(.2) ? 1 : 16; // one: SYN cookies
    p.listening.stream = detail::draw_options(r);
    p.listening.fast_open = r.chance(.5) ? 16 : 0;
    p.client.stack.ipv6->address = ipv6_prefix(plan::client_address(), 64);
    p.server.stack.ipv6->address = ipv6_prefix(plan::server_address(), 64);
    const auto searches = [](const sim_host_options& h) { return h.stack.tcp.mtu_probing != tcp::path_probing::off; };
    if (searches(p.client) && searches(p.server) && r.chance(.2)) p.hole = detail::one_of(r, std::array{1'300u, 1'400u});
    const std::uint64_t connections = 1 + r.below(4);
    for (std::uint32_t i = 0; i < connections; ++i) p.exchanges.push_back(detail::draw_exchange(r, i));
    for (std::uint64_t n = r.chance(.5) ? 1 + r.below(3) : 0; n > 0; --n) p.mishaps.push_back(detail::draw_mishap(r));
    if (r.chance(.1)) p.mishaps.push_back({mishap::kind::stop_server, detail::between(r, 0ns, 1s), {}}); // in the middle of all
    if (r.chance(.1)) p.client.nic.frames = p.server.nic.frames = 40; // drawn last: others live as before
    return p;
}

inline std::string plan::describe() const {
    const auto ms = [](duration d) { return std::to_string(static_cast<double>(d.count()) / 1e6) + " ms"; };
    const auto link = [&](const sim_link_options& o) {
        return ms(o.latency) + ", " + std::to_string(o.bits_per_second) + " bit/s, queue " + std::to_string(o.queue_bytes) +
               ", loss " + std::to_string(o.loss) + ", duplicate " + std::to_string(o.duplicate) + ", corrupt " +
               std::to_string(o.corrupt) + ", reorder " + std::to_string(o.reorder) + ", mark " + std::to_string(o.mark);
    };
    std::string out = "seed " + std::to_string(seed) + ": " + link(forward) + " | " + link(backward) + "; frames " +
                      std::to_string(client.nic.frames) + ", " + std::to_string(server.nic.frames);
    for (const sim_host_options* h : {&client, &server}) {
        const tcp::parameters& t = h->stack.tcp;
        out += h == &client ? "; client" : "; server";
        if (t.like_linux()) out += " linux";
        if (t.like_freebsd()) out += " freebsd";
        if (t.ecn || t.accurate_ecn) out += t.accurate_ecn ? " AccECN" : " ECN";
        if (t.pacing) out += " paces";
        if (t.fast_open_without_cookie) out += " needs no cookie";
        out += " probing " + std::to_string(static_cast<int>(t.mtu_probing));
    }
    if (hole != UINT32_MAX) out += "; a hole for frames above " + std::to_string(hole);
    for (const exchange& e : exchanges) {
        out += "; [" + std::to_string(e.number) + "] up " + std::to_string(e.up) + " down " + std::to_string(e.down);
        if (e.over_ipv6) out += " over IPv6";
        if (e.options.fast_open) out += " Fast Open";
        if (e.abort_after != UINT64_MAX) out += " aborts after " + std::to_string(e.abort_after);
    }
    for (const mishap& m : mishaps)
        out += "; mishap " + std::to_string(static_cast<int>(m.what)) + " at " + ms(m.at) + " for " + ms(m.lasts);
    return out;
}

} // namespace corewire::soaking
