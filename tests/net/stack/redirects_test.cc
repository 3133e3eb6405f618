// Routers that know a better first hop (RFC 4861 8, RFC 1122 3.2.2.2): who is believed, what changes, and what undoes it.
#include "ipv6_link.hh"

#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/reactor/task/run_until_complete.hh>

#include <functional>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;

namespace {

const mac_address by_router(0x02'00'00'00'00'99), by_better(0x02'00'00'00'00'88), by_host(0x02'00'00'00'00'77);

struct routed : ipv6_link {
    static stack_config with_gateways() {
        stack_config config;
        config.gateway = ipv4(10, 0, 0, 254);
        config.ipv6.emplace().gateway = a6("fe80::99");
        return config;
    }
    const ipv6 router = a6("fe80::99"), better = a6("fe80::88"), far = a6("2001:db8:ffff::1");
    const ipv4 us4{10, 0, 0, 1}, gateway4{10, 0, 0, 254}, better4{10, 0, 0, 253}, far4{198, 51, 100, 1};

    routed() : ipv6_link(0, with_gateways()) {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        socket.emplace(udp_socket::bind({ipv6::any(), 4000}));
        auto& nd = stack->ip().six()->neighbors();
        BOOST_REQUIRE(nd.set_permanent(router, by_router));
        BOOST_REQUIRE(stack->ip().neighbors().set_permanent(gateway4, by_router));
        BOOST_REQUIRE(stack->ip().neighbors().set_permanent(better4, by_better));
    }
    ~routed() { socket.reset(); }

    /// Where a datagram to `to` goes: the MAC it leaves for; nothing: it has not left.
    std::optional<mac_address> way_to(const net_address& to) {
        frames();
        task_group sending{"sending"};
        sending.spawn([](udp_socket& s, net_address there) -> task<> {
            try {
                co_await s.send_to(std::as_bytes(std::span{std::string_view{"where"}}), socket_address(there, 9));
            } catch (const std::system_error&) { // no neighbour there
            }
        }(*socket, to));
        pass(1ms);
        for (const bytes& f : frames()) {
            const bool six = load_be16(f.data() + 12) == 0x86dd;
            const std::size_t protocol_at = six ? 14 + 6 : 14 + 9;
            if (load_u8(f.data() + protocol_at) != 17) continue;
            datagram.assign(f.begin() + 14, f.end());
            return mac_address::load(f.data());
        }
        return std::nullopt;
    }
    /// A redirect over IPv6; `change` makes of its bytes what it likes (and the checksum is right afterwards).
    void redirect(const wire::neighbor_redirect& r, std::optional<ipv6> from = {}, std::uint8_t hop_limit = 255,
                  const std::function<void(bytes&)>& change = {}) {
        const ipv6 source = from.value_or(router);
        bytes m(wire::neighbor_redirect::max_size);
        m.resize(r.emit(m, source, us));
        if (change) {
            change(m);
            store_be16(m.data() + 2, 0);
            store_be16(m.data() + 2, wire::pseudo_header_sum(source, us, ip_protocol::icmpv6, m.size()).add(m).checksum());
        }
        send(m, source, us, ip_protocol::icmpv6, hop_limit);
    }
    /// The same over IPv4, about the datagram that left last.
    void redirect4(ipv4 to, ipv4 from, std::uint8_t code = 1, const std::function<void(bytes&)>& change_quote = {}) {
        bytes quote(datagram.begin(), datagram.begin() + 28);
        if (change_quote) change_quote(quote);
        bytes m(8 + quote.size());
        m[0] = std::byte{5};
        m[1] = std::byte{code};
        to.store(m.data() + 4);
        std::memcpy(m.data() + 8, quote.data(), quote.size());
        store_be16(m.data() + 2, wire::internet_checksum(m));
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = stack->device().mac(), .source = by_router, .type = wire::ether_type::ipv4}
            .emit({p.head.append(14), 14});
        const auto size = static_cast<std::uint16_t>(20 + m.size());
        wire::ipv4_header{.total_length = size, .protocol = ip_protocol::icmp, .source = from, .destination = us4}
            .emit({p.head.append(20), 20});
        std::memcpy(p.head.append(static_cast<std::uint32_t>(m.size())), m.data(), m.size());
        end->transmit({&p, 1});
        pass(1ms);
    }
    std::uint64_t taken() const { return stack->statistics().redirects_taken; }
    std::uint64_t refused() const { return stack->statistics().redirects_refused; }

    bytes datagram; ///< the last that left, from its IP header
    std::optional<udp_socket> socket;
};

} // namespace

