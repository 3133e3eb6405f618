// TCP options: every kind, both orders of writing, and what a hostile peer sends.
#include "support.hh"

#include <corewire/net/wire/tcp.hh>
#include <corewire/net/wire/tcp_options.hh>

using namespace corewire::wire;
using namespace wire_test;

namespace {

std::string written(const tcp_options& options, option_order order = option_order::linux_kernel) {
    std::byte bytes[tcp_options::max_size];
    const std::size_t size = options.emit(bytes, order);
    BOOST_TEST(size == options.size(order));
    BOOST_TEST(size % 4 == 0u);
    return to_hex(byte_span(bytes).first(size));
}

/// What a SYN of Linux or FreeBSD has.
tcp_options syn_options() {
    tcp_options o;
    o.set_mss(1460);
    o.set_sack_permitted();
    o.set_timestamps(0x11223344, 0);
    o.set_window_scale(7);
    return o;
}

tcp_options random_options(corewire::random_generator& random) {
    tcp_options o;
    if (random.chance(0.5)) o.set_mss(any<std::uint16_t>(random));
    if (random.chance(0.5)) o.set_window_scale(static_cast<std::uint8_t>(random.below(15)));
    if (random.chance(0.5)) o.set_sack_permitted();
    if (random.chance(0.5)) o.set_timestamps(any<std::uint32_t>(random), any<std::uint32_t>(random));
    if (random.chance(0.3)) {
        const byte_vector cookie = random_payload(random, random.chance(0.2) ? 0 : 4 + 2 * random.below(7));
        o.set_fast_open(cookie, random.chance(0.5));
    }
    if (random.chance(0.5)) {
        for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
            o.add_sack_block({any<std::uint32_t>(random), any<std::uint32_t>(random)});
        }
    }
    return o;
}

} // namespace

BOOST_AUTO_TEST_SUITE(tcp_options)
using corewire::wire::tcp_options; // the suite is a namespace of the same name

BOOST_AUTO_TEST_CASE(the_options_of_a_kernels_syn) {
    const byte_vector frame = hex(kernel::syn);
    tcp_view v;
    BOOST_REQUIRE(tcp_view::parse(byte_span(frame).subspan(34), v) == parse_error::none);
    tcp_options o;
    BOOST_REQUIRE(tcp_options::parse(v.options(), o) == parse_error::none);
    BOOST_TEST(o.has_mss());
    BOOST_TEST(o.mss == 1460);
    BOOST_TEST(o.has_sack_permitted());
    BOOST_TEST(o.has_timestamps());
    BOOST_TEST(o.timestamp_value == 0x93734785);
    BOOST_TEST(o.timestamp_echo == 0u);
    BOOST_TEST(o.has_window_scale());
    BOOST_TEST(o.window_scale == 10);
    BOOST_TEST(!o.has_sack());
    BOOST_TEST(!o.has_fast_open());
    BOOST_TEST(written(o) == to_hex(v.options()));
}

BOOST_AUTO_TEST_CASE(the_timestamps_of_ordinary_segments_take_the_short_way) {
    const byte_vector bytes = hex("0101080a 01020304 05060708");
    tcp_options o = syn_options(); // whatever was in it before is gone
    o.add_sack_block({1, 2});
    BOOST_REQUIRE(tcp_options::parse(bytes, o) == parse_error::none);
    BOOST_TEST((o.present == tcp_option_set::timestamps));
    BOOST_TEST(o.timestamp_value == 0x01020304u);
    BOOST_TEST(o.timestamp_echo == 0x05060708u);
    BOOST_TEST(o.sack_count == 0);
    BOOST_TEST(written(o) == to_hex(bytes));
    BOOST_REQUIRE(tcp_options::parse({}, o) == parse_error::none);
    BOOST_TEST((o.present == tcp_option_set::none));
    BOOST_TEST(written(o).empty());
}

BOOST_AUTO_TEST_CASE(each_combination_is_written_as_linux_does) {
    tcp_options o;
    o.set_mss(1460);
    BOOST_TEST(written(o) == "020405b4");
    o.set_window_scale(7);
    BOOST_TEST(written(o) == "020405b401030307");
    o.set_sack_permitted();
    BOOST_TEST(written(o) == "020405b40101040201030307");
    o.set_timestamps(1, 2);
    BOOST_TEST(written(o) == "020405b40402080a000000010000000201030307");
    o.set_fast_open({});
    BOOST_TEST(written(o) == "020405b40402080a00000001000000020103030722020101");
    o.set_fast_open(hex("0102030405060708"));
    BOOST_TEST(written(o) == "020405b40402080a000000010000000201030307220a01020304050607080101");
    o.set_fast_open(hex("0102030405060708090a0b0c0d0e0f10"));
    BOOST_TEST(written(o) == "020405b40402080a0000000100000002010303072212"
                             "0102030405060708090a0b0c0d0e0f100101");
    BOOST_TEST(o.size() == tcp_options::max_size);
}

