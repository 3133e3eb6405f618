// What the kernel says about its IPv4 addresses, routes and neighbours (rtnetlink(7)), as plain values.
//
//     datagram of messages --message_reader::next()--> address_change | route_change | neighbor_change
//
// Bounds come first: a length that does not fit ends the datagram, an attribute of the wrong size makes its message
// malformed. Nothing is kept of the bytes. The datagram must start at a multiple of four (NLMSG_ALIGNTO).
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstdint>
#include <variant>

namespace corewire::netlink {

struct address_change {
    bool gone = false;
    unsigned interface = 0;
    ip_prefix address;
    bool secondary = false; ///< not the first one of its network
};

/// Of the main table, by unicast, with one way on (of several ways, the first).
struct route_change {
    bool gone = false;
    unsigned interface = 0; ///< 0: the route says none (blackholes and the like)
    ip_prefix destination;
    ipv4 gateway;           ///< any(): on the link
    std::uint32_t metric = 0; ///< the smaller one wins
    bool same_route(const route_change& o) const noexcept {
        return interface == o.interface && destination == o.destination && gateway == o.gateway && metric == o.metric;
    }
};

enum class neighbor_word : std::uint8_t {
    unknown,   ///< the entry is gone, being asked for, or did not answer
    usable,    ///< a MAC that has not been confirmed lately
    reachable, ///< confirmed
    permanent, ///< set by hand
};

struct neighbor_change {
    unsigned interface = 0;
    ipv4 address;
    neighbor_word word = neighbor_word::unknown;
    mac_address mac; ///< unless unknown
};

using change = std::variant<address_change, route_change, neighbor_change>;

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
    byte_span rest_;
    int error_ = 0;
    std::uint32_t sequence_ = 0;
    bool interrupted_ = false;
};

} // namespace corewire::netlink
