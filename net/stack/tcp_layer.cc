#include <corewire/net/stack/tcp_layer.hh>

#include <corewire/net/stack/host_share.hh>
#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/stack/plain_frame.hh>
#include <corewire/net/tcp/arrives/listen.hh>
#include <corewire/net/tcp/open/isn.hh>
#include <corewire/net/tcp/open/syn_cookies.hh>
#include <corewire/net/tcp/receive/timestamps.hh>
#include <corewire/net/tcp/receive/window.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <cerrno>
#include <string>

namespace corewire {

using wire::tcp_flags;

namespace {

constexpr log_event<log_text<32>, log_text<48>> every_syn_is_wrong{
    "tcp", "syn_checksum_wrong", log_level::warn,
    "{}: the TCP checksum of every SYN from {} is wrong. If it is a Linux host at the other end of a veth, "
    "it leaves checksums to the device: run `ethtool -K DEVICE tx off` on its end."};

/// Of the pseudo-header's family.
template <typename Address>
[[gnu::noinline]] bool checksum_ok(const packet& p, const Address& source, const Address& destination) noexcept {
    return wire::pseudo_header_sum(source, destination, wire::ip_protocol::tcp, p.size())
        .add(p.head.bytes())
        .add(p.body.bytes())
        .verifies();
}

/// Not drawn from random_: what else the seed stands for stays as it is.
siphash_key table_secret(const stack_config& config, std::uint64_t salt) {
    if (!config.seed) return siphash_key::random();
    random_generator own(*config.seed ^ salt);
    const std::uint64_t k0 = own.next();
    return {k0, own.next()};
}

} // namespace

tcp_layer::tcp_layer(reactor& loop, ip_output& out, egress& tx, frame_pool& pool, const stack_config& config,
                     stack_statistics& statistics)
    : reactor_(loop), out_(out), egress_(tx), pool_(pool), reserve_(std::min(pool.count() / 4, 64u)),
      rare_(std::min(pool.count() / 2, 256u)), blocks_(std::uint64_t{pool.count()} * pool.frame_size() / 2),
      config_(config), statistics_(statistics),
      port_(out.device().capabilities()), table_(config.max_connections, table_secret(config, 0x74636234)),
      table6_(config.max_connections, table_secret(config, 0x74636236)),
      random_(config.seed ? *config.seed : random_seed()),
      ports_({random_.next(), random_.next()}, {random_.next(), random_.next()}), challenges_(random_.next()),
      budget_(config.buffer_growth != 0 ? config.buffer_growth : std::uint64_t{pool.count()} * pool.frame_size() / 4) {
    CW_ASSERT(out.device().mtu() + frame_headroom <= pool.frame_size() + 40, "the largest segment does not fit a frame of the port's");
    for (siphash_key* key : {&isn_key_, &cookie_key_}) *key = {random_.next(), random_.next()};
    no_cookie_needed_ = config.fast_open_without_cookie;
    looks_closer_ = config.tcp.like_linux();
    fast_open_keys_ = tcp::fast_open_key_chain(config.fast_open_key ? *config.fast_open_key : siphash_key{random_.next(), random_.next()});
    timestamp_key_ = config.timestamp_key ? *config.timestamp_key : table_secret(config, 0x74637473);
    dead_.reserve(64);
}

tcp_layer::~tcp_layer() {
    bury();
    std::vector<tcp_connection*> left;
    for_each_connection([&](tcp_connection& c) { left.push_back(&c); });
    for (tcp_connection* c : left) {
        release_claim(*c);
        delete c;
    }
}

time_point tcp_layer::now() const noexcept { return reactor_.now(); }
ipv4 tcp_layer::own_address() const noexcept { return out_.routes().address(); }

/// What initial numbers, cookies and local ports are drawn from. An IPv6 address is folded into 32 bits by a keyed hash: which
/// ones fold alike nobody outside can find out.
tcp::four_tuple tcp_layer::tuple_of(const flow_name& flow) const noexcept {
    if (flow.is_v4()) return {flow.local.v4().value(), flow.remote.v4().value(), flow.local_port, flow.remote_port};
    const auto folded = [this](const net_address& a) {
        return static_cast<std::uint32_t>(siphash({isn_key_.k1, isn_key_.k0 ^ 6}, a.v6().octets()));
    };
    return {folded(flow.local), folded(flow.remote), flow.local_port, flow.remote_port};
}

std::uint32_t tcp_layer::timestamp_offset(const flow_name& flow) const noexcept {
    if (!flow.is_v4()) return tcp::timestamp_offset(timestamp_key_, flow.local.v6().octets(), flow.remote.v6().octets());
    return tcp::timestamp_offset(timestamp_key_, flow.local.v4().value(), flow.remote.v4().value());
}

// ---- segments in ----

inline void tcp_layer::on_segment(time_point now, tcp_connection& c, const tcp::segment& s, packet& p) {
    const bool again = c.tcb.state() == tcp::tcp_state::time_wait && s.has(tcp_flags::syn) && c.tcb.may_reuse(s);
    if (again && reincarnate(now, c, s, p)) [[unlikely]] return;
    if (c.half_open_ && config_.tcp.habits != tcp::personality::standard) [[unlikely]] {
        if (c.listener_ == nullptr) { // remove_listener()
            c.listener_ = listener_for(c.name());
            if (c.listener_ == nullptr) return send_reset(c.name(), s);
            c.listener_->count_half_open(+1);
        }
        if (c.tcb.defers_handshake()) c.tcb.defer_handshake(c.listener_->deferral()); // as it is now
        // Linux's full backlog: the handshake is not completed, and the SYN-ACK will be repeated (listen(2)). FreeBSD refuses then.
        const bool waits_on = c.tcb.defers_handshake() && s.payload_size == 0 && !s.has(tcp_flags::fin);
        const bool completes = s.has(tcp_flags::ack) && !s.has(tcp_flags::syn) && !s.has(tcp_flags::rst) && !waits_on;
        if (completes && !c.listener_->room_for_ready()) {
            ++statistics_.tcp_backlog_full;
            if (config_.tcp.like_linux() && !c.listener_->refuses_overflow()) return;
            mark_dirty(c);
            c.react(c.tcb.refuse(s.ack));
            return;
        }
    }
    const bool dear = s.payload_size != 0 && (frames_are_rare() || c.tcb.pieces_ahead() >= few_ahead);
    if (dear && !make_affordable(c, s, p)) [[unlikely]] return take_without_payload(now, c, s, p);
    const tcp::event events = c.tcb.on_segment(now, s, p.head, p.body);
    if (c.tcb.wants_output() || c.tcb.next_timeout() < c.wakes_at()) mark_dirty(c); // flush() moves the timer
    if (events != tcp::event::none) c.react(events);
}

/// Frames are scarce: what it acknowledges is heard, since that frees some; its payload will come again.
[[gnu::noinline]] void tcp_layer::take_without_payload(time_point now, tcp_connection& c, const tcp::segment& s, packet& p) {
    ++statistics_.no_frame;
    note_scarcity();
    tcp::segment bare = s;
    bare.cut = true;
    bare.payload_size = 0;
    bare.flags = bare.flags & ~tcp_flags::fin;
    p.head.clear();
    p.body.clear();
    on_segment(now, c, bare, p);
}

/// The addresses of the host have changed since something last came to the flow.
[[gnu::noinline]] bool tcp_layer::look_at_addresses(ipv6_flow& flow, const ipv6_addresses& ours) noexcept {
    if (!ours.is_ours(flow.name.local.v6()) || ours.is_ours(flow.name.remote.v6())) return false;
    flow.addresses = ours.generation();
    return true;
}

/// The header of the segment that p.head starts with, which is removed. False: damaged or malformed, and counted.
template <typename Address>
[[gnu::always_inline]] inline bool tcp_layer::take_header(packet& p, const Address& source, const Address& destination, ip_arrival under,
                                                          tcp::segment& s, header_ports& ports) {
    ++statistics_.tcp_general_in;
    const std::uint32_t l4_size = p.size();
    wire::tcp_view view;
    if (wire::tcp_view::parse(p.head.bytes(), view) != wire::parse_error::none) [[unlikely]] {
        ++statistics_.malformed_tcp;
        return false;
    }
    if (!has(p.flags, offload::l4_checksum_good) && !checksum_ok(p, source, destination)) [[unlikely]] {
        ++statistics_.bad_tcp_checksum;
        explain_bad_checksum(source, view.flags());
        return false;
    }
    if (looks_closer_ && !stands_a_closer_look(source, destination, view, under.hops_left)) [[unlikely]] return false;
    // Linux and FreeBSD take what stands before.
    const bool whole = wire::tcp_options::parse(view.options(), s.options) == wire::parse_error::none;
    if (!whole && config_.tcp.habits == tcp::personality::standard) [[unlikely]] {
        ++statistics_.malformed_tcp; // RFC 9293 3.1 (MUST-7): an illegal option length is handled without failing
        return false;
    }
    s.seq = tcp::seq_number{view.sequence()};
    s.ack = tcp::seq_number{view.acknowledgment()};
    s.window = view.window();
    s.flags = view.flags();
    s.urgent = view.urgent_pointer();
    const auto header_size = static_cast<std::uint32_t>(view.header_size());
    if (has(s.flags, tcp_flags::syn)) [[unlikely]] {
        bad_syns_ = 0;
        syn_header_ = header_size;
        syn_ip_header_ = under.header_size;
    }
    s.payload_size = l4_size - header_size;
    s.ecn = under.ecn;
    ports = {view.destination_port(), view.source_port()};
    p.head.remove_prefix(header_size);
    return true;
}

void tcp_layer::input(time_point now, packet& p, ipv4 source, ipv4 destination, ip_arrival under) {
    tcp::segment s;
    header_ports ports;
    if (!take_header(p, source, destination, under, s, ports)) [[unlikely]] return;
    const flow_key key{destination.value(), source.value(), ports.local, ports.remote};
    tcp_connection* c = table_.find(key);
    if (c == nullptr) [[unlikely]] {
        no_connection(now, key, s, p);
        return;
    }
    on_segment(now, *c, s, p);
}

void tcp_layer::input(time_point now, packet& p, const net_address& source, const net_address& destination, ip_arrival under) {
    constexpr std::uint16_t default_mss = 1220; // RFC 9293 3.7.1 (MUST-15)
    tcp::segment s;
    header_ports ports;
    if (!take_header(p, source, destination, under, s, ports)) return;
    const bool unnamed = !s.options.has_mss() || (s.options.mss == 0 && config_.tcp.like_freebsd());
    if (s.has(tcp_flags::syn) && unnamed) s.options.set_mss(default_mss);
    const flow_name flow(destination, source, ports.local, ports.remote);
    if (tcp_connection* c = table6_.find(flow)) {
        on_segment(now, *c, s, p);
    } else {
        no_connection(now, flow, s, p);
    }
}

void tcp_layer::no_connection(time_point now, const flow_name& flow, const tcp::segment& s, packet& p, const tcp::seq_number* floor) {
    if (tcp_listen_socket* const found = listener_for(flow)) {
        tcp_listen_socket& listener = *found;
        switch (tcp::on_listen(s, config_.tcp.like_freebsd())) {
        case tcp::listen_verdict::ignore: break;
        case tcp::listen_verdict::reset: // unless it is a cookie that comes home
            if (!s.has(tcp_flags::syn) && (on_cookie(now, listener, flow, s, p) || listener.cookie_is_out(now))) break;
            send_reset(flow, s);
            break;
        case tcp::listen_verdict::open: on_syn(now, listener, flow, s, p, floor); break;
        }
        return;
    }
    ++statistics_.tcp_no_connection;
    send_reset(flow, s);
}

void tcp_layer::on_syn(time_point now, tcp_listen_socket& listener, const flow_name& flow, const tcp::segment& s, packet& p,
                       const tcp::seq_number* floor) {
    // A SYN from an address that many hosts share can't open anything (RFC 9293 3.9.2.3, MUST-63).
    if (!flow.remote.is_unicast() || flow.remote_port == 0) return;
    // In the place of a connection in TIME-WAIT it takes no more room in the table, and its peer is known to be there (reincarnate()).
    if (config_.tcp.like_linux() && !listener.room_for_ready() && floor == nullptr) { // Linux: it may find room when it comes again
        ++statistics_.tcp_backlog_full;
        return;
    }
    // FreeBSD's cache of SYNs is large, and none of its listeners'.
    const bool crowded = !config_.tcp.like_freebsd() && (!listener.room_for_half_open() || !listener.room_for_ready());
    const bool full = crowded || connections() >= table_.limit() * 3 / 4;
    if (full && floor == nullptr) {
        ++statistics_.tcp_backlog_full;
        // A cookie is for who would find a place as soon as his ACK comes. Who waits for accept() is dropped, and comes again: nobody would
        // repeat the ACK of a cookie, and he might wait for our first word.
        const bool may = listener.cookies() != tcp_listen_socket::cookie_use::off && listener.room_for_ready();
        if (may) answer_with_cookie(now, listener, flow, s);
        return;
    }
    if (listener.cookies() == tcp_listen_socket::cookie_use::always && floor == nullptr) return answer_with_cookie(now, listener, flow, s);
    // A SYN that was answered with a cookie may come again and find room: both answers must have the same number.
    const std::uint16_t mss = s.options.has_mss() ? s.options.mss : std::uint16_t{536};
    tcp::seq_number iss = listener.cookie_is_out(now) ? tcp::make_cookie(cookie_key_, now, tuple_of(flow), s.seq, mss)
                                                      : tcp::initial_sequence_number(isn_key_, now, tuple_of(flow));
    if (floor != nullptr) {
        iss = *floor + incarnation_gap; // Linux's habit is that, and no more
        if (!config_.tcp.like_linux()) iss = later(tcp::initial_sequence_number(isn_key_, now, tuple_of(flow)), iss);
    }
    const tcp::fast_open_answer fast_open = judge_fast_open(now, listener, flow, s);
    tcp::parameters ours = parameters_for(listener.options().stream, flow.remote, listener.tuning());
    if (listener.reflects_service()) reflect_service(ours, flow, p);
    tcp_connection* c = add_connection(flow, tcp::tcb(now, tcp::passive_open{iss, s, fast_open}, ours));
    if (c == nullptr) return;
    c->keep_choices(listener.options().stream);
    claim_port_for(*c);
    if (listener.saved_headers() != tcp_listen_socket::syn_headers::none) save_syn(*c, listener, p);
    if (fast_open.take_data) {
        open_early(listener, *c, p);
        mark_dirty(*c);
        return;
    }
    c->listener_ = &listener;
    c->half_open_ = true;
    listener.count_half_open(+1);
    if (listener.deferral() != 0) c->tcb.defer_handshake(listener.deferral());
    mark_dirty(*c);
}

/// The ACK of a handshake that we kept nothing of. True if it was one, and a connection has been made of it.
bool tcp_layer::on_cookie(time_point now, tcp_listen_socket& listener, const flow_name& flow, const tcp::segment& s, packet& p) {
    if (!listener.cookies_live(now)) return false;
    const tcp::seq_number irs = s.seq - 1;
    const tcp::seq_number cookie = s.ack - 1;
    const auto mss = tcp::check_cookie(cookie_key_, now, tuple_of(flow), irs, cookie);
    if (!mss) {
        ++statistics_.tcp_cookies_rejected;
        return false;
    }
    if (!listener.room_for_ready() && config_.tcp.like_linux()) { // dropped: on_established() has room for some more, and refuses the rest
        ++statistics_.tcp_backlog_full;
        return true;
    }
    tcp::cookie_terms terms{.mss = *mss};
    if (s.options.has_timestamps()) terms = tcp::terms_of_timestamp(s.options.timestamp_echo - timestamp_offset(flow), *mss);
    const tcp::parameters ours = parameters_for(listener.options().stream, flow.remote, listener.tuning());
    const tcp::cookie_open how{.iss = cookie,
                               .irs = irs,
                               .peer_mss = terms.mss,
                               .window = s.window,
                               .sack_permitted = terms.sack,
                               .timestamps = terms.timestamps,
                               .window_scale = terms.window_scale,
                               .peer_timestamp = s.options.timestamp_value,
                               .ecn = terms.ecn && tcp::agrees_to_ecn(ours),
                               .accurate_ecn = tcp::cookie_tells_of_accurate(ours, terms.ecn, tcp::ace_of(s.flags))};
    tcp_connection* c = add_connection(flow, tcp::tcb(now, how, ours));
    if (c == nullptr) return true;
    c->keep_choices(listener.options().stream);
    claim_port_for(*c);
    ++statistics_.tcp_cookies_accepted;
    c->listener_ = &listener;
    c->half_open_ = true;
    listener.count_half_open(+1);
    on_segment(now, *c, s, p);
    return true;
}

tcp_connection* tcp_layer::add_connection(const flow_name& flow, tcp::tcb&& block) {
    auto c = std::make_unique<tcp_connection>(*this, flow, std::move(block));
    if (connections() >= table_.limit()) [[unlikely]] end_a_time_wait();
    if (connections() >= table_.limit() || !(flow.is_v4() ? table_.insert(c->key, *c) : table6_.insert(flow, *c))) {
        ++statistics_.tcp_connection_limit;
        return nullptr;
    }
    c->tcb.set_timestamp_offset(timestamp_offset(flow));
    prepare_path(*c);
    return c.release();
}

void tcp_layer::prepare_path(tcp_connection& c) noexcept {
    const tcp::parameters& p = c.tcb.options();
    if (c.six != nullptr) {
        out_.six()->prepare(c.six->path, c.six->name, wire::ip_protocol::tcp);
        c.six->path.set_marks(p.traffic_class, p.hop_limit);
        ipv6_frame::prepare(c.six->path, c.key);
        return;
    }
    out_.prepare(c.path, ipv4(c.key.local_address), ipv4(c.key.remote_address), wire::ip_protocol::tcp);
    c.path.set_marks(p.type_of_service, p.time_to_live);
    ipv4_frame::prepare(c.path, c.key);
}

void tcp_layer::mark(tcp_connection& c, const tcp_options_set& options) noexcept {
    tcp::parameters marks = config_.tcp;
    choose_marks(marks, options.hops, options.traffic_class);
    c.tcb.set_marking(marks.type_of_service, marks.traffic_class, marks.time_to_live, marks.hop_limit);
    on_marking_changed(c);
}

tcp::parameters tcp_layer::parameters_for(const tcp_options_set& options, const net_address& remote,
                                          const tcp_tuning& tuning) {
    tcp::parameters p = config_.tcp;
    // RFC 9293 3.7.1 (MUST-67), RFC 6691 2: what we say is what we can receive; what we send is bounded by the path. Linux and FreeBSD
    // say what they send.
    const std::uint32_t headers = remote.is_v4() ? 40 : 60, path = out_.path_mtu_to(reactor_.now(), remote);
    p.path_mss = static_cast<std::uint16_t>(path - headers);
    p.mss = p.habits == tcp::personality::standard ? static_cast<std::uint16_t>(out_.link_mtu(remote) - headers) : p.path_mss;
    if (const route_sizes way = out_.sizes_to(remote); way.segment != 0) p.mss = std::min(p.mss, std::max(way.segment, p.least_segment));
    p.no_delay = options.no_delay;
    p.counted = p.counted || options.statistics;
    p.receive_buffer = options.receive_buffer;
    p.send_buffer = options.send_buffer;
    const tcp_options_set standard; // a size that somebody has chosen stays
    if (options.receive_buffer == standard.receive_buffer) p.receive_growth_limit = config_.largest_receive_buffer;
    if (options.send_buffer == standard.send_buffer) p.send_growth_limit = config_.largest_send_buffer;
    p.budget = &budget_;
    p.common = &commons_;
    p.keepalive = options.keepalive;
    p.keepalive_idle = options.keepalive_idle;
    p.keepalive_interval = options.keepalive_interval;
    p.keepalive_probes = static_cast<std::uint8_t>(std::min(options.keepalive_probes, 255u));
    choose_congestion(p, options.congestion);
    choose_path_probing(p, options.mtu_probing);
    if (!remote.is_v4() && !p.like_linux()) { // RFC 8200 5: 1,280 bytes get through everywhere
        p.mtu_probing_base = std::max<std::uint16_t>(p.mtu_probing_base, 1208);
        p.mtu_probing_floor = std::max<std::uint16_t>(p.mtu_probing_floor, 1208);
    }
    p.fin_wait_2 = options.fin_wait_2 != duration{0} ? options.fin_wait_2 : config_.orphan_timeout;
    if (options.user_timeout != duration{0}) p.user_timeout = options.user_timeout;
    if (options.advertised_user_timeout != duration{0}) p.advertised_user_timeout = options.advertised_user_timeout;
    p.reset_on_close = options.reset_on_close;
    p.max_pacing_rate = std::min(p.max_pacing_rate, options.max_pacing_rate);
    choose_marks(p, options.hops, options.traffic_class);
    p.challenges = &challenges_;
    if (tuning) tuning(p);
    return p;
}

// ---- events of connections ----

void tcp_layer::on_wake(tcp_connection& c) noexcept {
    c.confirm_neighbor();
    const tcp::event events = c.tcb.on_timer(reactor_.now());
    mark_dirty(c); // also re-arms the timer
    if (has(events, tcp::event::path_mtu_fell)) share_path_mtu(reactor_.now(), c);
    if (events != tcp::event::none) c.react(events);
}

/// Over IPv4 there is no other gateway to go to.
void tcp_layer::doubt_next_hop(const tcp_connection& c) noexcept {
    if (c.six != nullptr) out_.six()->doubt(reactor_.now(), c.six->path.via);
}

void tcp_layer::on_established(tcp_connection& c) noexcept {
    tcp_listen_socket& listener = *c.listener_;
    listener.count_half_open(-1);
    c.half_open_ = false;
    if (!listener.on_established(c)) {
        c.listener_ = nullptr;
        ++statistics_.tcp_backlog_full;
        c.tcb.abort(); // more connections than the backlog: the peer hears of it at once
        mark_dirty(c);
    }
}

/// What is steered to a port must come to us as long as a connection on it lives, listener or not.
void tcp_layer::claim_port_for(tcp_connection& c) {
    if (config_.share == nullptr) return;
    config_.share->claim_port(wire::ip_protocol::tcp, c.name().local, c.key.local_port);
    c.claim_ = tcp_connection::claim::port;
}

void tcp_layer::release_claim(tcp_connection& c) noexcept {
    using claim = tcp_connection::claim;
    const claim had = std::exchange(c.claim_, claim::none);
    if (had == claim::port) config_.share->release_port(wire::ip_protocol::tcp, c.name().local, c.key.local_port);
    if (had == claim::flow || had == claim::in_progress) config_.share->release_flow(c.name());
}

void tcp_layer::on_routes_changed(bool four, bool six) noexcept {
    for_each_connection([&](tcp_connection& c) {
        if (c.six == nullptr ? four : six) prepare_path(c);
    });
}

bool tcp_layer::has_in_flight(const flow_name& flow, tcp::seq_number seq) const noexcept {
    const tcp_connection* const c = find(flow);
    return c != nullptr && c->tcb.acknowledged() <= seq && seq <= c->tcb.time_wait_floor();
}

void tcp_layer::on_address_gone(ipv4 address) {
    std::vector<tcp_connection*> of_it; // the table changes as they go
    table_.for_each([&](tcp_connection& c) {
        if (ipv4(c.key.local_address) == address) of_it.push_back(&c);
    });
    for (tcp_connection* c : of_it) c->abort();
}

[[gnu::noinline]] void tcp_layer::on_closed(tcp_connection& c) noexcept {
    if (c.erased_) return;
    c.erased_ = true;
    ++over_;
    closed_counters_ += c.tcb.statistics();
    release_claim(c);
    if (c.six == nullptr) {
        table_.erase(c.key);
        if (last4_.connection == &c) last4_ = {};
    } else {
        table6_.erase(c.six->name);
        if (last6_.connection == &c) last6_ = {};
    }
    c.timer::cancel();
    const bool early = c.early_listener_ != nullptr;
    if (early) {
        if (c.tcb.error() == std::errc::connection_reset) c.early_listener_->on_early_reset(now());
        on_early_established(c);
    }
    if (c.listener_ != nullptr) {
        const std::errc why = c.tcb.error();
        const bool reset = why == std::errc::connection_reset || why == std::errc::broken_pipe; // behind the peer's FIN
        if (c.half_open_) c.listener_->count_half_open(-1);
        else if (c.tcb.options().like_linux() && (early || reset)) return; // accept() gives it yet
        else if (c.tcb.options().like_freebsd()) return; // accept() tells of it
        std::exchange(c.listener_, nullptr)->forget(c);
    }
    if (!c.has_user_) doom(c);
}

void tcp_layer::let_go(tcp_connection& c) noexcept {
    static_cast<accept_hook&>(c).unlink();
    c.orphan();
    if (c.erased_) doom(c);
}

/// It is deleted at the end of this turn, when nobody looks at it any more.
void tcp_layer::doom(tcp_connection& c) noexcept {
    dead_.push_back(&c);
    egress_.leave_chores();
}

[[gnu::noinline]] void tcp_layer::bury() noexcept {
    over_ -= dead_.size();
    for (tcp_connection* c : dead_) {
        if (!saved_syns_.empty()) saved_syns_.erase(c);
        if (!reports_.empty()) reports_.erase(c);
        delete c;
    }
    dead_.clear();
}

void tcp_layer::on_icmp_error(const flow_name& flow, std::errc what, bool hard, tcp::seq_number seq, const icmp_report* said) {
    tcp_connection* c = find(flow);
    if (c == nullptr) return;
    if (hard && what == std::errc::host_unreachable) hard = c->opened_here_; // our own link's word, and no router's: it ends a connect()
    // Linux's habit: whatever it is, it ends what Fast Open has opened and accept() has not given yet. What it has given is a connection.
    if (c->early_listener_ != nullptr && c->tcb.options().like_linux()) hard = c->listener_ != nullptr;
    const tcp::event events = c->tcb.on_icmp_error(what, hard, seq);
    const bool heard = c->opened_here_ || c->early_listener_ != nullptr;
    if (said != nullptr && heard && has(events, tcp::event::reset)) keep_report(*c, what, *said);
    mark_dirty(*c);
    if (events != tcp::event::none) c->react(events);
}

// ---- sockets ----

std::uint16_t tcp_layer::choose_listen_port(std::uint16_t wanted) {
    if (wanted != 0) return wanted;
    for (int attempt = 0; attempt < 1000; ++attempt) {
        const auto port = static_cast<std::uint16_t>(49'152 + random_.below(16'384));
        if (!listeners_.has_port(port)) return port;
    }
    throw std::system_error(std::make_error_code(std::errc::address_in_use), "bind: no free port");
}

