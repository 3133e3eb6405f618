// What a host remembers of paths on which SYNs that ask for AccECN vanish (RFC 9768 3.1.4.1).
#include "stack_world.hh"

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::socket_suite;

namespace {

stack_config accurate() {
    stack_config config;
    config.tcp.accurate_ecn = true;
    return config;
}
struct accurate_world : stack_world {
    accurate_world() : stack_world({.vouch_for_checksums = false}, accurate()) {}
};

task<> dial_into(stack_world& w, std::uint16_t port, std::optional<tcp_stream>& into) { into = co_await dial(w, at_server(w, port)); }

/// What the client sends goes to a MAC that nobody has, or to the server's.
void break_path(stack_world& w) { w.client().ip().neighbors().set_permanent(stack_world::first, mac_address(0x02'00'00'00'00'99)); }
void mend_path(stack_world& w) { w.client().ip().neighbors().set_permanent(stack_world::first, w.server().device().mac()); }

/// Two attempts get through with their third SYN alone, which does not ask any more.
task<> attempts_that_ask_in_vain(stack_world& w, std::uint16_t port) {
    tcp_listener listener = listen(w, port);
    for (int i = 0; i < 2; ++i) {
        break_path(w);
        task_group dialing{"dial"};
        std::optional<tcp_stream> late;
        dialing.spawn(dial_into(w, port, late));
        co_await sleep_for(std::chrono::seconds{2});
        mend_path(w);
        co_await dialing.join();
        BOOST_REQUIRE(late.has_value());
        BOOST_TEST(!late->info().accurate_ecn);
        tcp_stream accepted = co_await listener.accept();
    }
    tcp_stream third = co_await dial(w, at_server(w, port));
    BOOST_TEST(!third.info().accurate_ecn); // though its first SYN is answered
    tcp_stream accepted = co_await listener.accept();
    co_await sleep_for(std::chrono::minutes{11});
    tcp_stream fourth = co_await dial(w, at_server(w, port));
    BOOST_TEST(fourth.info().accurate_ecn);
    tcp_stream last = co_await listener.accept();
}

} // namespace

BOOST_AUTO_TEST_SUITE(accurate_ecn_paths)

BOOST_FIXTURE_TEST_CASE(who_asked_in_vain_twice_does_not_ask_for_ten_minutes, accurate_world) { run(attempts_that_ask_in_vain(*this, 7)); }

BOOST_AUTO_TEST_SUITE_END()
