// The internet checksum against a reference that adds octet pairs as RFC 1071 writes them, and the RFCs' own examples.
#include "support.hh"

#include <corewire/net/wire/checksum.hh>

using namespace corewire::wire;
using namespace wire_test;

namespace {

/// RFC 1071 4.1, in plain C.
std::uint16_t reference_sum(byte_span bytes) {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const std::uint32_t octet = corewire::load_u8(&bytes[i]);
        sum += i % 2 == 0 ? octet << 8 : octet;
        sum = (sum & 0xffff) + (sum >> 16);
    }
    return static_cast<std::uint16_t>(sum);
}

/// Payloads with long runs of 0xff make carries; random ones hardly do.
byte_vector payload(corewire::random_generator& random, std::size_t size) {
    byte_vector out = random_payload(random, size);
    const std::uint64_t kind = random.below(4);
    for (std::byte& b : out) {
        if (kind == 0 || (kind == 1 && random.chance(0.9))) b = std::byte{0xff};
        if (kind == 2 && random.chance(0.9)) b = std::byte{0};
    }
    return out;
}

} // namespace

BOOST_AUTO_TEST_SUITE(checksum)

BOOST_AUTO_TEST_CASE(the_example_of_rfc_1071) {
    const byte_vector bytes = hex("00 01 f2 03 f4 f5 f6 f7");
    BOOST_TEST(internet_sum{}.add(bytes).folded() == 0xddf2);
    BOOST_TEST(internet_checksum(bytes) == 0x220d);
}

BOOST_AUTO_TEST_CASE(an_ipv4_header_of_a_kernel) {
    byte_vector header = hex(kernel::udp_first_fragment_header);
    BOOST_TEST(checksum_ok(header));
    corewire::store_be16(header.data() + 10, 0);
    BOOST_TEST(internet_checksum(header) == 0xb8ab);
    BOOST_TEST(!checksum_ok(header));
}

BOOST_AUTO_TEST_CASE(the_empty_sum_is_zero) {
    BOOST_TEST(internet_sum{}.folded() == 0);
    BOOST_TEST(internet_checksum({}) == 0xffff);
    BOOST_TEST(internet_checksum(byte_vector(1500)) == 0xffff);
    BOOST_TEST(!checksum_ok(byte_vector(1500))); // all zero, checksum field included: not valid
}

BOOST_AUTO_TEST_CASE(every_length_and_alignment_agrees_with_the_reference) {
    corewire::random_generator random(test_seed());
    for (std::size_t size = 0; size <= 700; ++size) {
        const std::size_t offset = random.below(33);
        const byte_vector bytes = payload(random, offset + size);
        const byte_span piece = byte_span(bytes).subspan(offset);
        BOOST_REQUIRE_MESSAGE(internet_sum{}.add(piece).folded() == reference_sum(piece),
                              size << " bytes at " << offset);
    }
    for (const std::size_t size : {1460u, 1500u, 4096u, 9000u, 65535u, 262144u}) {
        const byte_vector bytes(size, std::byte{0xff});
        BOOST_TEST(internet_sum{}.add(bytes).folded() == reference_sum(bytes));
    }
}

BOOST_AUTO_TEST_CASE(both_forms_of_the_vector_code_agree) {
    corewire::random_generator random(test_seed());
    for (std::size_t size = 0; size <= 700; ++size) {
        const byte_vector bytes = payload(random, size);
        byte_vector copy(size);
        const std::uint16_t expected = detail::fold16(detail::sum_any(bytes.data(), size));
        BOOST_REQUIRE(detail::fold16(detail::sum_portable(bytes.data(), size)) == expected);
        BOOST_REQUIRE(detail::fold16(detail::copy_and_sum_portable(copy.data(), bytes.data(), size)) == expected);
        BOOST_REQUIRE(copy == bytes);
    }
}

BOOST_AUTO_TEST_CASE(a_stream_may_be_cut_anywhere) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 3000; ++i) {
        const byte_vector bytes = payload(random, random.below(400));
        byte_vector copy(bytes.size());
        internet_sum added;
        internet_sum copied;
        internet_sum pieced;
        for (std::size_t at = 0; at < bytes.size();) {
            const std::size_t size = 1 + random.below(bytes.size() - at);
            const byte_span piece = byte_span(bytes).subspan(at, size);
            added.add(piece);
            copied.add_and_copy(mutable_byte_span(copy).subspan(at), piece);
            pieced.add(internet_sum{}.add(piece), size);
            at += size;
        }
        const std::uint16_t expected = reference_sum(bytes);
        BOOST_REQUIRE(added.folded() == expected);
        BOOST_REQUIRE(copied.folded() == expected);
        BOOST_REQUIRE(pieced.folded() == expected);
        BOOST_REQUIRE(copy == bytes);
    }
}