/// Kernel peers on a veth leave checksums to a NIC that does not exist: say so once, instead of staying silent. A few SYNs that were
/// damaged on the way are another matter: between those others are good.
void tcp_layer::explain_bad_checksum(const net_address& source, tcp_flags flags) {
    if (!has(flags, tcp_flags::syn)) return;
    if (std::exchange(bad_syn_source_, source) != source) bad_syns_ = 0;
    if (++bad_syns_ != 3) return;
    log_message(every_syn_is_wrong, out_.device().name(), to_string(source));
}

void tcp_layer::add_listener(tcp_listen_socket& listener) {
    const std::uint16_t port = listener.bound_to().port;
    if (!listeners_.add(listener, config_.tcp.habits != tcp::personality::standard))
        throw std::system_error(std::make_error_code(std::errc::address_in_use), "bind port " + std::to_string(port));
    if (config_.share == nullptr) return;
    try {
        config_.share->claim_port(wire::ip_protocol::tcp, listener.claims(), port);
    } catch (...) {
        listeners_.remove(listener);
        throw;
    }
}

void tcp_layer::remove_listener(tcp_listen_socket& listener) noexcept {
    if (listeners_.remove(listener) && config_.share != nullptr)
        config_.share->release_port(wire::ip_protocol::tcp, listener.claims(), listener.bound_to().port);
    for_each_connection([&](tcp_connection& c) {
        if (c.early_listener_ == &listener) on_early_established(c);
        if (c.listener_ != &listener) return;
        if (c.half_open_) listener.count_half_open(-1);
        if (c.half_open_ && config_.tcp.like_freebsd()) { // its cache of SYNs knows no listeners, and repeats its answers
            c.listener_ = nullptr;
            return;
        }
        c.half_open_ = false; // a segment may reach it before it goes
        listener.forget(c);
        c.listener_ = nullptr;
        c.tcb.abort();
        mark_dirty(c);
    });
}

} // namespace corewire
