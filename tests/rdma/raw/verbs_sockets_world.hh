// Our stack over the `verbs` port, twice: on two fake NICs at the ends of a wire, each taking only what its flow rules say.
#pragma once

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/rdma/raw/verbs_port.hh>

#include "tests/rdma/two_fake_hosts.hh"

namespace corewire {

/// 2001:db8::N for 10.0.0.N.
inline ipv6 six_of(ipv4 address) { return wire::with_identifier(*ipv6::parse("2001:db8::"), address.value() & 0xff); }

/// Groups that sockets join are steered to us, and IPv6 addresses that the stack has.
struct steered_groups final : group_follower {
    std::shared_ptr<verbs_device> device;
    bool on_join(const net_address& group) noexcept override {
        device->own(group);
        return true;
    }
    void on_leave(const net_address& group) noexcept override { device->disown(group); }
};
struct verbs_host {
    verbs_host(std::string name, mac_address mac, ipv4 address, std::unique_ptr<corewire::port> wire, reactor& loop, bool over_ipv6)
        : nic({.name = name, .mac = mac}, std::move(wire)),
          device(std::make_shared<verbs_device>(verbs_device_options{.device = name, .api = &fake::api()})) {
        device->own(address);
        groups.device = device;
        auto made = std::make_unique<verbs_port>(device, 0);
        port = made.get();
        stack_config config;
        config.address = ip_prefix(address, 24);
        config.seed = address.value();
        config.groups = &groups;
        if (over_ipv6) {
            config.ipv6.emplace().address = ipv6_prefix(six_of(address), 64);
            config.ipv6->duplicate_probes = 0;
            device->own(ipv6::all_nodes());
        }
        stack = std::make_unique<network_stack>(loop, std::move(made), config);
    }
    void expect_quiet() const {
        BOOST_TEST(port->pool().free_count + port->posted() == port->pool().count());
        BOOST_TEST(port->verbs_statistics().restarts == 0u);
    }
    fake::nic nic;
    std::shared_ptr<verbs_device> device;
    steered_groups groups;
    verbs_port* port = nullptr;
    std::unique_ptr<network_stack> stack;
};

class verbs_sockets_world : public test::two_fake_hosts<verbs_host> {
public:
    /// Nothing but the wire and the rules brings frames: over IPv6, too, with neighbour discovery.
    explicit verbs_sockets_world(bool over_ipv6 = false)
        : verbs_sockets_world(wire_link::make({.vouch_for_checksums = false}), over_ipv6) {}
    net_address server_address() override { return six_ ? net_address(six_of(first)) : first; }
    net_address client_address() override { return six_ ? net_address(six_of(second)) : second; }
    socket_address silent_address() override {
        if (!six_) return two_fake_hosts::silent_address();
        client().ip().six()->neighbors().set_permanent(six_of(nobody), mac_address(0x02'00'00'00'00'99));
        return {six_of(nobody), 7};
    }

private:
    verbs_sockets_world(wire_link::ends ends, bool six)
        : two_fake_hosts(
              [&](reactor& r) { return verbs_host("fake_a", mac_address(0x02'00'00'00'00'0a), first, std::move(ends.first), r, six); },
              [&](reactor& r) { return verbs_host("fake_b", mac_address(0x02'00'00'00'00'0b), second, std::move(ends.second), r, six); }),
          six_(six) {}

    bool six_;
};

} // namespace corewire
