// What arrives: parse, checksum, find, queue. Binding and ports are in udp_bind.cc.
#include <corewire/net/udp/udp_demux.hh>

#include <cstring>
#include <new>
#include <utility>

namespace corewire {

namespace {
constexpr std::uint32_t header_size = wire::udp_header::size;
} // namespace

/// Those who read what they get do not go without for one who does not; and some frames are nobody's to keep.
[[gnu::noinline]] bool udp_demux::may_take_of_the_last(const udp_endpoint& e, const frame_owner& owner) noexcept {
    return !e.readable() && owner.free_count >= owner.reserve / 2;
}

[[gnu::always_inline]] inline bool udp_demux::enqueue(udp_endpoint& e, buffer&& data, const udp_address& from,
                                                      const net_address& to) noexcept {
    if (e.full() || e.queued() >= options_.max_queued - queued_) [[unlikely]] return false;
    const frame_owner& owner = *data.underlying_frame()->owner;
    if (owner.scarce() && !may_take_of_the_last(e, owner)) [[unlikely]] return false;
    new (e.ring_ + (e.tail_ & e.mask_)) udp_datagram{std::move(data), from, to};
    ++e.tail_;
    ++queued_;
    ++e.statistics_.received;
    ++statistics_.delivered;
    return true;
}

udp_delivery udp_demux::input(const net_address& source, const net_address& to, std::uint32_t offset, std::uint32_t ip_length,
                              packet& p) noexcept {
    ++statistics_.received;
    const std::byte* header = p.head.data() + offset;
    // Bounds first: the header lies in head, and the packet has all that the two length fields promise.
    if (ip_length < header_size || p.head.size() < offset + header_size) [[unlikely]] return drop(statistics_.malformed);
    const std::uint32_t length = load_be16(header + 4);
    if (length < header_size || length > ip_length || offset + length > p.size()) [[unlikely]] {
        return drop(statistics_.malformed);
    }
    // None is none over IPv4 (RFC 768), and an error over IPv6 (RFC 8200 8.1), which no port can excuse.
    if (load_be16(header + wire::udp_header::checksum_offset) == 0) [[unlikely]] {
        if (!to.is_v4()) return drop(statistics_.bad_checksum);
    } else if (!has(p.flags, offload::l4_checksum_good) && !checksum_ok(source, to, p, offset, length)) [[unlikely]] {
        return drop(statistics_.bad_checksum);
    }
    const udp_address from{source, load_be16(header)};
    udp_endpoint* e = find(to, load_be16(header + 2), from);
    if (e == nullptr) [[unlikely]] {
        ++statistics_.no_port;
        return {udp_verdict::no_port, nullptr};
    }
    buffer data;
    if (p.body.empty()) [[likely]] {
        p.head.remove_prefix(offset + header_size);
        p.head.truncate(length - header_size);
        data = std::move(p.head);
    } else if (!join_payload(p, offset + header_size, length - header_size, data)) {
        return drop(statistics_.no_frame);
    }
    if (by_port_[e->local_.port]->next_on_port_ != nullptr && !to.is_unicast()) [[unlikely]] {
        return deliver_to_all(by_port_[e->local_.port], std::move(data), from, to);
    }
    e->also_delivered_ = nullptr;
    if (!enqueue(*e, std::move(data), from, to)) [[unlikely]] return drop_full(*e);
    return {udp_verdict::delivered, e};
}

/// Each gets a view of the same bytes.
udp_delivery udp_demux::deliver_to_all(udp_endpoint* e, buffer&& data, const udp_address& from, const net_address& to) noexcept {
    udp_endpoint* first = nullptr;
    for (; e != nullptr; e = e->next_on_port_) {
        if (!matches(*e, to, from)) continue;
        if (!enqueue(*e, data.share(), from, to)) {
            drop_full(*e);
            continue;
        }
        e->also_delivered_ = std::exchange(first, e);
    }
    return {first != nullptr ? udp_verdict::delivered : udp_verdict::dropped, first};
}

udp_delivery udp_demux::drop(std::uint64_t& counter) noexcept {
    ++counter;
    return {udp_verdict::dropped, nullptr};
}

udp_delivery udp_demux::drop_full(udp_endpoint& e) noexcept {
    if (!e.full()) ++statistics_.dropped_total_full;
    ++e.statistics_.dropped_full;
    return drop(statistics_.dropped_full);
}

bool udp_demux::checksum_ok(const net_address& from, const net_address& to, const packet& p, std::uint32_t offset,
                            std::uint32_t length) noexcept {
    wire::internet_sum sum = wire::pseudo_header_sum(from, to, wire::ip_protocol::udp, length);
    const std::uint32_t in_head = std::min(length, p.head.size() - offset);
    sum.add(p.head.bytes().subspan(offset, in_head));
    if (in_head < length) sum.add(p.body.bytes().first(length - in_head));
    return sum.verifies();
}

/// A datagram in two pieces. Senders of ours put all payload into the body, which is then simply passed on; anything
/// else is copied into one frame, and dropped when it doesn't fit into one.
bool udp_demux::join_payload(packet& p, std::uint32_t offset, std::uint32_t length, buffer& out) noexcept {
    const std::uint32_t in_head = std::min(length, p.head.size() - offset);
    if (in_head == length) { // the body is padding
        p.head.remove_prefix(offset);
        p.head.truncate(length);
        out = std::move(p.head);
        return true;
    }
    p.body.truncate(length - in_head);
    if (in_head == 0) {
        out = std::move(p.body);
        return true;
    }
    buffer joined = pool_.allocate_buffer();
    if (joined.tailroom() < length) return false;
    std::byte* to = joined.append(length);
    std::memcpy(to, p.head.data() + offset, in_head);
    std::memcpy(to + in_head, p.body.data(), p.body.size());
    out = std::move(joined);
    return true;
}

/// Nearly always one endpoint has the port, bound to any address or to ours, and not connected.
udp_endpoint* udp_demux::find(const net_address& to, std::uint16_t port, const udp_address& from) const noexcept {
    udp_endpoint* e = by_port_[port];
    if (e == nullptr || e->next_on_port_ != nullptr) [[unlikely]] return find_among_many(e, to, from);
    return matches(*e, to, from) ? e : nullptr;
}

bool udp_demux::matches(const udp_endpoint& e, const net_address& to, const udp_address& from) noexcept {
    return e.covers(to) && (!e.connected() || e.peer_ == from) && (!to.is_multicast() || hears(e, to));
}

/// A group's datagrams are for its members, and for who is bound to the group itself; the groups of all hosts have no members.
bool udp_demux::hears(const udp_endpoint& e, const net_address& group) noexcept {
    static const net_address all_of_six(ipv6::all_nodes());
    return e.local_.address == group || e.is_member(group) || group == all_of_six || (group.is_v4() && group.v4() == ipv4::all_hosts());
}

/// The most particular one: connected before not, bound to an address before any().
udp_endpoint* udp_demux::find_among_many(udp_endpoint* e, const net_address& to, const udp_address& from) noexcept {
    udp_endpoint* best = nullptr;
    int best_score = -1;
    for (; e != nullptr; e = e->next_on_port_) {
        const int score = (e->connected() ? 2 : 0) + (e->local_.address.is_any() ? 0 : 1);
        if (score > best_score && matches(*e, to, from)) {
            best = e;
            best_score = score;
        }
    }
    return best;
}

udp_endpoint* udp_demux::sender_of(const icmp_report& report) const noexcept {
    return find(report.local, report.local_port, {report.remote, report.remote_port});
}

/// RFC 1122 4.1.3.3: errors go to the application. Only a connected one can tell which of its datagrams was meant.
udp_endpoint* udp_demux::on_error(const icmp_report& report) noexcept {
    if (report.protocol != wire::ip_protocol::udp) return nullptr;
    udp_endpoint* e = sender_of(report);
    if (e == nullptr || !e->connected()) return nullptr;
    switch (report.kind) {
    case icmp_error_kind::port_unreachable:
    case icmp_error_kind::protocol_unreachable: e->error_ = std::errc::connection_refused; return e;
    case icmp_error_kind::fragmentation_needed: e->error_ = std::errc::message_size; return e;
    case icmp_error_kind::host_unreachable:
        if (!report.own) return nullptr; // a router's word is soft, too
        e->error_ = std::errc::host_unreachable;
        return e;
    case icmp_error_kind::prohibited: e->error_ = std::errc::host_unreachable; return e; // a filter does not pass
    case icmp_error_kind::none:
    case icmp_error_kind::redirect:
    case icmp_error_kind::network_unreachable:
    case icmp_error_kind::time_exceeded:
    case icmp_error_kind::parameter_problem: break; // soft: may pass (RFC 1122 3.2.2.1)
    }
    return nullptr;
}

void udp_demux::check_invariants() const {
    std::size_t endpoints = 0;
    std::uint32_t waiting = 0;
    for (std::uint32_t port = 0; port < 65536; ++port) {
        std::size_t here = 0;
        for (const udp_endpoint* e = by_port_[port]; e != nullptr; e = e->next_on_port_) {
            ++here;
            CW_ASSERT(e->demux_ == this && e->local_.port == port, "an endpoint stands under its own port");
            CW_ASSERT(e->queued() <= e->capacity(), "a queue is longer than it may be");
            waiting += e->queued();
        }
        CW_ASSERT(here <= options_.max_on_port, "too many endpoints on one port");
        endpoints += here;
    }
    CW_ASSERT(by_port_[0] == nullptr, "nobody is on port 0");
    CW_ASSERT(endpoints == size_ && size_ <= options_.max_endpoints, "size() counts the endpoints");
    CW_ASSERT(waiting == queued_ && queued_ <= options_.max_queued, "queued() counts the datagrams");
}

} // namespace corewire
