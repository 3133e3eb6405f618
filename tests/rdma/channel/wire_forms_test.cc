// What the two ends of an rc_channel tell each other: the hello, the introduction over a stream, the header of each message, the
// announcement of a large one.
#include <corewire/rdma/channel/introduction.hh>
#include <corewire/rdma/channel/rendezvous.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;
using namespace corewire::rdma;

BOOST_AUTO_TEST_SUITE(wire_forms)

BOOST_AUTO_TEST_CASE(a_hello_survives_the_wire_and_its_bounds_are_checked) {
    const rc_hello said{64, 4096, 1u << 20, 4};
    const auto heard = rc_hello::from_wire(said.to_wire());
    BOOST_REQUIRE(heard.has_value());
    BOOST_TEST(heard->receive_depth == 64u);
    BOOST_TEST(heard->message_size == 4096u);
    BOOST_TEST(heard->largest_message == 1u << 20);
    BOOST_TEST(heard->large_messages == 4u);
    for (const rc_hello bad : {rc_hello{0, 4096}, rc_hello{4097, 4096}, rc_hello{64, (1u << 30) + 1}, rc_hello{64, 4096, (1u << 30) + 1, 4},
                               rc_hello{64, 4096, 1u << 20, 65}})
        BOOST_TEST(!rc_hello::from_wire(bad.to_wire()).has_value());
    auto other_version = said.to_wire();
    other_version[5] = std::byte{1};
    BOOST_TEST(!rc_hello::from_wire(other_version).has_value());
    BOOST_TEST(!rc_hello::from_wire(byte_span(said.to_wire()).first(19)).has_value());
}

BOOST_AUTO_TEST_CASE(a_header_survives_the_wire_and_only_large_messages_have_a_slot) {
    using kind = rc_header::kind;
    for (const rc_header said : {rc_header{kind::data, 17}, rc_header{kind::credits, 4096}, rc_header{kind::goodbye, 0},
                                 rc_header{kind::announcement, 3, 63}, rc_header{kind::fetched, 0xffff, 0xfff}}) {
        const auto heard = rc_header::from_wire(said.to_wire());
        BOOST_REQUIRE(heard.has_value());
        BOOST_TEST((heard->what == said.what));
        BOOST_TEST(heard->credits == said.credits);
        BOOST_TEST(heard->slot == said.slot);
    }
    for (const std::uint32_t bad : {0u, 0x0fff'ffffu, 0x1001'0000u, 0x2fff'0000u, 0x3800'0000u, 0x6000'0000u, 0xffff'ffffu})
        BOOST_TEST(!rc_header::from_wire(bad).has_value());
}