BOOST_AUTO_TEST_SUITE(redirects)

BOOST_FIXTURE_TEST_CASE(a_router_that_knows_a_better_one_is_followed, routed) { // RFC 4861 8.3
    BOOST_TEST((way_to(far) == by_router));
    redirect({.target = better, .destination = far, .target_mac = by_better});
    BOOST_TEST(taken() == 1u);
    BOOST_TEST((way_to(far) == by_better));
    BOOST_TEST((way_to(a6("2001:db8:ffff::2")) == by_router)); // of that destination alone
    pass(redirect_table::lifetime + 1s);
    BOOST_TEST((way_to(far) == by_router));
}

BOOST_FIXTURE_TEST_CASE(a_destination_on_the_link_is_gone_to_straight, routed) {
    redirect({.target = far, .destination = far, .target_mac = by_host});
    BOOST_TEST((way_to(far) == by_host));
    BOOST_TEST(taken() == 1u);
}

BOOST_FIXTURE_TEST_CASE(redirects_that_are_not_valid_change_nothing, routed) { // RFC 4861 8.1
    const wire::neighbor_redirect good{.target = better, .destination = far, .target_mac = by_better};
    redirect(good, {}, 254);
    redirect(good, a6("2001:db8::99"));                                                  // from no link-local address
    redirect({.target = a6("2001:db8::88"), .destination = far, .target_mac = by_better}); // a router has a link-local one
    redirect({.target = better, .destination = a6("ff0e::1"), .target_mac = by_better});
    redirect(good, {}, 255, [](bytes& m) { m[1] = std::byte{1}; });                      // code
    redirect(good, {}, 255, [](bytes& m) { m[41] = std::byte{0}; });                     // an option of no length
    redirect(good, {}, 255, [](bytes& m) { m.resize(39); });
    BOOST_TEST(stack->statistics().ipv6_discovery_invalid == 7u);
    redirect(good, a6("fe80::66")); // not the first hop
    redirect({.target = us, .destination = us, .target_mac = by_better});
    redirect({.target = router, .destination = far, .target_mac = by_better});
    BOOST_TEST(refused() == 3u);
    BOOST_TEST(taken() == 0u);
    BOOST_TEST((way_to(far) == by_router));
}

BOOST_FIXTURE_TEST_CASE(a_better_router_that_is_silent_is_left_again, routed) { // RFC 4861 7.3.3
    redirect({.target = better, .destination = far});
    BOOST_TEST((way_to(far) == std::nullopt)); // it is asked for
    pass(5s);
    BOOST_TEST((way_to(far) == by_router)); // and given up
    redirect({.target = better, .destination = far});
    BOOST_TEST((way_to(far) == std::nullopt)); // it is known not to answer
    BOOST_TEST((way_to(far) == by_router));
    pass(2s);
    redirect({.target = better, .destination = far});
    BOOST_TEST((way_to(far) == std::nullopt));
    pass(10s); // nobody sends anything when it is given up, and then it is forgotten
    BOOST_TEST((way_to(far) == by_router));
}

