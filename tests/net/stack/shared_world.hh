// Two stacks on addresses that are their hosts' too, whose hosts note what they are asked for.
#pragma once

#include "stack_world.hh"

#include <corewire/net/stack/host_share.hh>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace shared_test {

using namespace corewire;

/// Notes what the stack asks for.
class noted_share final : public host_share {
public:
    void claim_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) override {
        if (refusals != 0 && refusals--) throw std::system_error(std::make_error_code(std::errc::address_in_use), "the host has it");
        if (port == forbidden) throw std::system_error(std::make_error_code(std::errc::address_in_use), "the host has it");
        ++ports[{protocol, port}];
        claimed_at.push_back(at);
    }
    void release_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) noexcept override {
        --ports[{protocol, port}];
        released_at.push_back(at);
    }
    int claim_flow(const flow_name& flow) noexcept override {
        tried.push_back(flow.local_port);
        if (taken_ports != 0 && taken_ports--) return EADDRINUSE;
        if (flows == room_for_flows) return refusal;
        ++flows;
        last_flow = flow;
        return slow ? EINPROGRESS : 0;
    }
    void release_flow(const flow_name&) noexcept override { --flows; }
    std::optional<std::span<const std::uint16_t>> lent() const noexcept override {
        return lends ? std::optional(std::span<const std::uint16_t>(*lends)) : std::nullopt;
    }
    void on_no_port_left(bool gave_up) noexcept override { ++(gave_up ? given_up : without_port); }
    void resolve(const net_address& neighbor) noexcept override { asked.push_back(neighbor); }

    int claims(wire::ip_protocol protocol, std::uint16_t port) const {
        const auto found = ports.find({protocol, port});
        return found == ports.end() ? 0 : found->second;
    }

    std::map<std::pair<wire::ip_protocol, std::uint16_t>, int> ports;
    int flows = 0, room_for_flows = 1000, refusal = ENOBUFS;
    int taken_ports = 0; ///< the next local ports of flows that the host has given to others; below 0: all are
    std::vector<std::uint16_t> tried; ///< local ports of flows
    std::optional<std::vector<std::uint16_t>> lends; ///< local ports; nothing: all
    int without_port = 0, given_up = 0; ///< flows that found none, after so many that the host has
    int refusals = 0;  ///< of the next claims of ports; below 0: of all
    bool slow = false; ///< follow_claim() is up to the test
    std::uint16_t forbidden = 0;
    std::vector<net_address> asked, claimed_at, released_at;
    flow_name last_flow;
};

constexpr auto over_tcp = wire::ip_protocol::tcp;
constexpr auto over_udp = wire::ip_protocol::udp;

struct shares {
    noted_share server_share, client_share;
};

/// Both hosts share their addresses. They know each other, unless the case has them forget.
class shared_world : private shares, public stack_world {
public:
    explicit shared_world(const stack_config& common = {})
        : stack_world(wire_link::make({.vouch_for_checksums = false}), common, &server_share, &client_share) {
        introduce();
    }
    noted_share& of_server() { return server_share; }
    noted_share& of_client() { return client_share; }
    void introduce() {
        server_.follow_neighbor(second, client_.device().mac(), true);
        client_.follow_neighbor(first, server_.device().mac(), true);
        server_.follow_neighbor(six(second), client_.device().mac(), true); // nobody's, without IPv6
        client_.follow_neighbor(six(first), server_.device().mac(), true);
    }
};

} // namespace shared_test
