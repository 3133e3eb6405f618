// The local ports of connections and UDP sockets on an address that is the host's too: those that it lends and does not use itself.
#include "shared_world.hh"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

using namespace shared_test;

namespace {

/// Why no connection can be opened, which is for want of a local port.
task<std::string> sentence_of(shared_world& w, tcp_listener& listener) {
    try {
        tcp_stream never = co_await socket_suite::dial(w, listener.local_address());
    } catch (const std::system_error& e) {
        BOOST_TEST((e.code() == std::errc::address_not_available));
        co_return e.what();
    }
    co_return "none";
}

/// A call that the caller has ended, after more than the numbers by which initial ones grow in a second.
task<> call_and_hang_up(shared_world& w, tcp_listener& listener) {
    tcp_stream client = co_await socket_suite::dial(w, listener.local_address());
    tcp_stream server = co_await listener.accept();
    const std::string much(100'000, 'x');
    for (int i = 0; i < 10; ++i) {
        co_await client.write(std::string_view{much});
        for (std::size_t got = 0; got < much.size();) {
            buffer piece = co_await server.read();
            got += piece.size();
        }
    }
    co_await client.close();
    buffer end = co_await server.read();
    BOOST_TEST(end.empty());
    co_await server.close();
    co_await sleep_for(std::chrono::milliseconds{100}); // both FINs are acknowledged
}

} // namespace

BOOST_AUTO_TEST_SUITE(lent_local_ports)

BOOST_FIXTURE_TEST_CASE(a_local_port_that_the_host_has_in_use_is_passed_over, shared_world) {
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        w.of_client().taken_ports = 3;
        {
            tcp_stream client = co_await socket_suite::dial(w, listener.local_address());
            const std::vector<std::uint16_t>& tried = w.of_client().tried;
            BOOST_TEST(tried.size() == 4u);
            BOOST_TEST((std::set<std::uint16_t>(tried.begin(), tried.end()).size() == tried.size()));
            BOOST_TEST(client.local_address().port == tried.back());
            BOOST_TEST(w.of_client().flows == 1);
        }
        w.of_client().taken_ports = -1;
        const std::string sentence = co_await sentence_of(w, listener);
        BOOST_TEST(sentence.find("the kernel has many local ports in a row in use") != std::string::npos, sentence);
        BOOST_TEST(w.of_client().tried.size() == 4u + 256u); // and then it is given up: each is a call into the kernel
        BOOST_TEST((w.of_client().without_port == 0 && w.of_client().given_up == 1));
        // Who asks for a port gets that one, or none.
        w.of_client().tried.clear();
        const socket_address local{w.client_address(), 40000};
        const std::errc why = co_await socket_suite::error_of([&] { return tcp_stream::connect(listener.local_address(), {}, {}, local); });
        BOOST_TEST(why == std::errc::address_in_use);
        BOOST_TEST(w.of_client().tried == std::vector<std::uint16_t>(1, 40000), boost::test_tools::per_element());
    }(*this));
    BOOST_TEST(of_client().flows == 0);
}

