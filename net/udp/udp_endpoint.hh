// One UDP socket inside a stack: where it is bound, whom it is connected to, and the datagrams that wait for its reader.
//
// Owned by the socket; known to a udp_demux between bind and its own destruction; one shard's. Bounded: its queue holds
// `capacity` datagrams, the newest is dropped when it is full, and counted.
#pragma once

#include <corewire/net/frame/buffer.hh>
#include <corewire/net/wire/net_address.hh>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace corewire {

class udp_demux;

/// Bound to `::`: IPv4's datagrams come, too (udp_endpoint::leave_ipv4()). To 0.0.0.0: they alone.
struct udp_address {
    net_address address;
    std::uint16_t port = 0;
    friend bool operator==(const udp_address&, const udp_address&) = default;
};

struct udp_datagram {
    buffer data;         ///< the payload, contiguous, in the frame it arrived in
    udp_address source;
    net_address destination; ///< which of our addresses (or groups) it was sent to
};

struct udp_endpoint_statistics {
    std::uint64_t received = 0;
    std::uint64_t dropped_full = 0; ///< the queue, or what all endpoints may hold together, was full; or frames were scarce
};

class udp_endpoint {
public:
    /// `capacity` datagrams, rounded up to a power of two. `owner`: the socket's own word, handed back on delivery.
    explicit udp_endpoint(std::uint32_t capacity, void* owner = nullptr);
    ~udp_endpoint(); ///< leaves its demux
    udp_endpoint(const udp_endpoint&) = delete;
    udp_endpoint& operator=(const udp_endpoint&) = delete;

    bool readable() const noexcept { return head_ != tail_; }
    std::uint32_t queued() const noexcept { return tail_ - head_; }
    std::uint32_t capacity() const noexcept { return mask_ + 1; }
    /// The oldest datagram; readable() must hold. (Defined in udp_demux.hh.)
    udp_datagram receive() noexcept;

    bool bound() const noexcept { return demux_ != nullptr; }
    udp_address local() const noexcept { return local_; }
    /// Before it is bound: at `::` it is for IPv6 alone.
    void leave_ipv4() noexcept { ipv6_only_ = true; }
    bool ipv6_only() const noexcept { return ipv6_only_; }
    /// May talk to addresses of this one's family.
    bool speaks_to(const net_address& other) const noexcept {
        return local_.address.is_any_of_both() ? !(ipv6_only_ && other.is_v4()) : local_.address.is_v4() == other.is_v4();
    }
    // ---- groups whose datagrams it hears ----
    static constexpr std::size_t max_groups = 20; ///< as Linux's igmp_max_memberships
    bool is_member(const net_address& group) const noexcept { return std::ranges::find(groups_, group) != groups_.end(); }
    std::span<const net_address> groups() const noexcept { return groups_; }
    /// The caller has asked is_member(), and groups().size().
    void add_group(const net_address& group) { groups_.push_back(group); }
    void remove_group(const net_address& group) noexcept { std::erase(groups_, group); }
    udp_address peer() const noexcept { return peer_; }
    bool connected() const noexcept { return peer_.port != 0; }
    void* owner() const noexcept { return owner_; }
    /// The next endpoint that got the datagram of the last udp_demux::input(); null after the last. True until the next input().
    udp_endpoint* also_delivered() const noexcept { return also_delivered_; }

    /// What an ICMP error said about what we sent to our peer; asking takes it (like SO_ERROR).
    std::errc take_error() noexcept { return std::exchange(error_, std::errc{}); }
    const udp_endpoint_statistics& statistics() const noexcept { return statistics_; }

private:
    friend class udp_demux;
    bool full() const noexcept { return tail_ - head_ > mask_; }
    static bool covers(const net_address& bound, bool ipv6_only, const net_address& to) noexcept {
        return bound.covers(to) && !(ipv6_only && to.is_v4());
    }
    bool covers(const net_address& to) const noexcept { return covers(local_.address, ipv6_only_, to); }

    std::uint32_t head_ = 0, tail_ = 0, mask_;
    udp_datagram* ring_;
    udp_demux* demux_ = nullptr;
    udp_endpoint* next_on_port_ = nullptr;
    udp_endpoint* also_delivered_ = nullptr;
    void* owner_;
    udp_address local_;
    std::vector<net_address> groups_;
    udp_address peer_; ///< port 0: not connected
    bool ipv6_only_ = false;
    bool shared_ = false;    ///< others may bind the same
    bool ephemeral_ = false; ///< the port was chosen by us
    std::errc error_{};
    udp_endpoint_statistics statistics_;
};

} // namespace corewire
