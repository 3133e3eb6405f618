// verbs::datagram_header: whose header stands in the 40 bytes in front of a datagram, though a device leaves half of them as they were.
#include <corewire/rdma/verbs/datagram_header.hh>
#include <corewire/rdma/verbs/device.hh>

#include <boost/test/unit_test.hpp>

#include <array>

using namespace corewire;

namespace {

using header_bytes = std::array<std::byte, verbs::datagram_header::size>;

/// An IPv4 header from 10.0.0.1 to 10.0.0.2 in the last 20 bytes, behind `before`.
header_bytes over_ipv4(std::byte before) {
    header_bytes h{};
    std::fill_n(h.begin(), 20, before);
    h[20] = std::byte{0x45};
    store_be16(h.data() + 22, 80);
    h[28] = std::byte{64}, h[29] = std::byte{17};
    store_be32(h.data() + 32, 0x0a00'0001);
    store_be32(h.data() + 36, 0x0a00'0002);
    store_be16(h.data() + 30, wire::internet_checksum(byte_span(h).subspan(20)));
    return h;
}

header_bytes grh(const ibv_gid& from, const ibv_gid& to) {
    header_bytes h{};
    h[0] = std::byte{0x60};
    std::memcpy(h.data() + 8, from.raw, 16);
    std::memcpy(h.data() + 24, to.raw, 16);
    return h;
}

ibv_gid mapped(ipv4 address) {
    ibv_gid g{};
    g.raw[10] = g.raw[11] = 0xff;
    store_be32(reinterpret_cast<std::byte*>(g.raw + 12), address.value());
    return g;
}

std::string said(const header_bytes& h, bool ethernet = true) {
    const auto who = verbs::datagram_header::load(h.data(), ethernet);
    return who ? verbs::to_string(who->from) + " to " + verbs::to_string(who->to) : "none";
}

} // namespace

BOOST_AUTO_TEST_SUITE(datagram_header)

BOOST_AUTO_TEST_CASE(what_stands_before_an_ipv4_header_does_not_matter) {
    for (unsigned before = 0; before < 256; ++before)
        BOOST_TEST(said(over_ipv4(static_cast<std::byte>(before))) == "::ffff:10.0.0.1 to ::ffff:10.0.0.2");
}

BOOST_AUTO_TEST_CASE(a_global_header_whose_address_looks_like_the_beginning_of_an_ipv4_header_is_one) {
    // RoCE version 1 has mapped addresses in a GRH: the last four bytes of the sender's stand where an IPv4 header would begin.
    for (const ipv4 from : {ipv4(64, 0, 0, 1), ipv4(69, 0, 0, 80), ipv4(79, 255, 255, 255), ipv4(10, 0, 0, 1)})
        BOOST_TEST(said(grh(mapped(from), mapped(ipv4(69, 0, 0, 2)))) == verbs::to_string(mapped(from)) + " to ::ffff:69.0.0.2");
    ibv_gid six{};
    six.raw[0] = 0xfd, six.raw[12] = 0x45, six.raw[15] = 9;
    BOOST_TEST(said(grh(six, six)) == "fd00::4500:9 to fd00::4500:9");
}

BOOST_AUTO_TEST_CASE(on_infiniband_it_is_a_global_header_whatever_it_looks_like) {
    const header_bytes h = over_ipv4(std::byte{0x60});
    BOOST_TEST(said(h, false).starts_with("6060:6060:6060:6060:6060:6060:4500:50 to "));
    BOOST_TEST(said(header_bytes{}, false) == ":: to ::");
}

BOOST_AUTO_TEST_CASE(what_begins_like_neither_is_none) {
    BOOST_TEST(said(header_bytes{}) == "none");
    header_bytes both_wrong = over_ipv4(std::byte{0x45});
    both_wrong[20] = std::byte{0x65};
    BOOST_TEST(said(both_wrong) == "none");
}

BOOST_AUTO_TEST_SUITE_END()
