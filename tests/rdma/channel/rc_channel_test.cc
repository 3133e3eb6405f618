// On two fake NICs and a virtual clock: rdma::rc_channel: messages, remote memory, the ends of connections; rdma_rxe passes the same
// cases (tests/vm/guest).
#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<fake_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/rc_channel.hh"

namespace {

void expect_in(const std::string& sentence, std::initializer_list<std::string_view> parts) {
    for (const std::string_view part : parts) BOOST_TEST(sentence.find(part) != std::string::npos, sentence << " lacks " << part);
}

task<std::string> sentence_of_exposing(rdma::rc_channel& by, const rdma::registered_buffer& memory) {
    try {
        static_cast<void>(co_await by.expose(memory, 0, 4096, everything));
    } catch (const std::system_error& e) {
        co_return e.what();
    }
    co_return "none";
}

} // namespace

BOOST_AUTO_TEST_SUITE(rc_channel)

BOOST_AUTO_TEST_CASE(where_there_are_windows_and_no_more_of_them_nothing_wider_is_opened_instead) {
    channel_world w;
    const auto theirs = w.server.allocate(4096);
    const auto before = w.second().live_objects();
    w.second().fail_calls("alloc_mw", ENOMEM);
    const std::string said = w.run(sentence_of_exposing(w.server, theirs));
    expect_in(said, {"make a memory window on fake_b", "max_mw", "Cannot allocate memory"});
    BOOST_TEST(said.find("ulimit") == std::string::npos); // a window locks nothing
    BOOST_TEST(w.second().live_objects() == before);
    const auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
    const auto ours = w.client.allocate(64);
    BOOST_TEST((w.run(failure_of(w.client.write(ours.all(), window.region()))) == std::errc{}));
}

BOOST_AUTO_TEST_SUITE_END()

// What rdma_cm alone has to say.

namespace {

task<std::string> sentence_of_connecting(rdma::context& in, socket_address to, socket_address from) {
    rdma::connector ours(in);
    try {
        const rdma::rc_channel made = co_await ours.connect(to, {}, from);
    } catch (const std::system_error& e) {
        co_return e.what();
    }
    co_return "none";
}

} // namespace

BOOST_AUTO_TEST_SUITE(rc_channel)

BOOST_AUTO_TEST_CASE(whoever_cannot_connect_is_told_to_where_and_what_to_do) {
    rdma::rc_options one;
    one.accept_backlog = 1;
    channel_world w({}, one);
    const socket_address there(address_of_server, w.listening.port()), here(address_of_client, 0);
    const auto sentence = [&](socket_address to, socket_address from) { return w.run(sentence_of_connecting(w.in, to, from)); };
    expect_in(sentence({address_of_server, 9}, here), {"192.0.2.2:9", "nobody listens there", "Connection refused"});
    auto waits = w.run(w.dial());
    expect_in(sentence(there, here), {there.to_string(), "its backlog is full", "Connection refused"});
    expect_in(sentence({ipv4(192, 0, 2, 77), 9}, here), {"find a way to 192.0.2.77:9", "nobody answers there"});
    expect_in(sentence(there, {ipv4(192, 0, 2, 78), 0}),
              {there.to_string(), "from 192.0.2.78", "no interface of this host has the address"});
    std::string said;
    try {
        w.in.adapter_for(ipv4(192, 0, 2, 79));
    } catch (const std::system_error& e) {
        said = e.what();
    }
    expect_in(said, {"find the RDMA device of 192.0.2.79", "no interface of this host has the address"});
}

BOOST_AUTO_TEST_SUITE_END()
