// IGMP messages of versions 2 and 3.
#include "support.hh"

#include <corewire/net/wire/igmp.hh>
#include <corewire/net/wire/ipv4.hh>

using namespace corewire::wire;
using namespace wire_test;

BOOST_AUTO_TEST_SUITE(igmp)

BOOST_AUTO_TEST_CASE(a_version_3_report_of_a_kernel_is_read_and_written_back) {
    const byte_vector packet = packet_of(kernel::igmp_v3_report);
    ipv4_view ip;
    BOOST_REQUIRE(ipv4_view::parse(packet, ip) == parse_error::none);
    igmp_view v;
    BOOST_REQUIRE(igmp_view::parse(ip.payload(), v) == parse_error::none);
    BOOST_TEST((v.type() == igmp_type::v3_report));
    BOOST_TEST(v.checksum_ok());
    igmp_record_cursor cursor = v.records();
    BOOST_TEST(cursor.left() == 1u);
    igmp_record_view record;
    BOOST_REQUIRE(cursor.next(record));
    BOOST_TEST((record.type == igmp_record_type::to_exclude));
    BOOST_TEST(record.group == ipv4_address(239, 1, 2, 3));
    BOOST_TEST(record.source_count() == 0u);
    BOOST_TEST(!cursor.next(record));

    const igmp_record join{igmp_record_type::to_exclude, ipv4_address(239, 1, 2, 3), {}};
    byte_vector out(16);
    BOOST_TEST(emit_igmp_v3_report(out, {&join, 1}) == 16u);
    BOOST_TEST(to_hex(out) == to_hex(ip.payload()));
}

BOOST_AUTO_TEST_CASE(version_2_messages_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (const igmp_type type : {igmp_type::query, igmp_type::v1_report, igmp_type::v2_report, igmp_type::v2_leave}) {
        for (int i = 0; i < 300; ++i) {
            const igmp_message m{type, any<std::uint8_t>(random), ipv4_address(any<std::uint32_t>(random))};
            byte_vector bytes(8);
            BOOST_REQUIRE(m.emit(bytes) == 8u);
            igmp_view v;
            BOOST_REQUIRE(igmp_view::parse(bytes, v) == parse_error::none);
            BOOST_REQUIRE(igmp_message::from(v) == m);
            BOOST_REQUIRE(v.checksum_ok());
            BOOST_REQUIRE(!v.is_v3_query());
        }
    }
    byte_vector bytes(8);
    igmp_message{igmp_type::v2_report, 0, ipv4_address(239, 1, 2, 3)}.emit(bytes);
    BOOST_TEST(to_hex(bytes) == "1600f8faef010203"); // ~(0x1600 + 0xef01 + 0x0203 + carry)
}

BOOST_AUTO_TEST_CASE(a_version_3_query_is_read) {
    const byte_vector bytes = hex("11 8f 0000 ef010203 0a 8f 0002 0a000001 0a000002");
    igmp_view v;
    BOOST_REQUIRE(igmp_view::parse(bytes, v) == parse_error::none);
    BOOST_TEST(v.is_v3_query());
    BOOST_TEST(v.group() == ipv4_address(239, 1, 2, 3));
    // RFC 3376 4.1.1: mantissa 0xf, exponent 0: (0xf | 0x10) << 3.
    BOOST_TEST(v.max_response() == 248u);
    BOOST_TEST(v.query_interval() == 248u);
    BOOST_TEST(v.suppress_router_processing());
    BOOST_TEST(v.robustness() == 2);
    BOOST_TEST(v.source_count() == 2u);
    BOOST_TEST(v.source(0) == ipv4_address(10, 0, 0, 1));
    BOOST_TEST(v.source(1) == ipv4_address(10, 0, 0, 2));
    byte_vector largest = bytes;
    largest[1] = std::byte{0xff};
    BOOST_REQUIRE(igmp_view::parse(largest, v) == parse_error::none);
    BOOST_TEST(v.max_response() == 31744u); // (0xf | 0x10) << 10
}

BOOST_AUTO_TEST_CASE(messages_that_promise_more_than_there_is_are_truncated) {
    struct row {
        const char* what;
        const char* bytes;
        parse_error expected;
    };
    static constexpr row table[] = {
        {"nothing", "", parse_error::truncated},
        {"seven bytes", "11000000000000", parse_error::truncated},
        {"a query between the versions, 10 bytes", "1100000000000000 0000", parse_error::none},
        {"a query of one source, none there", "1100000000000000 00000001", parse_error::truncated},
        {"a query of 65535 sources", "1100000000000000 0000ffff 0a000001", parse_error::truncated},
        {"a report of one record, none there", "2200000000000001", parse_error::truncated},
        {"a report of one record, cut", "2200000000000001 04000000ef0102", parse_error::truncated},
        {"a record of one source, none there", "2200000000000001 04000001ef010203", parse_error::truncated},
        {"a record of auxiliary data, none there", "2200000000000001 04010000ef010203", parse_error::truncated},
        {"two records, one there", "2200000000000002 04000000ef010203", parse_error::truncated},
        {"65535 records", "220000000000ffff 04000000ef010203", parse_error::truncated},
        {"a report of no records", "2200000000000000", parse_error::none},
        {"sources and auxiliary data", "2200000000000001 04010001ef010203 0a000001 ffffffff", parse_error::none},
        {"an unknown type", "9900000000000000", parse_error::none},
    };
    for (const row& r : table) {
        igmp_view v;
        BOOST_TEST(igmp_view::parse(hex(r.bytes), v) == r.expected, r.what);
    }
}

BOOST_AUTO_TEST_CASE(random_reports_go_both_ways) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 1000; ++i) {
        std::vector<std::vector<ipv4_address>> sources(random.below(6));
        std::vector<igmp_record> records;
        std::size_t size = 8;
        for (auto& list : sources) {
            for (std::uint64_t n = random.below(5); n > 0; --n)
                list.emplace_back(any<std::uint32_t>(random));
            records.push_back(
                {static_cast<igmp_record_type>(1 + random.below(6)), ipv4_address(any<std::uint32_t>(random)), list});
            size += 8 + 4 * list.size();
        }
        byte_vector bytes(size);
        BOOST_REQUIRE(emit_igmp_v3_report(bytes, records) == size);
        igmp_view v;
        BOOST_REQUIRE(igmp_view::parse(bytes, v) == parse_error::none);
        BOOST_REQUIRE(v.checksum_ok());
        igmp_record_cursor cursor = v.records();
        for (const igmp_record& expected : records) {
            igmp_record_view record;
            BOOST_REQUIRE(cursor.next(record));
            BOOST_REQUIRE((record.type == expected.type));
            BOOST_REQUIRE(record.group == expected.group);
            BOOST_REQUIRE(record.source_count() == expected.sources.size());
            for (std::size_t s = 0; s < record.source_count(); ++s)
                BOOST_REQUIRE(record.source(s) == expected.sources[s]);
        }
        BOOST_REQUIRE(cursor.left() == 0u);
    }
}

BOOST_AUTO_TEST_SUITE_END()
