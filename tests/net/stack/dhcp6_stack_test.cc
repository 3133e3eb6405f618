// A stack whose router says that addresses come by DHCPv6 asks for one, uses it, and gives it back.
#include "ipv6_link.hh"

#include <corewire/net/stack/dhcp_link.hh>
#include <corewire/net/stack/stack_metrics.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/reactor/metrics/page_reader.hh>

using namespace corewire;
using namespace std::chrono_literals;
using type = dhcp6_message_type;

namespace {

struct notes : dhcp_follower {
    std::vector<std::size_t> leases; ///< addresses in each
    void on_expected(std::uint32_t, ipv4) noexcept override {}
    void on_lease(const dhcp_lease*) noexcept override {}
    void on_lease6(const dhcp6_lease& lease) noexcept override { leases.push_back(lease.addresses.count); }
};

struct told {
    notes follower;
};

struct managed_link : told, ipv6_link {
    static stack_config with(dhcp_follower& follower) {
        stack_config config;
        config.leases = &follower;
        config.ipv6.emplace().autoconfigure = true;
        config.ipv6->secret = siphash_key{1, 2};
        config.ipv6->dhcp.start_delay = duration{0};
        return config;
    }
    explicit managed_link(unsigned probes = 0) : ipv6_link(probes, with(follower)) {}
    const ipv6 router = a6("fe80::99"), leased = a6("2001:db8:5::50"), dns = a6("2001:db8:5::53");

    void advertise(bool managed, bool other) {
        bytes out(64);
        out.resize(wire::router_advertisement{.managed = managed, .other = other, .lifetime = 1800}.emit(out, router, ipv6::all_nodes()));
        send(out, router, ipv6::all_nodes(), wire::ip_protocol::icmpv6, 255);
    }
    /// `server` for names, and the domain `corp.example`, for so many seconds.
    void advertise_names(const ipv6& server, std::uint32_t lifetime) {
        bytes options = {std::byte{25}, std::byte{3}, {}, {}, {}, {}, {}, {}};
        options.resize(24);
        server.store(options.data() + 8);
        bytes domain = {std::byte{31}, std::byte{3}, {}, {}, {}, {}, {}, {}, std::byte{4}, std::byte{'c'}, std::byte{'o'}, std::byte{'r'},
                        std::byte{'p'}, std::byte{7}};
        for (const char c : {'e', 'x', 'a', 'm', 'p', 'l', 'e'}) domain.push_back(static_cast<std::byte>(c));
        domain.resize(24);
        options.insert(options.end(), domain.begin(), domain.end());
        store_be32(options.data() + 4, lifetime);
        store_be32(options.data() + 28, lifetime);
        bytes out(64);
        out.resize(wire::router_advertisement{.lifetime = 1800, .options = options}.emit(out, router, ipv6::all_nodes()));
        send(out, router, ipv6::all_nodes(), wire::ip_protocol::icmpv6, 255);
    }
    /// The last DHCPv6 message that the stack has sent; empty: none since the last call.
    bytes asked() {
        bytes last;
        for (const bytes& p : heard()) {
            if (view(p).next_header() != wire::ip_protocol::udp) continue;
            wire::udp_view udp;
            BOOST_REQUIRE((wire::udp_view::parse(view(p).payload(), udp) == wire::parse_error::none));
            BOOST_TEST(udp.checksum_ok(view(p).source(), view(p).destination()));
            BOOST_TEST((udp.source_port() == 546 && udp.destination_port() == 547));
            BOOST_TEST((view(p).source().is_link_local() && view(p).destination() == dhcp6_servers));
            last.assign(udp.payload().begin(), udp.payload().end());
            to = view(p).source();
        }
        return last;
    }
    static void put(bytes& m, std::uint16_t code, byte_span data) {
        bytes head(4);
        store_be16(head.data(), code);
        store_be16(head.data() + 2, static_cast<std::uint16_t>(data.size()));
        m.insert(m.end(), head.begin(), head.end());
        m.insert(m.end(), data.begin(), data.end());
    }
    /// An answer to `question` with `address` for so many seconds.
    void answer(type what, const bytes& question, std::uint32_t valid = 2000) {
        BOOST_REQUIRE(question.size() > 4u);
        bytes m(question.begin(), question.begin() + 4), ia(12 + 28), list(16);
        m[0] = static_cast<std::byte>(what);
        put(m, 1, stack->ip().six()->dhcp()->duid());
        put(m, 2, bytes(4, std::byte{9}));
        put(m, 7, bytes{std::byte{255}});
        store_be32(ia.data(), 1);
        store_be16(ia.data() + 12, 5);
        store_be16(ia.data() + 14, 24);
        leased.store(ia.data() + 16);
        store_be32(ia.data() + 32, valid / 2);
        store_be32(ia.data() + 36, valid);
        put(m, 3, ia);
        dns.store(list.data());
        put(m, 23, list);
        bytes d(8);
        d.insert(d.end(), m.begin(), m.end());
        wire::udp_header{.source_port = 547, .destination_port = 546, .length = static_cast<std::uint16_t>(d.size())}.emit(d);
        const ipv6 server = a6("fe80::77");
        store_be16(d.data() + 6, wire::pseudo_header_sum(server, to, wire::ip_protocol::udp, d.size()).add(d).udp_checksum());
        send(d, server, to, wire::ip_protocol::udp);
    }
    /// pass() in steps of a second: for hours.
    void leap(duration d) {
        for (; d > 0s; d -= 1s) {
            clock.advance(1s);
            net.advance_to(net.now() + 1s);
            for (int i = 0; i < 4; ++i) loop.poll_once();
        }
    }
    const own_ipv6_address* ours() {
        for (const own_ipv6_address& a : stack->ip().six()->addresses().all())
            if (a.origin == ipv6_address_origin::leased) return &a;
        return nullptr;
    }
    void acquire() {
        advertise(true, false);
        pass(2ms);
        answer(type::advertise, asked());
        answer(type::reply, asked());
        BOOST_REQUIRE(ours() != nullptr);
    }
    ipv6 to;
};

struct careful_link : managed_link {
    careful_link() : managed_link(1) { pass(3s); }
};

} // namespace

