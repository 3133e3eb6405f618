// What connections hold together (net/tcp/commons.hh): parameters until one of them changes something, a controller until one of
// them tells it something; and what happens when there is no room for more.
#include <corewire/net/tcp/commons.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace corewire;
using namespace corewire::test;

namespace {

tcp::parameters with(tcp::commons& c) {
    tcp::parameters p = tcp_script::plain();
    p.common = &c;
    return p;
}

std::unique_ptr<tcp::tcb> connection(const tcp::parameters& p) {
    return std::make_unique<tcp::tcb>(from_ns(1'000), tcp::active_open{tcp::seq_number(1)}, p);
}

} // namespace

BOOST_AUTO_TEST_SUITE(commons)

BOOST_AUTO_TEST_CASE(connections_that_were_told_the_same_hold_one_copy_of_it) {
    tcp::commons common;
    const auto a = connection(with(common)), b = connection(with(common));
    BOOST_TEST(&a->options() == &b->options());
    BOOST_TEST(common.sets() == 1u);
    const auto alone = connection(tcp_script::plain());
    BOOST_TEST(&alone->options() != &a->options());
    BOOST_TEST(common.sets() == 1u);
}

BOOST_AUTO_TEST_CASE(who_changes_something_changes_it_for_itself) {
    tcp::commons common;
    const auto a = connection(with(common)), b = connection(with(common)), alone = connection(tcp_script::plain());
    for (tcp::tcb* one : {a.get(), alone.get()}) {
        one->set_no_delay(true);
        one->set_buffers(5'000, 6'000);
        one->set_fin_wait_2(7s);
        BOOST_TEST(one->options().no_delay);
        BOOST_TEST(one->options().receive_buffer == 5'000u);
        BOOST_TEST(one->options().send_buffer == 6'000u);
        BOOST_CHECK(one->options().fin_wait_2 == 7s);
    }
    BOOST_CHECK(b->options() == with(common));
    const std::size_t sets = common.sets();
    const auto c = connection(a->options()); // what is changed is shared again
    BOOST_TEST(&c->options() == &a->options());
    a->set_no_delay(false);
    c->set_no_delay(false);
    BOOST_TEST(&c->options() == &a->options());
    BOOST_TEST(common.sets() <= sets + 1);
}

BOOST_AUTO_TEST_CASE(beyond_the_limit_connections_have_their_own_copies) {
    tcp::commons common;
    std::vector<std::unique_ptr<tcp::tcb>> all;
    tcp::parameters p = with(common);
    for (std::size_t i = 0; i < tcp::commons::set_limit + 3; ++i) {
        p.receive_pieces = static_cast<std::uint32_t>(100 + i);
        all.push_back(connection(p));
    }
    BOOST_TEST(common.sets() == tcp::commons::set_limit);
    BOOST_TEST(common.refused() == 3u);
    for (std::size_t i = 0; i < all.size(); ++i) BOOST_TEST(all[i]->options().receive_pieces == 100 + i);
    all.back()->set_no_delay(true); // one's own, too
    BOOST_TEST(all.back()->options().no_delay);
    BOOST_TEST(!all.front()->options().no_delay);
    all.clear();
    p.receive_pieces = 9; // those that nobody holds give way
    const auto late = connection(p), later = connection(p);
    BOOST_TEST(&late->options() == &later->options());
    BOOST_TEST(late->options().receive_pieces == 9u);
    BOOST_TEST(common.sets() == tcp::commons::set_limit);
    BOOST_TEST(common.refused() == 4u);
}

BOOST_AUTO_TEST_CASE(a_controller_is_shared_until_a_connection_tells_it_something) {
    tcp::commons common;
    tcp_script lossy(with(common)), calm(with(common));
    lossy.connect();
    calm.connect();
    const std::size_t made = common.controllers(); // for the default segment size, and for the one agreed on
    BOOST_TEST(made == 2u);
    lossy.write(3'000);
    lossy.drain();
    for (int i = 0; i < 3; ++i) { // a tail loss probe, then time-outs
        lossy.advance(2s);
        lossy.drain();
    }
    BOOST_TEST(lossy.block().info().cwnd == 1'000u);
    BOOST_TEST(calm.block().info().cwnd == tcp::initial_window(1'000));
    tcp_script third(with(common));
    third.connect();
    BOOST_TEST(third.block().info().cwnd == tcp::initial_window(1'000));
    BOOST_TEST(common.controllers() == made);
}

BOOST_AUTO_TEST_CASE(each_kind_and_segment_size_has_a_controller_of_its_own) {
    tcp::commons common;
    const auto* a = common.find_controller(tcp::cubic_congestion, 1'000);
    BOOST_TEST(a == common.find_controller(tcp::cubic_congestion, 1'000));
    BOOST_TEST(a != common.find_controller(tcp::cubic_congestion, 1'001));
    BOOST_TEST(common.find_controller(tcp::reno_congestion, 1'000)->name() == "reno");
    BOOST_TEST(a->mss() == 1'000u);
    BOOST_TEST(a->shared());
}

BOOST_AUTO_TEST_CASE(beyond_the_limit_connections_have_their_own_controllers) {
    tcp::commons common;
    for (std::uint32_t i = 0; i < tcp::commons::controller_limit; ++i) {
        BOOST_TEST(common.find_controller(tcp::reno_congestion, 2'000 + i) != nullptr);
    }
    BOOST_TEST(common.find_controller(tcp::reno_congestion, 1'999) == nullptr);
    BOOST_TEST(common.refused() == 1u);
    tcp_script s(with(common));
    s.connect();
    BOOST_TEST(s.block().info().cwnd == tcp::initial_window(1'000));
    s.block().set_congestion(tcp::reno_congestion);
    BOOST_TEST(s.block().congestion() == "reno");
}

BOOST_AUTO_TEST_CASE(controllers_for_odd_segment_sizes_give_way_when_their_connections_are_gone) {
    tcp::commons common;
    std::vector<std::unique_ptr<tcp_script>> odd;
    for (std::size_t i = 0; i <= tcp::commons::controller_limit; ++i) {
        odd.push_back(std::make_unique<tcp_script>(with(common)));
        odd.back()->connect("SA 0:0 ack 1 win 65535 mss " + std::to_string(601 + 2 * i) + " sackok");
        BOOST_TEST(odd.back()->block().shares_controller() == (i < tcp::commons::controller_limit));
    }
    const std::uint64_t refused = common.refused();
    BOOST_TEST(refused != 0u);
    odd.clear();
    tcp_script one(with(common)), other(with(common));
    one.connect();
    other.connect();
    BOOST_TEST((one.block().shares_controller() && other.block().shares_controller()));
    BOOST_TEST(one.block().info().cwnd == tcp::initial_window(1'000));
    BOOST_TEST(common.controllers() == tcp::commons::controller_limit);
    BOOST_TEST(common.refused() == refused);
}

BOOST_AUTO_TEST_CASE(a_controller_knows_who_looks_at_it) {
    tcp::commons common;
    const auto* looked_at = common.find_controller(tcp::cubic_congestion, 1'000); // by the test itself, too
    {
        tcp_script first(with(common)), second(with(common));
        first.connect();
        second.connect();
        BOOST_TEST(looked_at->users() == 3u);
        first.block().set_congestion(tcp::reno_congestion);
        BOOST_TEST(looked_at->users() == 2u);
        second.write(3'000);
        second.drain();
        for (int i = 0; i < 3; ++i) { // a tail loss probe, then time-outs
            second.advance(2s);
            second.drain();
        }
        BOOST_TEST(!second.block().shares_controller());
        BOOST_TEST(looked_at->users() == 1u);
    }
    BOOST_TEST(looked_at->users() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
