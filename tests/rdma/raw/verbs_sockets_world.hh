// Our stack over the `verbs` port, twice: on two fake NICs at the ends of a wire, each taking only what its flow rules say.
#pragma once

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/raw/verbs_port.hh>

#include "tests/support/socket_suite.hh"
#include "tests/support/virtual_clock.hh"

namespace corewire {

class verbs_sockets_world : public socket_suite::world {
public:
    static constexpr ipv4 first{10, 0, 0, 1}, second{10, 0, 0, 2}, nobody{10, 0, 0, 99};

    /// 2001:db8::N for 10.0.0.N.
    static ipv6 six(ipv4 address) { return wire::with_identifier(*ipv6::parse("2001:db8::"), address.value() & 0xff); }

    /// Nothing but the wire and the rules brings frames: over IPv6, too, with neighbour discovery.
    explicit verbs_sockets_world(bool over_ipv6 = false)
        : verbs_sockets_world(wire_link::make({.vouch_for_checksums = false}), over_ipv6) {}
    ~verbs_sockets_world() override {
        reactor::scope here(loop_);
        loop_.root_group().destroy_all();
    }

    reactor& loop() override { return loop_; }
    network_stack& server() override { return *a_.stack; }
    network_stack& client() override { return *b_.stack; }
    net_address server_address() override { return six_ ? net_address(six(first)) : first; }
    net_address client_address() override { return six_ ? net_address(six(second)) : second; }
    socket_address silent_address() override {
        if (six_) {
            client().ip().six()->neighbors().set_permanent(six(nobody), mac_address(0x02'00'00'00'00'99));
            return {six(nobody), 7};
        }
        client().ip().neighbors().set_permanent(nobody, mac_address(0x02'00'00'00'00'99));
        return {nobody, 7};
    }
    void turn() override {
        clock_.advance(std::chrono::microseconds{1});
        if (loop_.poll_once()) return;
        const time_point next = loop_.timers().next_expiry();
        if (next != never) clock_.advance_to(next);
    }
    void settle() override {
        const auto quiet = [&] { return server().tcp().connections() + client().tcp().connections() == 0; };
        for (int i = 0; i < 1'000'000 && !quiet(); ++i) turn();
        for (int i = 0; i < 8; ++i) loop_.poll_once(); // completions on their way
        for (host* h : {&a_, &b_}) {
            BOOST_TEST(h->stack->tcp().connections() == 0u);
            BOOST_TEST(h->port->unsent() == 0u);
            BOOST_TEST(h->port->pool().free_count + h->port->posted() == h->port->pool().count());
            BOOST_TEST(h->port->verbs_statistics().restarts == 0u);
            BOOST_TEST(h->nic.violations().empty());
            h->stack->check_invariants();
        }
    }

private:
    /// Groups that sockets join are steered to us, and IPv6 addresses that the stack has.
    struct steering final : group_follower {
        std::shared_ptr<verbs_device> device;
        bool on_join(const net_address& group) noexcept override {
            device->own(group);
            return true;
        }
        void on_leave(const net_address& group) noexcept override { device->disown(group); }
    };
    struct host {
        host(std::string name, mac_address mac, ipv4 address, std::unique_ptr<corewire::port> wire, reactor& loop, bool over_ipv6)
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
                config.ipv6.emplace().address = ipv6_prefix(six(address), 64);
                config.ipv6->duplicate_probes = 0;
                device->own(ipv6::all_nodes());
            }
            stack = std::make_unique<network_stack>(loop, std::move(made), config);
        }
        fake::nic nic;
        std::shared_ptr<verbs_device> device;
        steering groups;
        verbs_port* port = nullptr;
        std::unique_ptr<network_stack> stack;
    };
    verbs_sockets_world(wire_link::ends ends, bool over_ipv6)
        : six_(over_ipv6), loop_({.clock = &clock_}), a_("fake_a", mac_address(0x02'00'00'00'00'0a), first, std::move(ends.first),
                                                           loop_, over_ipv6),
          b_("fake_b", mac_address(0x02'00'00'00'00'0b), second, std::move(ends.second), loop_, over_ipv6) {
        loop_.attached(reactor::attachment::network) = static_cast<socket_provider*>(b_.stack.get());
    }

    bool six_;
    virtual_clock clock_;
    reactor loop_;
    host a_, b_;
};

} // namespace corewire
