// Two shards with one address, and one card that brings all to the first: a datagram goes to the shard that has its port.
#include "two_shards.hh"

#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/wire/icmp.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/reactor/task/task_group.hh>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;

namespace {

enum class form { whole4, whole6, cut4, cut6 };

struct two_shards : two_shards_link {
    ~two_shards() {
        group.destroy_all();
        sockets.clear();
    }
    /// A socket at the port of a shard, and its number; what comes to it is counted in got.
    std::uint16_t bind(unsigned n, std::uint16_t port) {
        use(n);
        sockets.push_back(std::make_unique<udp_socket>(udp_socket::bind({ipv6::any(), port})));
        group.spawn([](two_shards& w, udp_socket& s, unsigned at) -> task<> {
            for (;;) {
                const corewire::datagram d = co_await s.receive_from();
                w.got[at] += d.data.size() == 32;
            }
        }(*this, *sockets.back(), n));
        return sockets.back()->local_address().port;
    }
    /// A datagram of 32 bytes from the peer's port to ours, to the first shard's port.
    void send_datagram(form how, std::uint16_t from, std::uint16_t to) {
        bytes d(8 + 32);
        wire::udp_header{from, to, static_cast<std::uint16_t>(d.size()), 0}.emit(d);
        const bool six = how == form::whole6 || how == form::cut6;
        if (six) wire::store_udp_checksum(d, peer, us);
        else wire::store_udp_checksum(d, peer4, us4);
        ++id;
        const bytes front(d.begin(), d.begin() + 24), back(d.begin() + 24, d.end());
        switch (how) {
        case form::whole4: send4(d, ip_protocol::udp); break;
        case form::whole6: send(d, peer, us, ip_protocol::udp); break;
        case form::cut4: send4(front, ip_protocol::udp, 0, true), send4(back, ip_protocol::udp, 24); break;
        case form::cut6: send6(front, us, ip_protocol::udp, 0, true), send6(back, us, ip_protocol::udp, 24, false); break;
        }
        pass(1ms);
    }
    /// "Nobody is at that port of mine", of a datagram that our port sent.
    void refuse(bool six, std::uint16_t our_port, std::uint16_t port) {
        bytes udp(8);
        wire::udp_header{our_port, port, 8, 0}.emit(udp);
        if (six) {
            bytes quote(40);
            wire::ipv6_header{.payload_length = 8, .next_header = ip_protocol::udp, .source = us, .destination = peer}.emit(quote);
            quote.insert(quote.end(), udp.begin(), udp.end());
            send(icmp({.type = wire::icmpv6_type::unreachable, .code = 4}, peer, us, quote), peer, us, ip_protocol::icmpv6);
            return;
        }
        bytes m(8 + 20);
        m[0] = std::byte{3};
        m[1] = std::byte{3};
        wire::ipv4_header{.total_length = 28, .protocol = ip_protocol::udp, .source = us4, .destination = peer4}.emit(
            mutable_byte_span(m).subspan(8));
        m.insert(m.end(), udp.begin(), udp.end());
        store_be16(m.data() + 2, wire::internet_checksum(m));
        send4(m, ip_protocol::icmp);
    }
    unsigned owner(std::uint16_t from, std::uint16_t to) const { return first->owner(flow_name(us4, peer4, to, from)); }
    /// Datagrams that found nobody: their senders are told that the port is unreachable.
    std::uint64_t refused() { return stack->udp().demux().statistics().no_port + other->udp().demux().statistics().no_port; }

    std::vector<std::unique_ptr<udp_socket>> sockets;
    unsigned got[2] = {0, 0};
    task_group group{"two shards"};
};

constexpr form forms[] = {form::whole4, form::whole6, form::cut4, form::cut6};

} // namespace

BOOST_AUTO_TEST_SUITE(steered_datagrams)

BOOST_FIXTURE_TEST_CASE(a_socket_on_a_port_of_our_choice_gets_all_answers_and_nobody_is_refused, two_shards) {
    for (const unsigned n : {0u, 1u}) {
        const std::uint16_t port = bind(n, 0);
        for (const form how : forms) {
            for (std::uint16_t from = 4000; from < 4064; ++from) send_datagram(how, from, port);
            BOOST_TEST(got[n] == 64u);
            BOOST_TEST(got[1 - n] == 0u);
            got[n] = 0;
        }
    }
    BOOST_TEST(refused() == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_port_that_one_shard_has_bound_is_its_alone_and_one_of_both_goes_by_the_hash, two_shards) {
    bind(1, 7);
    for (const form how : forms)
        for (std::uint16_t from = 4000; from < 4008; ++from) send_datagram(how, from, 7);
    BOOST_TEST(got[1] == 32u);
    BOOST_TEST(refused() == 0u);
    got[1] = 0;
    bind(0, 7);
    unsigned wanted[2] = {0, 0};
    for (std::uint16_t from = 4000; from < 4032; ++from) {
        ++wanted[owner(from, 7)];
        send_datagram(form::whole4, from, 7);
        BOOST_TEST(got[0] == wanted[0]);
        BOOST_TEST(got[1] == wanted[1]);
    }
    BOOST_TEST((wanted[0] != 0 && wanted[1] != 0));
    group.destroy_all();
    sockets.clear();
    send_datagram(form::whole4, 4000, 7);
    BOOST_TEST(refused() == 1u);
}

BOOST_FIXTURE_TEST_CASE(an_error_about_a_datagram_finds_the_shard_that_has_its_port, two_shards) {
    for (const bool six : {false, true}) {
        for (std::uint16_t port = 4000; port < 4016; ++port) {
            const auto socket = other->bind_udp({six ? net_address(ipv6::any()) : net_address(ipv4::any()), 7}, {});
            BOOST_TEST((socket->connect({six ? net_address(peer) : net_address(peer4), port}) == std::errc{}));
            refuse(six, 7, port);
            struct receive : receive_operation {
            } op;
            BOOST_REQUIRE(socket->start_receive(op));
            BOOST_TEST((op.error == std::errc::connection_refused));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