BOOST_AUTO_TEST_CASE(fast_open_has_an_older_form) { // kind 254, RFC 6994: 0xf989
    tcp_options o;
    o.set_fast_open({}, true);
    BOOST_TEST(written(o) == "fe04f989");
    o.set_fast_open(hex("0102030405060708"), true);
    BOOST_TEST(written(o) == "fe0cf9890102030405060708");
    o = syn_options();
    o.set_fast_open(hex("0102030405060708090a0b0c0d0e0f10"), true);
    for (const auto order : {option_order::linux_kernel, option_order::freebsd}) BOOST_TEST(o.size(order) == tcp_options::max_size);

    const auto read = [](std::string_view text) {
        tcp_options of;
        BOOST_REQUIRE(tcp_options::parse(hex(text), of) == parse_error::none);
        return of;
    };
    BOOST_TEST((read("fe04f989").has_fast_open() && read("fe04f989").cookie_size == 0));
    BOOST_TEST((read("fe08f98901020304 0101").fast_open_is_experimental && read("fe08f98901020304").cookie_size == 4));
    for (const char* const other : {"fe02", "fe03f9", "fe04f988", "fe06f9890102", "fe09f9890102030405",
                                    "fe16f989000102030405060708090a0b0c0d0e0f1011"})
        BOOST_TEST(!read(other).has_fast_open());
    BOOST_TEST(!read("fe04f989 2202").fast_open_is_experimental); // the last one counts
    BOOST_TEST(!(read("fe04f989") == read("2202")));
}

BOOST_AUTO_TEST_CASE(sack_blocks_are_written_as_far_as_there_is_room) {
    tcp_options o;
    for (std::uint32_t i = 0; i < 4; ++i)
        BOOST_TEST(o.add_sack_block({16 * i, 16 * i + 8}));
    BOOST_TEST(!o.add_sack_block({1, 2}));
    BOOST_TEST(written(o) == "01010522"
                             "0000000000000008"
                             "0000001000000018"
                             "0000002000000028"
                             "0000003000000038");
    o.set_timestamps(1, 2); // RFC 2018 3: three beside the timestamps
    BOOST_TEST(written(o) == "0101080a0000000100000002"
                             "0101051a"
                             "0000000000000008"
                             "0000001000000018"
                             "0000002000000028");
    BOOST_TEST(o.size() == tcp_options::max_size);
}

BOOST_AUTO_TEST_CASE(the_other_order_is_that_of_freebsd) {
    BOOST_TEST(written(syn_options(), option_order::freebsd) == "020405b4010303070402080a1122334400000000");
    tcp_options o;
    o.set_sack_permitted();
    BOOST_TEST(written(o, option_order::freebsd) == "04020000");
    o.clear();
    o.set_timestamps(1, 2);
    BOOST_TEST(written(o, option_order::freebsd) == "0101080a0000000100000002");
    o.add_sack_block({3, 4});
    BOOST_TEST(written(o, option_order::freebsd) == "0101080a00000001000000020101050a0000000300000004");
}