BOOST_FIXTURE_TEST_CASE(local_ports_are_those_that_the_host_lends, shared_world) {
    of_client().lends = {40'000, 40'002, 40'003, 50'000, 60'000, 60'001, 65'534, 65'535};
    run([](shared_world& w) -> task<> {
        tcp_listener listener = socket_suite::listen(w, 7);
        std::vector<tcp_stream> calls, answered;
        for (int i = 0; i < 8; ++i) {
            calls.push_back(co_await socket_suite::dial(w, listener.local_address()));
            answered.push_back(co_await listener.accept());
            BOOST_TEST(std::ranges::count(*w.of_client().lends, calls.back().local_address().port) == 1);
        }
        BOOST_TEST(w.of_client().tried.size() == 8u); // the host is asked for no other
        const std::string why = co_await sentence_of(w, listener);
        BOOST_TEST(why.find("no free local port to this destination") != std::string::npos, why);
        BOOST_TEST((w.of_client().without_port == 1 && w.of_client().given_up == 0));
        tcp_listener another = socket_suite::listen(w, 8); // each is lent to all destinations
        calls.push_back(co_await socket_suite::dial(w, another.local_address()));
        tcp_stream named = co_await tcp_stream::connect(another.local_address(), {}, {}, {w.client_address(), 40'001});
        BOOST_TEST(named.local_address().port == 40'001); // whoever names one need not ask
    }(*this));
    BOOST_TEST(of_client().flows == 0);
}

BOOST_FIXTURE_TEST_CASE(where_no_port_is_free_one_in_time_wait_is_taken_after_a_second, shared_world) {
    of_client().lends = {40'000};
    run([](shared_world& w) -> task<> {
        auto& layer = static_cast<network_stack&>(w.client()).tcp();
        const auto waiting = [&] {
            const tcp_connection* found = nullptr;
            layer.for_each_connection([&](const tcp_connection& c) {
                if (c.tcb.state() == tcp::tcp_state::time_wait) found = &c;
            });
            return found;
        };
        tcp_listener listener = socket_suite::listen(w, 7);
        const auto dial = [&] { return socket_suite::dial(w, listener.local_address()); };
        co_await call_and_hang_up(w, listener);
        BOOST_REQUIRE(waiting() != nullptr);
        const tcp::seq_number last = waiting()->tcb.time_wait_floor();
        std::errc why = co_await socket_suite::error_of(dial); // its last segments might be taken for the new one's
        BOOST_TEST(why == std::errc::address_not_available);
        co_await sleep_for(std::chrono::seconds{1});
        tcp_stream client = co_await dial();
        tcp_stream server = co_await listener.accept();
        BOOST_TEST((client.local_address().port == 40'000 && waiting() == nullptr));
        BOOST_TEST((w.of_client().tried == std::vector<std::uint16_t>{40'000} && w.of_client().flows == 1)); // it keeps what was claimed
        layer.for_each_connection([&](const tcp_connection& c) { BOOST_TEST((last + 65'536 < c.tcb.info().snd_una)); });
        co_await client.write(std::string_view{"again"});
        buffer data = co_await server.read();
        BOOST_TEST(data.text() == "again");
        why = co_await socket_suite::error_of(dial); // nothing but TIME-WAIT is taken
        BOOST_TEST(why == std::errc::address_not_available);
        co_await client.close();
        co_await server.close();
        w.of_client().lends = {40'001, 40'002, 40'003, 40'004, 40'005, 40'006, 40'007, 40'008};
        for (int i = 0; i < 8; ++i) co_await call_and_hang_up(w, listener);
        BOOST_TEST((std::set<std::uint16_t>(w.of_client().tried.begin(), w.of_client().tried.end()).size() == 9u));
        co_await sleep_for(std::chrono::seconds{2});
        w.of_client().lends->push_back(40'009);
        tcp_stream on_free = co_await dial(); // which is preferred
        BOOST_TEST(on_free.local_address().port == 40'009);
    }(*this));
    BOOST_TEST(of_client().flows == 0);
}

BOOST_AUTO_TEST_CASE(none_in_time_wait_is_taken_whose_segments_timestamps_do_not_tell) {
    for (const bool like_freebsd : {false, true}) {
        stack_config config;
        config.tcp.timestamps = like_freebsd;
        if (like_freebsd) config.tcp.habits = tcp::personality::freebsd;
        shared_world world(config);
        world.of_client().lends = {40'000};
        world.run([](shared_world& w) -> task<> {
            tcp_listener listener = socket_suite::listen(w, 7);
            co_await call_and_hang_up(w, listener);
            co_await sleep_for(std::chrono::seconds{2});
            const std::errc why = co_await socket_suite::error_of([&] { return socket_suite::dial(w, listener.local_address()); });
            BOOST_TEST(why == std::errc::address_not_available);
        }(world));
    }
}

BOOST_FIXTURE_TEST_CASE(datagram_sockets_have_those_that_the_host_lends_too, shared_world) {
    of_client().lends = {40'001, 40'003};
    run([](shared_world& w) -> task<> {
        auto& stack = static_cast<network_stack&>(w.client());
        {
            const auto one = stack.bind_udp({ipv4::any(), 0}, {}), other = stack.bind_udp({ipv4::any(), 0}, {});
            const std::set<std::uint16_t> ports{one->local_address().port, other->local_address().port};
            BOOST_TEST((ports == std::set<std::uint16_t>{40'001, 40'003}));
            BOOST_CHECK_THROW(static_cast<void>(stack.bind_udp({ipv4::any(), 0}, {})), std::system_error);
            const auto named = stack.bind_udp({ipv4::any(), 50'000}, {});
            BOOST_TEST(named->local_address().port == 50'000);
        }
        w.of_client().lends.emplace(); // none
        BOOST_CHECK_THROW(static_cast<void>(stack.bind_udp({ipv4::any(), 0}, {})), std::system_error);
        co_return;
    }(*this));
}

BOOST_AUTO_TEST_SUITE_END()