BOOST_AUTO_TEST_CASE(words_count_as_their_bytes_do_even_behind_an_odd_octet) {
    const byte_vector words = hex("1234 89abcdef");
    BOOST_TEST(internet_sum{}.add_u16(0x1234).add_u32(0x89abcdef).folded() == reference_sum(words));
    const byte_vector odd = hex("77");
    BOOST_TEST(internet_sum{}.add(odd).add_u16(0x1234).folded() == internet_sum{}.add_u16(0x1234).add(odd).folded());
}

BOOST_AUTO_TEST_CASE(copying_leaves_the_bytes_around_alone) {
    corewire::random_generator random(test_seed());
    for (std::size_t size = 0; size < 300; ++size) {
        const byte_vector bytes = random_payload(random, size);
        byte_vector to(size + 16, std::byte{0xa5});
        const internet_sum sum = copy_and_checksum(mutable_byte_span(to).subspan(8), bytes);
        BOOST_REQUIRE(sum.folded() == reference_sum(bytes));
        BOOST_REQUIRE(std::equal(bytes.begin(), bytes.end(), to.begin() + 8));
        for (std::size_t i = 0; i < 8; ++i)
            BOOST_REQUIRE((to[i] == std::byte{0xa5} && to[8 + size + i] == std::byte{0xa5}));
    }
}

BOOST_AUTO_TEST_CASE(the_example_of_rfc_1624) {
    // Section 4: HC = 0xDD2F, m = 0x5555, m' = 0x3285; the older equation gave 0xFFFF.
    BOOST_TEST(update_checksum(0xdd2f, 0x5555, 0x3285) == 0x0000);
}

BOOST_AUTO_TEST_CASE(an_update_gives_what_a_new_sum_gives) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 20000; ++i) {
        byte_vector header = random_payload(random, 20);
        header[0] = std::byte{0x45}; // never all zero, as no IPv4 header is
        corewire::store_be16(header.data() + 10, 0);
        const std::uint16_t before = internet_checksum(header);
        const std::size_t at = 12 + 2 * random.below(3);
        const auto old16 = corewire::load_be16(header.data() + at);
        const auto new16 = any<std::uint16_t>(random);
        corewire::store_be16(header.data() + at, new16);
        const std::uint16_t between = internet_checksum(header);
        BOOST_REQUIRE(update_checksum(before, old16, new16) == between);
        const auto old32 = corewire::load_be32(header.data() + 16);
        const auto new32 = any<std::uint32_t>(random);
        corewire::store_be32(header.data() + 16, new32);
        BOOST_REQUIRE(update_checksum32(between, old32, new32) == internet_checksum(header));
    }
}

BOOST_AUTO_TEST_CASE(one_flipped_bit_is_found) {
    corewire::random_generator random(test_seed());
    for (int i = 0; i < 2000; ++i) {
        byte_vector bytes = random_payload(random, 4 + random.below(200));
        corewire::store_be16(bytes.data() + 2, 0);
        corewire::store_be16(bytes.data() + 2, internet_checksum(bytes));
        BOOST_REQUIRE(checksum_ok(bytes));
        bytes[random.below(bytes.size())] ^= static_cast<std::byte>(1u << random.below(8));
        BOOST_REQUIRE(!checksum_ok(bytes));
    }
}

BOOST_AUTO_TEST_CASE(pseudo_headers_are_those_of_the_rfcs) {
    const byte_vector v4 = hex("c0000201 c6336402 00 06 1234");
    const std::uint16_t sum4 =
        pseudo_header_sum(ipv4_address(192, 0, 2, 1), ipv4_address(198, 51, 100, 2), ip_protocol::tcp, 0x1234).folded();
    BOOST_TEST(sum4 == reference_sum(v4));
    const byte_vector v6 = hex("20010db8000000000000000000000001 20010db8000000000000000000000002 00012345 0000003a");
    const std::uint16_t sum6 = pseudo_header_sum(*ipv6_address::parse("2001:db8::1"),
                                                 *ipv6_address::parse("2001:db8::2"), ip_protocol::icmpv6, 0x12345)
                                   .folded();
    BOOST_TEST(sum6 == reference_sum(v6));
}

BOOST_AUTO_TEST_CASE(a_udp_checksum_of_zero_is_sent_as_ones) {
    BOOST_TEST(internet_sum{}.add_u16(0xffff).checksum() == 0);
    BOOST_TEST(internet_sum{}.add_u16(0xffff).udp_checksum() == 0xffff);
    BOOST_TEST(internet_sum{}.add_u16(0x1234).udp_checksum() == 0xedcb);
}

BOOST_AUTO_TEST_SUITE_END()
