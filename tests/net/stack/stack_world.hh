// Two hosts of our own stack, 10.0.0.1 and 10.0.0.2, on the two ends of a wire, driven by one reactor on a virtual clock.
// Everything is counted: when a test is over no connection, no frame and no borrowed byte may be left.
#pragma once

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/stack/network_stack.hh>
#include <tests/support/socket_suite.hh>
#include <tests/support/virtual_clock.hh>

namespace corewire {

class stack_world : public socket_suite::world {
public:
    static constexpr ipv4 first{10, 0, 0, 1};
    static constexpr ipv4 second{10, 0, 0, 2};
    static constexpr ipv4 nobody{10, 0, 0, 99};
    /// 2001:db8::N for 10.0.0.N.
    static ipv6 six(ipv4 address) { return wire::with_identifier(*ipv6::parse("2001:db8::"), address.value() & 0xff); }

    explicit stack_world(const wire_options& wire = {.vouch_for_checksums = false}, const stack_config& common = {})
        : stack_world(wire_link::make(wire), common) {}
    ~stack_world() override {
        reactor::scope here(loop_);
        loop_.root_group().destroy_all();
    }

    reactor& loop() override { return loop_; }
    network_stack& server() override { return server_; }
    network_stack& client() override { return client_; }
    net_address server_address() override { return first; }
    net_address client_address() override { return second; }
    /// On the link, with a MAC that nobody has.
    socket_address silent_address() override {
        client_.ip().neighbors().set_permanent(nobody, mac_address(0x02'00'00'00'00'99));
        return {nobody, 7};
    }
    /// When nothing is left to do, straight to the next timer.
    void turn() override {
        clock.advance(std::chrono::microseconds{1});
        if (loop_.poll_once()) return;
        const time_point next = loop_.timers().next_expiry();
        if (next != never) clock.advance_to(next);
    }
    void settle() override {
        for (int i = 0; i < 1'000'000 && !quiet(); ++i) turn();
        for (int i = 0; i < 8; ++i) loop_.poll_once(); // frames on their way home
        BOOST_TEST(server_.tcp().connections() == 0u);
        BOOST_TEST(client_.tcp().connections() == 0u);
        BOOST_TEST(server_.device().pool().free_count == server_.device().pool().count());
        BOOST_TEST(client_.device().pool().free_count == client_.device().pool().count());
        server_.check_invariants();
        client_.check_invariants();
    }

    virtual_clock clock;

protected:
    stack_world(wire_link::ends ends, const stack_config& common, host_share* of_first = nullptr, host_share* of_second = nullptr)
        : stack_world(std::move(ends.first), std::move(ends.second), common, of_first, of_second) {}
    stack_world(std::unique_ptr<port> to_first, std::unique_ptr<port> to_second, const stack_config& common,
                host_share* of_first = nullptr, host_share* of_second = nullptr)
        : loop_({.clock = &clock}), server_(loop_, std::move(to_first), host(common, first, of_first)),
          client_(loop_, std::move(to_second), host(common, second, of_second)) {
        loop_.attached(reactor::attachment::network) = static_cast<socket_provider*>(&client_);
    }
    static stack_config host(stack_config config, ipv4 address, host_share* share) {
        config.share = share;
        config.address = ip_prefix(address, 24);
        config.seed = address.value();
        if (config.ipv6) config.ipv6->address = ipv6_prefix(six(address), 64);
        return config;
    }
    bool quiet() {
        return server_.tcp().connections() + client_.tcp().connections() + server_.output_queue().waiting() +
                   client_.output_queue().waiting() ==
               0;
    }

    reactor loop_;
    network_stack server_;
    network_stack client_;
};

} // namespace corewire
