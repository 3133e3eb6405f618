// Which packets of an Ethernet port come to a raw-packet queue pair. What no rule matches stays the kernel's, so that ssh on
// the same interface goes on working. Rules outrank the kernel's; among themselves the lower priority number wins.
//
//     flow_match m; m.to(mac).ipv4_to(address).tcp_to(7);   flow_rule rule(pair, m, {.port = 1});
//
// Masks are all ones or all zeros: most devices match no others.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/rdma/verbs/queue_pair.hh>

#include <optional>

namespace corewire::verbs {

/// The fields that a packet must have; what is not set matches anything.
struct flow_match {
    std::optional<mac_address> destination_mac{};
    std::optional<std::uint16_t> ether_type{};
    std::optional<std::uint16_t> vlan{};            ///< the 12 bits of the identifier
    std::optional<net_address> source{}, destination{}; ///< both of one family, whose packets are meant
    bool over_ipv6 = false;                         ///< without an address: the packets of IPv6, not IPv4, that have the protocol
    std::optional<std::uint8_t> protocol{};         ///< 6 TCP or 17 UDP; needed by the ports
    std::optional<std::uint16_t> source_port{}, destination_port{};

    bool of_ipv6() const noexcept { return (source && !source->is_v4()) || (destination && !destination->is_v4()) || over_ipv6; }
    bool of_ip() const noexcept { return source || destination || protocol; }
};

struct flow_options {
    std::uint8_t port = 1;
    std::uint16_t priority = 0;
    bool copy = false; ///< the packet goes on to other rules, and to the kernel (IBV_FLOW_ATTR_FLAGS_DONT_TRAP)
};

class flow_rule {
public:
    flow_rule() noexcept = default;
    /// Throws std::system_error with a sentence.
    flow_rule(const verbs_api& api, ibv_qp* pair, const flow_match& match, const flow_options& options = {});
    explicit operator bool() const noexcept { return static_cast<bool>(rule_); }

private:
    handle<ibv_flow, &verbs_api::destroy_flow> rule_;
};

/// "TCP from any to 192.0.2.2:7": for messages.
std::string to_string(const flow_match& match);

} // namespace corewire::verbs
