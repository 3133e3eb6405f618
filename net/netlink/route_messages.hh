// What the kernel says about its addresses, routes and neighbours of both families (rtnetlink(7)), as plain values.
//
//     datagram of messages --message_reader::next()--> address_change | route_change | neighbor_change
//
// Bounds come first: a length that does not fit ends the datagram, an attribute of the wrong size makes its message
// malformed. Nothing is kept of the bytes. The datagram must start at a multiple of four (NLMSG_ALIGNTO).
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstdint>
#include <variant>

struct nlmsghdr;

namespace corewire::netlink {

/// An address of either family, and how many of its own bits name the network.
struct prefix {
    net_address address = ipv4::any();
    std::uint8_t length = 0;

    prefix() noexcept = default;
    prefix(const net_address& a, std::uint8_t l) noexcept : address(a), length(l) {}
    prefix(const ip_prefix& p) noexcept : prefix(p.address(), p.length()) {}
    prefix(const ipv6_prefix& p) noexcept : prefix(p.address(), p.length()) {}
    bool is_v4() const noexcept { return address.is_v4(); }
    ip_prefix v4() const noexcept { return {address.v4(), length}; }   ///< if is_v4()
    ipv6_prefix v6() const noexcept { return {address.v6(), length}; } ///< unless is_v4()
    /// Its host bits cleared.
    prefix network() const noexcept { return is_v4() ? prefix(v4().network(), length) : prefix(v6().network(), length); }
    friend bool operator==(const prefix&, const prefix&) = default;
};

struct address_change {
    bool gone = false;
    unsigned interface = 0;
    prefix address;
    bool secondary = false; ///< IPv4: not the first one of its network; IPv6: a temporary one (RFC 8981)
    bool usable = true;     ///< IPv6: nobody else has it (RFC 4862), and new connections may have it
    bool proven = true;     ///< IPv6: nobody else has it: what is sent there is received, deprecated or not (RFC 4862 5.5.4)
};

/// Of the main table, by unicast with one way on, or with none: it refuses what would go there. Of several ways each is told as a change
/// of its own: IPv6's come and go one by one, and as one route.
struct route_change {
    bool gone = false;
    unsigned interface = 0; ///< 0: none is said, or it refuses
    prefix destination;
    net_address gateway = ipv4::any(); ///< any of the destination's family: on the link
    std::uint32_t metric = 0;          ///< the smaller one wins
    /// It takes the place of what had its destination and metric, whatever interface that was of: of IPv4 the first of them, of IPv6 all.
    /// Also told of those that lead to nobody but us, with no interface.
    bool replaces = false;
    bool goes_first = false; ///< IPv4: before those with its destination and metric, of which the kernel uses the first; else behind them
    bool further = false;    ///< another way of the route that was told just before, and beside it
    bool more = false;       ///< a further one of the same route comes next
    bool gateway_on_link = false; ///< whatever the other routes say ("onlink")
    std::uint32_t mtu = 0;        ///< bytes of IP packet that go this way (RTAX_MTU); 0: what the interface takes
    std::uint32_t segment = 0;    ///< TCP's segments that may come this way (RTAX_ADVMSS); 0: it does not say
    bool refuses = false;         ///< a blackhole, unreachable, prohibited, or left to tables that nobody follows
    bool of_other_family = false; ///< IPv4 by a gateway of IPv6 (RFC 8950), which is not told: it cannot be followed
    bool partial = false;         ///< kernel_mirror's: its route has ways that are not followed, too
    bool doubled = false;         ///< kernel_mirror's: of a route that was told twice, or of two that differ in what is not told
    bool same_sizes(const route_change& o) const noexcept { return mtu == o.mtu && segment == o.segment; }
    /// Whatever sizes it has.
    bool same_route(const route_change& o) const noexcept {
        return interface == o.interface && destination == o.destination && gateway == o.gateway && metric == o.metric;
    }
};

/// The interface. IPv4's routes over it go without a word of their own when it goes down.
struct link_change {
    bool gone = false;
    unsigned interface = 0;
    bool up = false;
    bool runs = false; ///< it has a carrier
    std::uint32_t mtu = 0; ///< bytes; 0: not said
};

/// A next hop that routes share (`ip nexthop`) is gone, and those of IPv4 with it, without a word.
struct nexthop_gone {
    unsigned interface = 0; ///< 0: not said
};

enum class neighbor_word : std::uint8_t {
    unknown,   ///< the entry is gone, being asked for, or did not answer
    usable,    ///< a MAC that has not been confirmed lately
    reachable, ///< confirmed
    permanent, ///< set by hand
};

struct neighbor_change {
    unsigned interface = 0;
    net_address address;
    neighbor_word word = neighbor_word::unknown;
    mac_address mac; ///< unless unknown
};

using change = std::variant<address_change, route_change, neighbor_change, link_change, nexthop_gone>;

class message_reader {
public:
    enum class verdict : std::uint8_t {
        told,      ///< `out` is one change
        ignored,   ///< a message about something else
        malformed, ///< a message that can't be read
        failed,    ///< the kernel refused a request: error() says why (0: it agreed)
        done,      ///< the last message of a dump
        end,       ///< no message is left
    };

    explicit message_reader(byte_span datagram) noexcept : rest_(datagram) {}
    verdict next(change& out) noexcept;
    int error() const noexcept { return error_; }
    /// The number of the request that the last message answers, or of whoever caused it.
    std::uint32_t sequence() const noexcept { return sequence_; }
    /// The dump that this message belongs to is not of one moment (NLM_F_DUMP_INTR): ask again.
    bool interrupted() const noexcept { return interrupted_; }

private:
    verdict read_message(const nlmsghdr& header, byte_span payload, change& out) noexcept;
    verdict read_route(byte_span payload, std::uint16_t header_flags, bool gone, change& out) noexcept;
    verdict next_way(change& out) noexcept;

    byte_span rest_;
    byte_span ways_; ///< of the route that was told last: those that have not been
    route_change of_ways_;
    int error_ = 0;
    std::uint32_t sequence_ = 0;
    bool interrupted_ = false;
};

} // namespace corewire::netlink