BOOST_AUTO_TEST_CASE(good_options_in_any_arrangement_are_read) { // RFC 9293 3.1: MUST-4, MUST-64
    const byte_vector bytes = hex("030308 0402 080a 0000000a 0000000b 01 0204 0200 01 01 050a 00000001 00000002 00 ff");
    tcp_options o;
    BOOST_REQUIRE(tcp_options::parse(bytes, o) == parse_error::none);
    BOOST_TEST(o.window_scale == 8);
    BOOST_TEST(o.has_sack_permitted());
    BOOST_TEST(o.timestamp_value == 10u);
    BOOST_TEST(o.timestamp_echo == 11u);
    BOOST_TEST(o.mss == 512);
    BOOST_TEST(o.sack_count == 1);
    BOOST_TEST((o.sack[0] == sack_block{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_length_that_breaks_the_walk_ends_it_with_an_error) { // RFC 9293 3.1: MUST-7
    struct row {
        const char* what;
        const char* bytes;
        tcp_option_set before; // what was read ahead of the fault
    };
    static constexpr row table[] = {
        {"length 0", "0200 05b4", tcp_option_set::none},
        {"length 1", "0201 05b4", tcp_option_set::none},
        {"length beyond the header", "0205 05b4", tcp_option_set::none},
        {"length 255", "02ff 05b4", tcp_option_set::none},
        {"a kind without a length at the end", "010101 02", tcp_option_set::none},
        {"an unknown kind with length 0", "fd00 0000", tcp_option_set::none},
        {"an unknown kind beyond the header", "fd05 0000", tcp_option_set::none},
        {"MSS cut by one byte", "0204 05", tcp_option_set::none},
        {"timestamps cut by one byte", "0101 080a 00000001 000000", tcp_option_set::none},
        {"the short way's form with length 11", "0101 080b 00000001 00000002", tcp_option_set::none},
        {"a fault behind the MSS", "0204 05b4 0300 0000", tcp_option_set::mss},
        {"SACK of two blocks, one there", "0101 0512 00000001 00000002", tcp_option_set::none},
    };
    for (const row& r : table) {
        tcp_options o;
        BOOST_TEST(tcp_options::parse(hex(r.bytes), o) == parse_error::bad_option, r.what);
        BOOST_TEST((o.present == r.before), r.what);
    }
}

BOOST_AUTO_TEST_CASE(a_kind_that_is_unknown_or_has_a_strange_length_is_skipped) { // RFC 9293 3.1: MUST-6
    struct row {
        const char* what;
        const char* option; // followed by a good MSS of 512
    };
    static constexpr row table[] = {
        {"MSS of 3", "0203 05"},
        {"MSS of 5", "0205 05b400"},
        {"window scale of 2", "0302"},
        {"window scale of 4", "0304 0708"},
        {"SACK permitted of 3", "0403 00"},
        {"SACK of 2", "0502"},
        {"SACK of 6", "0506 00000000"},
        {"SACK of 12", "050c 00000000000000000000"},
        {"timestamps of 2", "0802"},
        {"timestamps of 9", "0809 00000000000000"},
        {"a cookie of 2", "2204 0102"},
        {"a cookie of 5", "2207 0102030405"},
        {"a cookie of 18", "2214 000000000000000000000000000000000000"},
        {"another experiment", "fe04 f988"},
        {"an unknown kind", "4206 01020304"},
        {"an unknown kind without data", "4202"},
    };
    for (const row& r : table) {
        byte_vector bytes = hex(r.option);
        const byte_vector mss = hex("0204 0200");
        bytes.insert(bytes.end(), mss.begin(), mss.end());
        tcp_options o;
        BOOST_TEST(tcp_options::parse(bytes, o) == parse_error::none, r.what);
        BOOST_TEST((o.present == tcp_option_set::mss), r.what);
        BOOST_TEST(o.mss == 512, r.what);
    }
}

BOOST_AUTO_TEST_CASE(accurate_ecn_counters_of_every_length_and_order) { // RFC 9768 3.2.3
    const auto read = [](const char* bytes) {
        tcp_options o;
        BOOST_TEST(tcp_options::parse(hex(bytes), o) == parse_error::none, bytes);
        BOOST_TEST(o.has_accurate_ecn(), bytes);
        return o.accurate_ecn;
    };
    using option = accurate_ecn_option;
    BOOST_TEST((read("ac0b 000001 000203 040506 01") == option{.order_1 = false, .fields = 3, .bytes = {1, 0x203, 0x40506}}));
    BOOST_TEST((read("ae0b 000001 000203 040506 01") == option{.order_1 = true, .fields = 3, .bytes = {1, 0x203, 0x40506}}));
    BOOST_TEST((read("ac08 000001 000203") == option{.order_1 = false, .fields = 2, .bytes = {1, 0x203, 0}}));
    BOOST_TEST((read("ae05 0000ff 010101") == option{.order_1 = true, .fields = 1, .bytes = {0xff, 0, 0}}));
    BOOST_TEST((read("ac02 0101").fields == 0));
    BOOST_TEST((read("ac0a 000001 000203 0405 0101").fields == 2)); // whole fields that fit; the rest is padding
    BOOST_TEST((read("ac0f 000001 000203 040506 0708090a 01").fields == 3));
    const option zero{.order_1 = false, .fields = 3, .bytes = {10, 20, 30}}, one{.order_1 = true, .fields = 3, .bytes = {10, 20, 30}};
    BOOST_TEST((zero.e0b() == 10 && zero.ceb() == 20 && zero.e1b() == 30));
    BOOST_TEST((one.e1b() == 10 && one.ceb() == 20 && one.e0b() == 30));
    const option cut{.order_1 = true, .fields = 1, .bytes = {1, 0, 0}};
    BOOST_TEST((cut.has_e1b() && !cut.has_ceb() && !cut.has_e0b()));
    tcp_options syn_ack; // as many as a SYN-ACK has: nothing is lost
    syn_ack.set_mss(1460);
    syn_ack.set_sack_permitted();
    syn_ack.set_timestamps(1, 2);
    syn_ack.set_window_scale(7);
    syn_ack.set_accurate_ecn(zero);
    for (const auto order : {option_order::linux_kernel, option_order::freebsd}) {
        byte_vector bytes(tcp_options::max_size);
        tcp_options back;
        const std::size_t size = syn_ack.emit(bytes, order);
        BOOST_TEST(tcp_options::parse(byte_span(bytes).first(size), back) == parse_error::none);
        BOOST_TEST((back == syn_ack));
        BOOST_TEST(size == 32u);
    }
    syn_ack.set_fast_open(hex("0102030405060708090a0b0c0d0e0f10")); // a cookie comes first, and leaves no room
    byte_vector bytes(tcp_options::max_size);
    tcp_options back;
    BOOST_TEST(tcp_options::parse(byte_span(bytes).first(syn_ack.emit(bytes)), back) == parse_error::none);
    BOOST_TEST((back.has_fast_open() && !back.has_accurate_ecn()));
}

BOOST_AUTO_TEST_CASE(edges_of_values) {
    tcp_options o;
    BOOST_REQUIRE(tcp_options::parse(hex("03030f00"), o) == parse_error::none);
    BOOST_TEST(o.window_scale == 14); // RFC 7323 2.3
    BOOST_REQUIRE(tcp_options::parse(hex("0303ff00"), o) == parse_error::none);
    BOOST_TEST(o.window_scale == 14);
    BOOST_REQUIRE(tcp_options::parse(hex("0204000002040005"), o) == parse_error::none);
    BOOST_TEST(o.mss == 5); // the last one counts
    BOOST_REQUIRE(tcp_options::parse(hex("0512000000010000000200000003000000040101 050a0000000500000006"), o) ==
                  parse_error::none);
    BOOST_TEST(o.sack_count == 1);
    BOOST_TEST((o.sack[0] == sack_block{5, 6}));
    BOOST_REQUIRE(tcp_options::parse(hex("22020101"), o) == parse_error::none);
    BOOST_TEST(o.has_fast_open());
    BOOST_TEST(o.fast_open_cookie().empty());
    BOOST_REQUIRE(tcp_options::parse(hex("0522"
                                         "0000000000000001"
                                         "0000000000000002"
                                         "0000000000000003"
                                         "0000000000000004"),
                                     o) == parse_error::none);
    BOOST_TEST(o.sack_count == 4);
    o.set_window_scale(200);
    BOOST_TEST(o.window_scale == 14);
}

BOOST_AUTO_TEST_CASE(equality_looks_at_what_is_present) {
    tcp_options a;
    tcp_options b;
    a.mss = 7;
    BOOST_TEST((a == b));
    a.set_mss(7);
    BOOST_TEST(!(a == b));
    b.set_mss(8);
    BOOST_TEST(!(a == b));
    b.set_mss(7);
    BOOST_TEST((a == b));
    a.add_sack_block({1, 2});
    b.add_sack_block({1, 3});
    BOOST_TEST(!(a == b));
}

BOOST_AUTO_TEST_CASE(random_options_go_both_ways_in_both_orders) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 20000; ++i) {
        const tcp_options o = random_options(random);
        for (const option_order order : {option_order::linux_kernel, option_order::freebsd}) {
            const std::size_t size = o.size(order);
            BOOST_REQUIRE(size <= tcp_options::max_size);
            BOOST_REQUIRE(size % 4 == 0u);
            byte_vector bytes(size); // no byte more than it says: AddressSanitizer watches
            BOOST_REQUIRE(o.emit(bytes, order) == size);
            // RFC 9293 3.1, MUST-68: what has no length is EOL or NOP; MUST-69: behind the end there are zeros.
            std::size_t at = 0;
            while (at < size && bytes[at] != std::byte{0})
                at += bytes[at] == std::byte{1} ? 1 : std::to_integer<std::size_t>(bytes[at + 1]);
            BOOST_REQUIRE(at <= size);
            for (; at < size; ++at) BOOST_REQUIRE((bytes[at] == std::byte{0}));
            tcp_options again;
            BOOST_REQUIRE(tcp_options::parse(bytes, again) == parse_error::none);
            // SACK blocks are left out only for want of room; the rest is always there.
            tcp_options expected = o;
            if (expected.sack_count > again.sack_count) {
                BOOST_REQUIRE(size + 8 > tcp_options::max_size - 4);
                expected.sack_count = again.sack_count;
                if (again.sack_count == 0) {
                    expected.present = static_cast<tcp_option_set>(static_cast<unsigned>(expected.present) &
                                                                   ~static_cast<unsigned>(tcp_option_set::sack));
                }
            }
            BOOST_REQUIRE_MESSAGE((again == expected), to_hex(bytes));
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
