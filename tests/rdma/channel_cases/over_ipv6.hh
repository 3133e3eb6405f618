// rdma::rc_channel by rdma_cm, and rdma::ud_socket, between addresses of IPv6.
// Cases for whichever fabric `channel_world` stands on: the program that includes this says which.
#pragma once

#include <corewire/rdma/channel/ud_socket.hh>

#include "tests/rdma/channel_world.hh"

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

struct ipv6_world : channel_world {
    ipv6_world() : at(rdma::listener::bind(in, {address6_of_server(), 0})) {}
    task<rdma::rc_channel> dial6(std::uint16_t port, rdma::rc_options options = {}) {
        rdma::connector from(in, options);
        rdma::rc_channel made = co_await from.connect({address6_of_server(), port}, {}, {address6_of_client(), 0});
        co_return made;
    }
    task<> connect6() {
        auto accepted = at.accept();
        auto made = dial6(at.port());
        auto [a, b] = co_await when_all(std::move(accepted), std::move(made));
        there = std::move(a);
        here6 = std::move(b);
    }
    rdma::listener at;
    rdma::rc_channel here6, there;
};

task<std::string> next_text(rdma::rc_channel& from) {
    const auto m = co_await from.receive();
    BOOST_REQUIRE(m.has_value());
    co_return text_of(m->bytes());
}

task<std::string> pass6(rdma::ud_socket& from, rdma::ud_socket& to, rdma::ud_address where, std::string what) {
    co_await from.send_to(bytes_of(what), where);
    const auto got = co_await to.receive_from();
    BOOST_TEST(got.from().queue_pair == from.local_address().queue_pair);
    BOOST_TEST(verbs::to_string(got.from().gid) == verbs::to_string(from.local_address().gid));
    co_return text_of(got.bytes());
}

} // namespace

BOOST_AUTO_TEST_SUITE(over_ipv6)

BOOST_AUTO_TEST_CASE(a_channel_is_made_and_carries_messages_and_memory) {
    ipv6_world w;
    w.run(w.connect6());
    BOOST_TEST(w.here6.peer_address().to_string() == socket_address(address6_of_server(), w.at.port()).to_string());
    BOOST_TEST((std::get<ipv6>(w.there.peer_address().address) == address6_of_client()));
    for (const std::size_t size : {1u, 1000u, 100'000u}) { // the last one is fetched
        const std::string text(size, 's');
        BOOST_TEST((w.run(failure_of(w.here6.send(bytes_of(text)))) == std::errc{}));
        BOOST_TEST((w.run(next_text(w.there)) == text));
    }
    const auto theirs = w.there.allocate(64);
    const auto window = w.run(w.there.expose(theirs, 0, 64, verbs::access::remote_write));
    const auto ours = w.here6.allocate(64);
    ours.data()[63] = std::byte{0x5a};
    BOOST_TEST((w.run(failure_of(w.here6.write(ours.all(), window.region()))) == std::errc{}));
    BOOST_TEST((theirs.data()[63] == std::byte{0x5a}));
    w.run(w.here6.close());
    BOOST_TEST(!w.run(next_of(w.there)).has_value());
}

BOOST_AUTO_TEST_CASE(where_nobody_listens_it_is_refused) {
    ipv6_world w;
    BOOST_TEST((w.run(failure_of(w.dial6(9))) == std::errc::connection_refused));
}

BOOST_AUTO_TEST_CASE(datagrams_and_groups_have_addresses_of_ipv6_too) {
    channel_world w;
    auto a = rdma::ud_socket::bind(w.in, address6_of_client());
    auto b = rdma::ud_socket::bind(w.in, address6_of_server());
    BOOST_TEST(w.run(pass6(a, b, b.local_address(), "to one")) == "to one");
    BOOST_TEST(w.run(pass6(b, a, a.local_address(), "and back")) == "and back");
    const net_address group = *ipv6::parse("ff0e::4:1");
    const rdma::joined_group member = b.join(group);
    BOOST_TEST(w.run(pass6(a, b, rdma::ud_address::of_group(group), "to all")) == "to all");
    BOOST_CHECK_THROW(b.join(ipv4(239, 1, 2, 3)), std::system_error);
}

BOOST_AUTO_TEST_SUITE_END()