BOOST_AUTO_TEST_SUITE(dhcp6_stack)

BOOST_FIXTURE_TEST_CASE(what_there_was_no_room_for_is_counted_by_name, managed_link) {
    metrics_page page{"test", "wire", 1, ""};
    metric_registry registry{page, 0, ""};
    metric_group group{&registry};
    register_stack_metrics(group, *stack);
    std::vector<catalog_entry> all;
    registry.catalog(0, page::series_capacity, all);
    BOOST_TEST(std::ranges::any_of(all, [](const catalog_entry& e) {
        return e.labels.find("dhcp6") != std::string::npos && e.labels.find("left_out") != std::string::npos;
    }));
}

BOOST_FIXTURE_TEST_CASE(the_managed_flag_brings_an_address_and_name_servers, managed_link) {
    pass(2s);
    BOOST_TEST(asked().empty()); // nobody has said so
    acquire();
    BOOST_TEST((ours()->address == leased && ours()->phase == ipv6_address_phase::preferred));
    BOOST_TEST((stack->ip().six()->source_for(a6("2001:db8:5::1")) == leased));
    BOOST_REQUIRE(stack->names().servers.size() == 1u);
    BOOST_TEST((stack->names().servers[0] == socket_address(dns, 53)));
    BOOST_TEST((follower.leases == std::vector<std::size_t>{1}));
    const time_point before = ours()->valid_until;
    leap(510s);
    const bytes renewal = asked();
    BOOST_REQUIRE((!renewal.empty() && static_cast<type>(load_u8(renewal.data())) == type::renew));
    answer(type::reply, renewal);
    BOOST_TEST((ours()->valid_until > before));
    stack->release_lease();
    pass(2ms);
    BOOST_TEST((static_cast<type>(load_u8(asked().data())) == type::release));
    BOOST_TEST(ours() == nullptr); // nobody uses it any more
}

BOOST_FIXTURE_TEST_CASE(the_other_flag_brings_name_servers_alone, managed_link) {
    advertise(false, true);
    pass(2ms);
    const bytes question = asked();
    BOOST_REQUIRE((!question.empty() && static_cast<type>(load_u8(question.data())) == type::information_request));
    answer(type::reply, question);
    BOOST_TEST(stack->names().servers.size() == 1u);
    BOOST_TEST(ours() == nullptr);
}

BOOST_FIXTURE_TEST_CASE(a_router_says_where_names_are_asked_for_behind_dhcpv6, managed_link) { // RFC 8106 5.3.1, 6
    const ipv6 server = a6("2001:db8:9::53");
    const socket_address by_router(server, 53), by_dhcp(dns, 53);
    using all = std::vector<socket_address>;
    advertise_names(server, 60);
    BOOST_TEST((stack->names().servers == all{by_router}));
    BOOST_TEST((stack->names().search == std::vector<std::string>{"corp.example"}));
    acquire();
    BOOST_TEST((stack->names().servers == all{by_dhcp, by_router}));
    advertise_names(dns, 60); // as most routers do
    BOOST_TEST((stack->names().servers == all{by_dhcp, by_router})); // each once
    leap(61s);
    BOOST_TEST((stack->names().servers == all{by_dhcp}));
    BOOST_TEST(stack->names().search.empty());
}

BOOST_FIXTURE_TEST_CASE(an_address_that_another_host_has_is_declined, careful_link) {
    acquire();
    BOOST_TEST((ours()->phase == ipv6_address_phase::tentative));
    const ipv6 group = ipv6::all_nodes();
    send(message(wire::neighbor_advertisement{false, false, true, leased, end->mac()}, leased, group), leased, group,
         wire::ip_protocol::icmpv6, 255);
    BOOST_TEST((static_cast<type>(load_u8(asked().data())) == type::decline));
    BOOST_TEST(!stack->ip().six()->addresses().is_claimed(leased));
    BOOST_TEST((follower.leases == std::vector<std::size_t>{1, 0}));
}

BOOST_FIXTURE_TEST_CASE(an_address_ends_when_its_time_is_over, managed_link) {
    acquire();
    leap(2001s);
    BOOST_TEST(ours() == nullptr);
    BOOST_TEST((follower.leases == std::vector<std::size_t>{1, 0}));
}

BOOST_FIXTURE_TEST_CASE(another_shard_follows_what_it_is_told, managed_link) {
    dhcp6_lease lease;
    lease.addresses.push({leased});
    stack->ip().six()->follow_lease(clock.now(), lease);
    BOOST_TEST(stack->ip().six()->addresses().is_ours(leased));
    stack->ip().six()->follow_lease(clock.now(), {});
    BOOST_TEST(!stack->ip().six()->addresses().is_claimed(leased));
}

BOOST_AUTO_TEST_SUITE_END()
