// The socket API over our own stack over the `verbs-ud` port, on two fake NICs: the suite that the other ports pass. ARP
// finds the other host; nothing but datagrams crosses.
#include <corewire/rdma/ud_link/ud_port.hh>

#include "tests/rdma/two_fake_hosts.hh"

using namespace corewire;

namespace {

ipv6 six(ipv4 a) {
    ipv6::octet_array octets{0x20, 0x01, 0x0d, 0xb8};
    octets[15] = static_cast<std::uint8_t>(a.value());
    return ipv6(octets);
}

struct ud_host {
    ud_host(const std::string& name, ipv4 of_fabric, ipv4 address, std::uint32_t mtu, reactor& loop)
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
    void expect_quiet() const {
        BOOST_TEST(port->pool().free_count + port->posted() + 1 == port->pool().count());
        BOOST_TEST(port->ud_statistics().restarts == 0u);
        BOOST_TEST(port->ud_statistics().too_long == 0u);
    }
    fake::nic nic;
    std::shared_ptr<ud_device> device;
    ud_port* port = nullptr;
    std::unique_ptr<network_stack> stack;
};

class ud_sockets_world : public test::two_fake_hosts<ud_host> {
public:
    /// `mtu`: of the Ethernet below.
    explicit ud_sockets_world(std::uint32_t mtu = 1500)
        : two_fake_hosts([mtu](reactor& r) { return ud_host("fake_a", ipv4(192, 0, 2, 1), first, mtu, r); },
                         [mtu](reactor& r) { return ud_host("fake_b", ipv4(192, 0, 2, 2), second, mtu, r); }) {}
    std::uint64_t bulk_bytes() override { return 10'000'000; }
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
CW_SOCKET_SUITE(CASE)

#undef CASE
#define CASE(name)                                                                                                     \
    BOOST_FIXTURE_TEST_CASE(name##_over_ipv6, ud_ipv6_world) { run(socket_suite::name(*this)); }
CW_SOCKET_SUITE(CASE)

BOOST_AUTO_TEST_SUITE_END()
