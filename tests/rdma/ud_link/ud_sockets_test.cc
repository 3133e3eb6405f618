// The socket API over our own stack over the `verbs-ud` port, on two fake NICs: a part of the suite that the other ports pass. ARP
// finds the other host; nothing but datagrams crosses.
#include <corewire/net/stack/network_stack.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/ud_link/ud_port.hh>

#include "tests/support/socket_suite.hh"
#include "tests/support/virtual_clock.hh"

using namespace corewire;

namespace {

class ud_sockets_world : public socket_suite::world {
public:
    static constexpr ipv4 first{10, 0, 0, 1}, second{10, 0, 0, 2}, nobody{10, 0, 0, 99};

    /// `mtu`: of the Ethernet below.
    explicit ud_sockets_world(std::uint32_t mtu = 1500)
        : loop_({.clock = &clock_}), a_("fake_a", ipv4(192, 0, 2, 1), first, mtu, loop_),
          b_("fake_b", ipv4(192, 0, 2, 2), second, mtu, loop_) {
        loop_.attached(reactor::attachment::network) = static_cast<socket_provider*>(b_.stack.get());
    }
    ~ud_sockets_world() override {
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
    std::uint64_t bulk_bytes() override { return 10'000'000; }
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
            BOOST_TEST(h->port->pool().free_count + h->port->posted() + 1 == h->port->pool().count());
            BOOST_TEST(h->port->ud_statistics().restarts == 0u);
            BOOST_TEST(h->port->ud_statistics().too_long == 0u);
            BOOST_TEST(h->nic.violations().empty());
            h->stack->check_invariants();
        }
    }

private:
    struct host {
        host(const std::string& name, ipv4 of_fabric, ipv4 address, std::uint32_t mtu, reactor& loop)
            : nic({.name = name, .mac = mac_address(0x02'00'00'00'00'00 | of_fabric.value()), .addresses = {of_fabric}, .mtu = mtu}),
              device(std::make_shared<ud_device>(
                  ud_device_options{.device = name, .network = ip_prefix(address, 24), .api = &fake::api()})) {
            auto made = std::make_unique<ud_port>(device, 0);
            port = made.get();
            stack_config config;
            config.address = ip_prefix(address, 24);
            config.seed = address.value();
            if (mtu > 1500) config.ipv6 = ipv6_config{.address = ipv6_prefix(six(address), 64), .duplicate_probes = 0};
            stack = std::make_unique<network_stack>(loop, std::move(made), config);
        }
        fake::nic nic;
        std::shared_ptr<ud_device> device;
        ud_port* port = nullptr;
        std::unique_ptr<network_stack> stack;
    };
protected:
    static ipv6 six(ipv4 a) {
        ipv6::octet_array octets{0x20, 0x01, 0x0d, 0xb8};
        octets[15] = static_cast<std::uint8_t>(a.value());
        return ipv6(octets);
    }

private:
    virtual_clock clock_;
    reactor loop_;
    host a_, b_;
};

/// The same over IPv6, on a fabric whose packets are long enough for it.
class ud_ipv6_world : public ud_sockets_world {
public:
    ud_ipv6_world() : ud_sockets_world(2200) {}
    net_address server_address() override { return six(first); }
    net_address client_address() override { return six(second); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(ud_sockets)

#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name, ud_sockets_world) { run(socket_suite::name(*this)); }
CASE(one_connection_echoes)
CASE(a_hundred_connections_echo)
CASE(bulk_arrives_unchanged_both_ways)
CASE(a_slow_reader_gets_everything)
CASE(an_allocated_buffer_is_sent)
CASE(a_gather_write_keeps_the_order)
CASE(datagrams_echo)

#undef CASE
#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name##_over_ipv6, ud_ipv6_world) { run(socket_suite::name(*this)); }
CASE(one_connection_echoes)
CASE(bulk_arrives_unchanged_both_ways)
CASE(datagrams_echo)

BOOST_AUTO_TEST_SUITE_END()
