// Little data leaves the frames that it lies in, wherever that is, and is the same afterwards.
#include <corewire/net/frame/small_blocks.hh>
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;

BOOST_AUTO_TEST_SUITE(little_data)

BOOST_AUTO_TEST_CASE(what_was_written_leaves_its_frames_sent_or_not) {
    small_blocks blocks(1 << 20);
    tcp::parameters p = tcp_script::plain();
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.connect();
    s.write(100);
    s.write(200);
    s.write(1500); // no block's
    BOOST_TEST(s.pool().count() - s.pool().free_count == 3u);
    s.expect("A 1:1001 ack 1");
    BOOST_TEST(s.block().leave_frames(blocks) == 2u);
    BOOST_TEST(s.pool().count() - s.pool().free_count == 1u);
    BOOST_TEST(s.block().leave_frames(blocks) == 0u); // they are where they shall be
    s.expect("A 1001:1801 ack 1");
    s.expect_nothing();
    s.advance(1s);
    s.expect("A 1:1001 ack 1"); // from the blocks, and verified
    s.receive("A 1:1 ack 1801");
    BOOST_TEST(blocks.held() == 0u);
}

BOOST_AUTO_TEST_CASE(what_has_come_leaves_its_frames_in_order_or_not) {
    small_blocks blocks(1 << 20);
    tcp_script s;
    s.connect();
    s.receive("A 1:65 ack 1");
    s.receive("A 65:129 ack 1");
    s.receive("A 193:257 ack 1");
    s.receive("A 257:1257 ack 1");
    const std::uint32_t before = s.pool().free_count;
    BOOST_TEST(s.block().leave_frames(blocks) == 3u);
    BOOST_TEST(s.pool().free_count == before + 3);
    s.receive("A 129:193 ack 1");
    BOOST_TEST(s.read_all() == 1256u); // verified
    BOOST_TEST(blocks.held() == 0u);
}

BOOST_AUTO_TEST_CASE(what_others_see_stays_where_it_is) {
    small_blocks blocks(1 << 20);
    tcp_script s;
    s.connect();
    s.receive("A 1:101 ack 1");
    buffer theirs = s.block().read(50);
    BOOST_TEST(theirs.size() == 50u);
    BOOST_TEST(s.block().leave_frames(blocks) == 0u);
    theirs = {};
    BOOST_TEST(s.block().leave_frames(blocks) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