BOOST_FIXTURE_TEST_CASE(a_better_router_that_says_it_is_none_is_left, routed) { // RFC 4861 7.2.5
    const auto says_it_is_none = [&](const ipv6& who, mac_address mac) {
        send(message(wire::neighbor_advertisement{false, false, true, who, mac}, who, us), who, us, ip_protocol::icmpv6, 255);
    };
    redirect({.target = better, .destination = far, .target_mac = by_better});
    BOOST_TEST((way_to(far) == by_better));
    says_it_is_none(better, by_better);
    BOOST_TEST((way_to(far) == by_router));
    redirect({.target = better, .destination = far}); // without its MAC: who is known is a router now
    BOOST_TEST((way_to(far) == by_better));
    says_it_is_none(better, by_better);
    BOOST_TEST((way_to(far) == by_router));
    redirect({.target = far, .destination = far, .target_mac = by_host}); // a host on the link is none, and is gone to all the same
    says_it_is_none(far, by_host);
    BOOST_TEST((way_to(far) == by_host));
}

BOOST_FIXTURE_TEST_CASE(a_flood_of_redirects_is_bounded, routed) {
    for (unsigned i = 0; i < 100; ++i)
        redirect({.target = better, .destination = wire::with_identifier(far, i), .target_mac = by_better});
    BOOST_TEST(taken() < 40u);
    BOOST_TEST(taken() + refused() == 100u);
}

BOOST_FIXTURE_TEST_CASE(a_gateway_that_knows_a_better_one_is_followed_and_nobody_else_is, routed) { // RFC 1122 3.2.2.2
    BOOST_TEST((way_to(far4) == by_router));
    redirect4(better4, ipv4(10, 0, 0, 66));                                              // not the first hop
    redirect4(ipv4(192, 0, 2, 1), gateway4);                                             // no neighbour
    redirect4(us4, gateway4);
    redirect4(better4, gateway4, 1, [](bytes& q) { store_be16(q.data() + 20, 4001); });  // no socket of ours is at that port
    BOOST_TEST(refused() == 4u);
    redirect4(better4, gateway4, 4); // no such code
    redirect4(better4, gateway4, 1, [](bytes& q) { ipv4(10, 0, 0, 9).store(q.data() + 12); }); // we did not send it
    BOOST_TEST(taken() == 0u);
    BOOST_TEST((way_to(far4) == by_router));
    redirect4(better4, gateway4, 0); // of the network: as of the host
    BOOST_TEST(taken() == 1u);
    BOOST_TEST((way_to(far4) == by_better));
    BOOST_TEST((way_to(ipv4(198, 51, 100, 2)) == by_router));
}

BOOST_FIXTURE_TEST_CASE(a_port_that_is_open_makes_no_redirect_true_but_where_it_has_just_sent, routed) {
    const ipv4 victim(198, 51, 100, 7);
    BOOST_TEST((way_to(far4) == by_router));
    redirect4(better4, gateway4, 1, [&](bytes& q) { victim.store(q.data() + 16); });
    redirect4(better4, gateway4, 1, [](bytes& q) { store_be16(q.data() + 22, 10); });
    BOOST_TEST(refused() == 2u);
    BOOST_TEST((way_to(victim) == by_router));
    BOOST_TEST((way_to(far4) == by_router));
    redirect4(better4, gateway4, 1, [&](bytes& q) { victim.store(q.data() + 16); }); // the last one but one
    BOOST_TEST(taken() == 1u);
    BOOST_TEST((way_to(victim) == by_better));
}

BOOST_FIXTURE_TEST_CASE(a_better_gateway_that_is_silent_is_left_again, routed) {
    BOOST_TEST((way_to(far4) == by_router));
    redirect4(ipv4(10, 0, 0, 50), gateway4);
    BOOST_TEST(taken() == 1u);
    BOOST_TEST((way_to(far4) == std::nullopt)); // it is asked for
    pass(10s); // nobody sends anything when it is given up, and then it is forgotten
    BOOST_TEST((way_to(far4) == by_router));
}

BOOST_AUTO_TEST_SUITE_END()
