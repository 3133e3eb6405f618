// The sending half of tcp_layer: from "this connection has something to say" to packets in egress.
//
//     frame:  [ headroom ... | Ethernet | IPv4 or IPv6 | TCP + options | payload ]
//
// Payload travels in one of three ways, the first that is possible:
//   in place   the chunk is ours alone and what stands before it is dead: the headers go into its own headroom;
//   copied     small (up to copy_limit bytes), or not in one piece: into the frame that holds the headers;
//   by reference   the headers get a frame, the payload is packet::body (ports without gather copy it themselves).
//
// Two ways lead here: emit_plain() for the everyday segment, emit_all() and emit() for everything. What they need to know of the family
// is in the connection's path and in what keeps that right (ip_output, ipv6_output).
#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/stack/plain_frame.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/tcp/arrives/closed.hh>
#include <corewire/net/tcp/fast_path.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <cstring>

namespace corewire {

namespace {

constexpr std::uint32_t copy_limit = 256; ///< bytes: a copy of four cache lines is cheaper than a second reference

/// Fixed-size where it can be: nearly every segment carries timestamps and nothing else.
inline void copy_options(std::byte* at, const tcp::outgoing_segment& s) noexcept {
    constexpr std::uint32_t usual = wire::tcp_options::timestamps_size;
    if (s.option_size == usual) [[likely]] {
        std::memcpy(at, s.options.data(), usual);
    } else {
        std::memcpy(at, s.options.data(), s.option_size);
    }
}

/// The compiler shall not know how short it is: its own loop for that is longer than memcpy().
inline void copy_payload(std::byte* to, const std::byte* from, std::size_t size) noexcept {
    asm("" : "+r"(size));
    std::memcpy(to, from, size);
}

/// The TCP header and its options, checksum zero.
[[gnu::always_inline]] inline void write_header(std::byte* at, const flow_key& key, const tcp::outgoing_segment& s) noexcept {
    const wire::tcp_header header{.source_port = key.local_port,
                                  .destination_port = key.remote_port,
                                  .sequence = s.seq.value,
                                  .acknowledgment = s.ack.value,
                                  .flags = s.flags,
                                  .window = s.window,
                                  .urgent_pointer = s.urgent};
    header.emit({at, wire::tcp_header::min_size + s.option_size}, s.option_size);
    copy_options(at + wire::tcp_header::min_size, s);
}

} // namespace

/// One wheel timer a connection, moved only when a deadline comes earlier than the wheel knows: a timer that fires early
/// asks again, and a retransmission timer that is pushed back with every ACK costs nothing.
inline void tcp_layer::rearm(tcp_connection& c) noexcept {
    const time_point at = c.tcb.next_timeout();
    if (at >= c.wakes_at()) [[likely]] return;
    reactor_.timers().arm(c, at);
}

/// Gives `p`, which is empty, a head with `header_size` bytes to be filled in, and `size` bytes of `chunk` behind it, the
/// cheapest way that is possible. Returns the head's first byte, or null when the pool is empty.
[[gnu::always_inline]] inline std::byte* tcp_layer::place_chunk(const buffer& chunk, std::uint32_t offset, std::uint32_t size,
                                                                packet& p, std::uint32_t header_size) {
    frame* f = chunk.underlying_frame();
    // Ours alone (not the application's too, nor a slow device's), and of the pool that our port sends from.
    if (offset == 0 && f->references == 1 && f->owner == &pool_ && chunk.headroom() >= header_size) [[likely]] {
        retain(*f);
        p.head.fill(*f, f->bytes + chunk.headroom() - header_size, header_size + size);
        return p.head.mutable_data();
    }
    f = pool_.allocate();
    if (f == nullptr) [[unlikely]] return nullptr;
    std::byte* const payload = f->bytes + frame_headroom;
    if (size <= copy_limit) {
        p.head.fill(*f, payload - header_size, header_size + size);
        copy_payload(payload, chunk.data() + offset, size);
    } else {
        p.head.fill(*f, payload - header_size, header_size);
        p.body = chunk.share(offset, size);
    }
    return payload - header_size;
}

inline std::byte* tcp_layer::place_payload(tcp_connection& c, const tcp::outgoing_segment& s, packet& p,
                                           std::uint32_t header_size) {
    if (s.chunk != nullptr) [[likely]] return place_chunk(*s.chunk, s.chunk_offset, s.payload_size, p, header_size);
    frame* f = pool_.allocate();
    if (f == nullptr) [[unlikely]] return nullptr;
    std::byte* payload = f->bytes + frame_headroom;
    p.head.fill(*f, payload - header_size, header_size + s.payload_size);
    if (s.payload_size != 0) c.tcb.copy_payload(s.payload_offset, s.payload_size, payload);
    return payload - header_size;
}

namespace {

/// Of the segment at `tcp`, whose field for it is zero.
[[gnu::noinline]] void compute_checksum(const packet& p, std::byte* tcp, std::uint16_t pseudo_sum) noexcept {
    wire::internet_sum sum;
    sum.add_u16(pseudo_sum).add({tcp, static_cast<std::size_t>(p.head.data() + p.head.size() - tcp)});
    if (!p.body.empty()) sum.add(p.body.bytes());
    store_be16(tcp + wire::tcp_header::checksum_offset, sum.checksum());
}

} // namespace

/// The TCP checksum over pseudo-header, header and payload; or what an offloading port wants in its place. The frame begins
/// at `at`, and `path` has been made to fit it.
template <typename Path>
[[gnu::always_inline]] inline void tcp_layer::finish_checksum(packet& p, std::byte* at, const Path& path) {
    std::byte* const tcp = at + Path::transport_at;
    if (port_.transmit_checksum) {
        store_be16(tcp + wire::tcp_header::checksum_offset, path.pseudo_sum);
        p.flags = offload::l4_checksum_needed;
        p.l4_offset = Path::transport_at;
        p.l4_checksum_offset = wire::tcp_header::checksum_offset;
        return;
    }
    p.flags = offload::none;
    compute_checksum(p, tcp, path.pseudo_sum);
}

template <typename Path, typename Output>
[[gnu::always_inline]] inline bool tcp_layer::emit(time_point now, tcp_connection& c, const tcp::outgoing_segment& s, Path& path,
                                                   Output& out) {
    const std::uint32_t tcp_size = wire::tcp_header::min_size + s.option_size;
    packet& p = egress_.slot();
    std::byte* at = place_payload(c, s, p, Path::transport_at + tcp_size);
    if (at == nullptr) [[unlikely]] {
        ++statistics_.no_frame; // counts as lost on the wire: the tcb retransmits
        return false;
    }
    write_header(at + Path::transport_at, c.key, s);
    const std::uint32_t l4_size = tcp_size + s.payload_size;
    path.fit(l4_size);
    finish_checksum(p, at, path);
    ++statistics_.tcp_general_out;
    if (out.ready(now, path)) [[likely]] {
        path.stamp(at, l4_size);
        if (s.special != 0) [[unlikely]] {
            if (s.ecn_capable()) Path::mark_ecn_capable(at);
            if (s.joins()) p.flags = p.flags | offload::joins;
        }
        egress_.commit();
        return true;
    }
    // Whoever has sent the SYN may not be there.
    const bool opened_by_peer = c.tcb.state() == tcp::tcp_state::syn_received;
    return out.send_unresolved(now, path, p, l4_size, opened_by_peer ? on_behalf::stranger : on_behalf::ourselves);
}

template <typename Path, typename Output>
[[gnu::always_inline]] inline bool tcp_layer::emit_each(time_point now, tcp_connection& c, Path& path, Output& out) {
    bool any = false;
    tcp::outgoing_segment s;
    while (c.tcb.wants_output() && !egress_.full() && pool_.free_count != 0) {
        if (!c.tcb.next_segment(now, s)) break;
        any |= emit(now, c, s, path, out);
    }
    return any;
}

/// The everyday segment. False: nothing has changed; it is not one, or it can't be sent now.
template <typename Frame, typename Output>
[[gnu::always_inline]] inline bool tcp_layer::emit_plain(time_point now, tcp_connection& c, typename Frame::path& path, Output& out) {
    if (pool_.free_count == 0 || !out.current(path)) [[unlikely]] return false;
    tcp::plain_output s;
    if (!c.tcb.next_plain(now, s)) return false;
    packet& p = egress_.slot();
    std::byte* const at = place_chunk(*s.chunk, s.chunk_offset, s.payload_size, p, Frame::header_size);
    Frame::write(at, path, s);
    finish_checksum(p, at, path);
    ++statistics_.tcp_plain_out;
    egress_.commit();
    return true;
}

/// Apart from flush(), which is small and quick without it. An IPv6 connection's `path` is never current, so that all of its segments
/// come here.
[[gnu::noinline]] bool tcp_layer::emit_all(time_point now, tcp_connection& c) {
    return c.six == nullptr ? emit_each(now, c, c.path, out_) : emit_all_over_ipv6(now, c);
}

[[gnu::noinline]] bool tcp_layer::emit_all_over_ipv6(time_point now, tcp_connection& c) {
    ipv6_path& path = c.six->path;
    ipv6_output& out = *out_.six();
    return emit_plain<ipv6_frame>(now, c, path, out) || emit_each(now, c, path, out);
}

[[gnu::always_inline]] inline bool tcp_layer::send_dirty(time_point now) {
    bool any = false;
    while (!dirty_.empty() && !egress_.full()) {
        auto& c = static_cast<tcp_connection&>(dirty_.front());
        if (emit_plain<ipv4_frame>(now, c, c.path, out_)) [[likely]] { // which only one that is established does
            any = true;
            dirty_.pop_front();
            rearm(c);
            continue;
        }
        any |= emit_all(now, c);
        static_cast<dirty_hook&>(c).unlink();
        if (c.tcb.wants_output()) { // egress or the pool is full: it is its turn again behind all others
            dirty_.push_back(c);
            break;
        }
        if (c.tcb.state() == tcp::tcp_state::closed) [[unlikely]] {
            on_closed(c);
        } else {
            rearm(c);
        }
    }
    return any;
}

/// Called from one place, and so becomes part of it.
bool tcp_layer::flush(time_point now) { return send_dirty(now); }

[[gnu::noinline]] bool tcp_layer::do_chores(time_point now) {
    bool any = false;
    if (!starved_.empty()) {
        constexpr unsigned portion = 16;
        retry_starved(portion);
        any = send_dirty(now);
        if (!starved_.empty()) egress_.leave_chores(); // as long as something keeps the shard awake, else a timer does
    }
    bury();
    return any;
}

/// A segment of no connection: a reset, or the SYN-ACK of a cookie, marked as `marks` has it.
void tcp_layer::send_bare(const flow_name& flow, const tcp::outgoing_segment& s, const tcp::parameters& marks) {
    if (egress_.full()) {
        ++statistics_.egress_full;
        return;
    }
    packet p;
    p.head = pool_.allocate_buffer();
    if (p.head.underlying_frame() == nullptr) {
        ++statistics_.no_frame;
        return;
    }
    const std::uint32_t tcp_size = wire::tcp_header::min_size + s.option_size;
    write_header(p.head.append(tcp_size), flow.key(), s);
    if (flow.is_v4()) {
        output_path path;
        if (!out_.prepare(path, flow.local.v4(), flow.remote.v4(), wire::ip_protocol::tcp)) return;
        path.set_marks(marks.type_of_service, marks.time_to_live);
        send_bare(p, tcp_size, path, out_);
    } else {
        ipv6_path path;
        if (!out_.six()->prepare(path, flow, wire::ip_protocol::tcp)) return;
        path.set_marks(marks.traffic_class, marks.hop_limit);
        send_bare(p, tcp_size, path, *out_.six());
    }
}

template <typename Path, typename Output>
void tcp_layer::send_bare(packet& p, std::uint32_t tcp_size, Path& path, Output& out) {
    std::byte* const at = p.head.prepend(Path::transport_at);
    path.fit(tcp_size);
    finish_checksum(p, at, path);
    if (out.ready(reactor_.now(), path)) {
        path.stamp(at, tcp_size);
        egress_.push(std::move(p));
    } else {
        out.send_unresolved(reactor_.now(), path, p, tcp_size, on_behalf::stranger);
    }
}

/// RFC 9293 3.10.7.1: the answer to a segment that belongs to no connection.
void tcp_layer::send_reset(const flow_name& flow, const tcp::segment& s) {
    if (!flow.remote.is_unicast() || flow.remote_port == 0) return;
    tcp::outgoing_segment reset;
    if (!tcp::reset_for(s, reset)) return;
    if (!out_.may_send_reset(reactor_.now())) return; // bounded, as ICMP errors are
    ++statistics_.tcp_resets_sent;
    send_bare(flow, reset, config_.tcp);
}

// ---- what ICMP says of the paths ----

void tcp_layer::on_no_route(time_point now, const flow_name& flow, tcp::seq_number seq) {
    tcp_connection* c = find(flow);
    if (c == nullptr) return;
    c->tcb.on_no_route(now, seq);
    mark_dirty(*c); // the timer may have moved
}

/// Other connections and UDP are told what a connection has found to be true.
void tcp_layer::share_path_mtu(time_point now, const tcp_connection& c) noexcept {
    const flow_name flow = c.name();
    out_.path_mtus().lower(now, flow.remote, c.tcb.packet_size() + (flow.is_v4() ? 0 : 20));
}

void tcp_layer::on_path_mtu(time_point now, const flow_name& flow, std::uint32_t mtu, tcp::seq_number seq) {
    tcp_connection* c = find(flow);
    if (c == nullptr || !(flow.is_v4() ? c->tcb.options().heeds_path_reports : c->tcb.options().heeds_path_reports6)) return;
    const tcp::parameters& p = c->tcb.options();
    if (flow.is_v4() && p.presumed_mtu != 0) mtu = p.presumed_mtu;
    if (flow.is_v4() && p.shrinks_later) { // it is of the path, and the connection's own matter when it is written to
        if (has_in_flight(flow, seq)) out_.path_mtus().lower(now, flow.remote, mtu);
        return;
    }
    // Linux's habit: nothing that IPv6 carries is less than what every host takes, which segments count as before the peer has said more.
    const bool of_syn = c->tcb.state() == tcp::tcp_state::syn_sent && seq == c->tcb.acknowledged();
    if (of_syn && !flow.is_v4() && p.like_linux()) return;
    // The tcb takes 40 bytes off for the headers of IPv4 and TCP; IPv6's are longer by 20.
    const tcp::event events = c->tcb.on_path_mtu(now, flow.is_v4() ? mtu : mtu - 20, seq);
    if (has(events, tcp::event::path_mtu_fell)) share_path_mtu(now, *c);
    if (of_syn && c->tcb.options().like_linux()) out_.path_mtus().lower(now, flow.remote, mtu); // Linux's habit: known at once
    mark_dirty(*c);
    if (events != tcp::event::none) c->react(events);
}

} // namespace corewire