BOOST_AUTO_TEST_CASE(an_announcement_survives_the_wire_and_its_bounds_are_checked) {
    std::array<std::byte, rc_announcement::largest_wire + 16> wire{};
    rc_announcement said;
    for (said.count = 1; said.count <= most_regions; ++said.count) {
        said.stretches[said.count - 1] = {0x1122'3344'5566'7788u + said.count, 0xcafe, 0xf000'0000 + said.count};
        const std::uint32_t size = said.to_wire(wire.data());
        BOOST_TEST(size == 4 + 16 * said.count);
        const auto heard = rc_announcement::from_wire(byte_span(wire).first(size));
        BOOST_REQUIRE(heard.has_value());
        BOOST_TEST(heard->count == said.count);
        BOOST_TEST(heard->size() == said.size()); // beyond 32 bits
        BOOST_TEST(heard->stretches[said.count - 1].address == 0x1122'3344'5566'7788u + said.count);
        BOOST_TEST(heard->stretches[said.count - 1].key == 0xcafeu);
        for (const std::uint32_t other : {0u, 3u, size - 1, size + 1})
            BOOST_TEST(!rc_announcement::from_wire(byte_span(wire).first(other)));
    }
    const auto refused = [&](std::uint32_t count, std::uint64_t address, std::uint32_t size) {
        store_be32(wire.data(), count);
        store_be64(wire.data() + 4, address);
        store_be32(wire.data() + 16, size);
        return !rc_announcement::from_wire(byte_span(wire).first(std::min<std::size_t>(4 + 16 * std::size_t{count}, wire.size())));
    };
    BOOST_TEST(!refused(1, ~std::uint64_t{0} - 10, 10));
    BOOST_TEST(refused(1, ~std::uint64_t{0} - 9, 11)); // round the end of memory
    BOOST_TEST(refused(1, 4096, 0));
    BOOST_TEST(refused(0, 4096, 10));
    BOOST_TEST(refused(5, 4096, 10));
    BOOST_TEST(refused(0xffff'ffff, 4096, 10));
}

BOOST_AUTO_TEST_CASE(an_introduction_survives_the_wire_and_its_bounds_are_checked) {
    rc_introduction good;
    good.end = {.queue_pair = 0x12'3456, .first_sequence = 0xab'cdef, .gid = {}, .lid = 0};
    good.end.gid.raw[0] = 0xfe, good.end.gid.raw[1] = 0x80, good.end.gid.raw[15] = 7;
    good.reads_as_responder = 4, good.reads_as_initiator = 3;
    good.hello = {64, 4096, 1u << 20, 4};
    const auto heard = rc_introduction::from_wire(good.to_wire());
    BOOST_REQUIRE(heard.has_value());
    BOOST_TEST((heard->to_wire() == good.to_wire()));
    BOOST_TEST(heard->end.queue_pair == 0x12'3456u);
    BOOST_TEST(heard->reads_as_initiator == 3u);
    BOOST_TEST(heard->hello.receive_depth == 64u);
    BOOST_TEST(heard->refused_by(good) == "");
    BOOST_TEST(!rc_introduction::from_wire(byte_span(good.to_wire()).first(55)).has_value());

    const auto refused = [&](auto change) {
        rc_introduction bad = good;
        change(bad);
        return !rc_introduction::from_wire(bad.to_wire()).has_value();
    };
    for (const std::uint32_t number : {0u, 1u, 0xff'ffffu, 0x100'0000u}) BOOST_TEST(refused([=](auto& i) { i.end.queue_pair = number; }));
    BOOST_TEST(refused([](auto& i) { i.end.first_sequence = 0x100'0000; }));
    BOOST_TEST(refused([](auto& i) { i.end.gid = {}; }));
    BOOST_TEST(refused([](auto& i) { i.end.gid.raw[0] = 0xff; }));
    BOOST_TEST(refused([](auto& i) { // 239.1.1.1
        i.end.gid = {};
        for (const int at : {10, 11}) i.end.gid.raw[at] = 0xff;
        i.end.gid.raw[12] = 239;
    }));
    BOOST_TEST(refused([](auto& i) { i.link = 3; }));
    BOOST_TEST(refused([](auto& i) { i.end.lid = 9; })); // on Ethernet
    for (const unsigned lid : {0u, 0xc000u})
        BOOST_TEST(refused([=](auto& i) {
            i.link = IBV_LINK_LAYER_INFINIBAND, i.gid_type = IBV_GID_TYPE_IB, i.end.lid = static_cast<std::uint16_t>(lid);
        }));
    const auto of_infiniband = [](auto& i) { i.link = IBV_LINK_LAYER_INFINIBAND, i.gid_type = IBV_GID_TYPE_IB, i.end.lid = 0xbfff; };
    BOOST_TEST(!refused(of_infiniband));
    for (const std::uint8_t type : {IBV_GID_TYPE_ROCE_V1, IBV_GID_TYPE_ROCE_V2})
        BOOST_TEST(refused([=](auto& i) { of_infiniband(i), i.gid_type = type; }));
    BOOST_TEST(!refused([](auto& i) { i.gid_type = IBV_GID_TYPE_ROCE_V1; }));
    for (const unsigned type : {0u, 3u, 255u}) BOOST_TEST(refused([=](auto& i) { i.gid_type = static_cast<std::uint8_t>(type); }));
    for (const unsigned mtu : {0u, 6u}) BOOST_TEST(refused([=](auto& i) { i.path_mtu = static_cast<std::uint8_t>(mtu); }));
    BOOST_TEST(refused([](auto& i) { i.port = 0; }));
    BOOST_TEST(refused([](auto& i) { i.retries = 8; }));
    BOOST_TEST(refused([](auto& i) { i.not_ready_retries = 8; }));
    BOOST_TEST(refused([](auto& i) { i.hello.receive_depth = 0; }));

    rc_introduction limited = good; // two limited members of a partition do not hear each other
    limited.partition = 0x7fff;
    BOOST_TEST(limited.refused_by(good) == "");
    BOOST_TEST(limited.refused_by(limited) != "");
    limited.retries = 7;
    BOOST_TEST(limited.refused_by(good) != "");

    rc_introduction other = good; // of RoCE version 1, of IPv4, of another subnet
    other.gid_type = IBV_GID_TYPE_ROCE_V1;
    const std::string why = "the peer's fe80::7 is of RoCE version 1 and IPv6, ours fe80::7 is of RoCE version 2 and IPv6";
    BOOST_TEST(other.refused_by(good).find(why) != std::string::npos);
    BOOST_TEST(other.refused_by(other) == "");
    other = good;
    other.end.gid = {};
    other.end.gid.raw[10] = other.end.gid.raw[11] = 0xff, other.end.gid.raw[12] = 10;
    BOOST_TEST(other.refused_by(good) != "");
    BOOST_TEST(good.refused_by(other) != "");
    of_infiniband(good);
    other = good;
    other.end.gid.raw[15] = 8;
    BOOST_TEST(other.refused_by(good) == "");
    other.end.gid.raw[7] = 1;
    BOOST_TEST(other.refused_by(good) != "");
}

BOOST_AUTO_TEST_CASE(a_frame_survives_the_wire_and_of_other_versions_only_refusals_are_known) {
    using kind = rc_frame::kind;
    for (const rc_frame said : {rc_frame{kind::introduction, 56}, rc_frame{kind::ready, 0}, rc_frame{kind::refusal, 240},
                                rc_frame{kind::refusal, 0}, rc_frame{kind::refusal, 5, 9}}) {
        const auto heard = rc_frame::from_wire(said.to_wire());
        BOOST_REQUIRE(heard.has_value());
        BOOST_TEST(heard->is_known());
        BOOST_TEST((heard->to_wire() == said.to_wire()));
    }
    const auto later = rc_frame::from_wire(rc_frame{kind::introduction, 99, 3}.to_wire());
    BOOST_REQUIRE(later.has_value());
    BOOST_TEST(!later->is_known());
    for (const rc_frame bad : {rc_frame{kind::introduction, 55}, rc_frame{kind::ready, 1}, rc_frame{kind::refusal, 241},
                               rc_frame{kind{4}, 0}, rc_frame{kind{0}, 0}, rc_frame{kind::refusal, 241, 9}})
        BOOST_TEST(!rc_frame::from_wire(bad.to_wire()).has_value());
    auto other_magic = rc_frame{}.to_wire();
    other_magic[0] = std::byte{'c'};
    BOOST_TEST(!rc_frame::from_wire(other_magic).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
