// Urgent data as RFC 6093 reads RFC 9293 3.8.5: a mark in the stream.
#include <tests/support/tcp_script.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::test;
using tcp::event;
using tcp::tcp_flags;

BOOST_AUTO_TEST_SUITE(urgent)

BOOST_AUTO_TEST_CASE(the_pointer_is_that_of_the_byte_behind_the_last_urgent_one) { // RFC 6093 4, RFC 9293 MUST-30, MUST-31, MUST-62
    auto p = tcp_script::plain();
    p.tail_loss_probe = false;
    tcp_script s(p);
    s.connect();
    s.write(2500);
    s.block().set_urgent();
    s.write(600);
    s.expect("A 1:1001 up 2500");
    s.expect("A 1001:2001 up 1500");
    s.expect("A 2001:3001 up 500");
    BOOST_TEST(!wire::has(s.expect("A 3001:3101").flags, tcp_flags::urg)); // behind the mark
    s.advance(1s);
    s.expect("A 1:1001 up 2500"); // again as before
    s.receive("A 1:1 ack 3101 sack 1-1001"); // needlessly
    s.write(100);
    BOOST_TEST(!wire::has(s.expect("A 3101:3201").flags, tcp_flags::urg));
    s.receive("A 1:1 ack 3201");
    s.write(1000);
    s.block().set_urgent();
    s.write(100);
    s.expect("A 3201:4201 up 1000");
    s.receive("A 1:1 ack 3201"); // Nagle lets nothing go behind it
    s.block().set_no_delay(true);
    BOOST_TEST(!wire::has(s.expect("A 4201:4301").flags, tcp_flags::urg)); // it begins at the mark
}

BOOST_AUTO_TEST_CASE(a_mark_beyond_the_field_is_told_as_far_as_it_goes) {
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 65535 mss 1000 sackok ws 5");
    s.write(100'000);
    s.block().set_urgent();
    s.expect("A 1:1001 up 65535");
    s.expect("A 1001:2001 up 65535");
}

BOOST_AUTO_TEST_CASE(a_closed_window_does_not_keep_it_back) { // RFC 9293 3.8.5
    tcp_script s;
    s.connect("SA 0:0 ack 1 win 0 mss 1000 sackok");
    s.write(10);
    s.block().set_urgent();
    s.expect("A 1:1 ack 1 up 10");
}

BOOST_AUTO_TEST_CASE(the_reader_hears_of_it_once_and_learns_how_far_it_is) { // RFC 9293 MUST-32, MUST-33
    tcp_script s;
    s.connect();
    BOOST_TEST(s.block().urgent_ahead() == 0u);
    BOOST_TEST(tcp::has(s.receive("AU 1:101 ack 1 up 300"), event::urgent)); // before the bytes themselves
    BOOST_TEST(s.block().urgent_ahead() == 300u);
    BOOST_TEST(!tcp::has(s.receive("AU 101:201 ack 1 up 200"), event::urgent)); // the same mark
    BOOST_TEST(s.read_all() == 200u);
    BOOST_TEST(s.block().urgent_ahead() == 100u);
    BOOST_TEST(!tcp::has(s.receive("AU 201:251 ack 1 up 50"), event::urgent)); // an older one
    BOOST_TEST(tcp::has(s.receive("AU 251:301 ack 1 up 100"), event::urgent)); // a newer one
    s.read_all();
    BOOST_TEST(s.block().urgent_ahead() == 50u);
    s.receive("A 301:401 ack 1");
    BOOST_TEST(s.read_all() == 100u); // in line
    BOOST_TEST(s.block().urgent_ahead() == 0u);
    BOOST_TEST(!tcp::has(s.receive("AU 401:501 ack 1 up 0"), event::urgent));
    BOOST_TEST(!tcp::has(s.receive("A 501:601 ack 1 up 50"), event::urgent)); // without the flag it means nothing
    BOOST_TEST(tcp::has(s.receive("AU 601:701 ack 1 up 100"), event::urgent)); // a new row, after the last was read past
}

BOOST_AUTO_TEST_CASE(a_mark_that_was_read_past_before_it_was_told_is_no_news) { // RFC 9293 MUST-32
    tcp_script s;
    s.connect();
    s.receive("A 1:101 ack 1");
    BOOST_TEST(s.read_all() == 100u);
    BOOST_TEST(!tcp::has(s.receive("AU 51:151 ack 1 up 20"), event::urgent)); // in what comes once more
    BOOST_TEST(!tcp::has(s.receive("AU 101:201 ack 1 up 0"), event::urgent));
    BOOST_TEST(s.block().urgent_ahead() == 0u);
    BOOST_TEST(tcp::has(s.receive("AU 151:251 ack 1 up 1"), event::urgent)); // the byte that waits to be read
    BOOST_TEST(s.block().urgent_ahead() == 51u);
}

BOOST_AUTO_TEST_CASE(a_closed_window_hides_neither_urgent_text_nor_a_reset) { // RFC 9293 3.4, MUST-66
    auto p = tcp_script::plain();
    p.receive_buffer = 2000;
    tcp_script s(p);
    s.connect();
    s.receive("A 1:1001 ack 1");
    s.drain();
    s.receive("A 1001:2001 ack 1");
    s.drain();
    BOOST_TEST(tcp::has(s.receive("AU 2001:2001 ack 1 up 500"), event::urgent));
    BOOST_TEST(s.block().urgent_ahead() == 2500u);
    BOOST_TEST(tcp::has(s.receive("R 2001:2001"), event::reset));
}

BOOST_AUTO_TEST_CASE(text_with_a_syn_ack_may_be_urgent) { // RFC 9293 3.10.7.3: it goes on at the sixth step
    tcp_script s;
    s.open();
    s.expect("S 0:0");
    BOOST_TEST(tcp::has(s.receive("SAU 0:100 ack 1 up 51 win 65535 mss 1000"), event::urgent));
    BOOST_TEST(s.block().urgent_ahead() == 50u);
}

BOOST_AUTO_TEST_SUITE_END()
