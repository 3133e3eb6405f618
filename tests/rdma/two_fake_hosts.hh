// Two hosts, each with a stack over a port on a fake NIC of its own, on one reactor and a virtual clock: what the socket suite runs on.
#pragma once

#include <corewire/net/stack/network_stack.hh>
#include <corewire/rdma/fake/nic.hh>

#include "tests/support/socket_suite.hh"
#include "tests/support/virtual_clock.hh"

namespace corewire::test {

/// `Host` has `nic`, `stack`, `port`, and `expect_quiet()`, which checks what its kind of port must be like when all is over.
template <typename Host>
class two_fake_hosts : public socket_suite::world {
public:
    static constexpr ipv4 first{10, 0, 0, 1}, second{10, 0, 0, 2}, nobody{10, 0, 0, 99};

    ~two_fake_hosts() override {
        reactor::scope here(loop_);
        loop_.root_group().destroy_all();
    }

    reactor& loop() override { return loop_; }
    network_stack& server() override { return *a_.stack; }
    network_stack& client() override { return *b_.stack; }
    net_address server_address() override { return first; }
    net_address client_address() override { return second; }
    socket_address silent_address() override {
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
        for (Host* h : {&a_, &b_}) {
            BOOST_TEST(h->stack->tcp().connections() == 0u);
            BOOST_TEST(h->port->unsent() == 0u);
            BOOST_TEST(h->nic.violations().empty());
            h->expect_quiet();
            h->stack->check_invariants();
        }
    }

protected:
    Host& host(unsigned which) noexcept { return which == 0 ? a_ : b_; }
    /// Each gives a host on the reactor.
    template <typename MakeFirst, typename MakeSecond>
    two_fake_hosts(MakeFirst make_first, MakeSecond make_second)
        : loop_({.clock = &clock_}), a_(make_first(loop_)), b_(make_second(loop_)) {
        loop_.attached(reactor::attachment::network) = static_cast<socket_provider*>(b_.stack.get());
    }

private:
    virtual_clock clock_;
    reactor loop_;
    Host a_, b_;
};

} // namespace corewire::test
