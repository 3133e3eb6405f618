// Cutting a datagram up, and that what was cut comes together again.
#include "tests/net/ip/datagrams.hh"

#include <corewire/net/ip/fragmentation.hh>
#include <corewire/net/ip/identification.hh>
#include <corewire/net/ip/reassembly.hh>

#include <boost/test/unit_test.hpp>

#include <set>

using namespace corewire;
using namespace corewire::test;

namespace {

struct bench {
    frame_pool pool{256};
    frame_pool large{4, reassembler::frame_size};

    packet big(byte_span payload, std::size_t in_head = 0, bool dont_fragment = false, byte_span options = {}) {
        packet p;
        p.head = large.allocate_buffer();
        const auto header_size = static_cast<std::uint32_t>(20 + options.size());
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(header_size + payload.size()), .identification = 77,
                          .dont_fragment = dont_fragment, .protocol = wire::ip_protocol::udp, .source = us, .destination = peer}
            .emit({p.head.append(header_size), header_size}, options);
        if (in_head != 0) std::memcpy(p.head.append(static_cast<std::uint32_t>(in_head)), payload.data(), in_head);
        if (in_head < payload.size()) {
            p.body = large.allocate_buffer();
            const auto rest = static_cast<std::uint32_t>(payload.size() - in_head);
            std::memcpy(p.body.append(rest), payload.data() + in_head, rest);
        }
        return p;
    }
    std::vector<packet> cut(packet&& p, std::uint32_t mtu, fragment_error expected = fragment_error::none) {
        std::vector<packet> out;
        fragmenter f(std::move(p), mtu);
        for (packet fragment; f.next(pool, fragment);) out.push_back(std::move(fragment));
        BOOST_TEST((f.error() == expected));
        BOOST_TEST(f.emitted() == out.size());
        return out;
    }
};

} // namespace

BOOST_AUTO_TEST_SUITE(fragmentation)

BOOST_AUTO_TEST_CASE(fragments_fit_the_mtu_and_together_are_the_datagram) {
    for (const std::size_t size : {1u, 1480u, 1481u, 2960u, 9000u, 65'515u}) {
        for (const std::uint32_t mtu : {68u, 576u, 1499u, 1500u}) {
            if (size / mtu > 100) continue;
            for (const std::size_t in_head : {std::size_t{0}, std::min<std::size_t>(size, 1000), size}) {
                bench b;
                const auto data = pattern(size);
                auto fragments = b.cut(b.big(data, in_head), mtu);
                frame_pool frames(1, reassembler::frame_size);
                reassembler r(frames);
                buffer whole;
                std::size_t next = 0;
                for (const packet& p : fragments) {
                    const wire::ipv4_view ip = view(p);
                    BOOST_TEST(p.size() <= mtu);
                    BOOST_TEST(p.size() == ip.total_length());
                    BOOST_TEST(ip.checksum_ok());
                    BOOST_TEST(ip.identification() == 77u);
                    BOOST_TEST(ip.fragment_offset() == next);
                    BOOST_TEST(p.head.headroom() >= 14u);
                    next += ip.total_length() - ip.header_size();
                    BOOST_TEST(ip.more_fragments() == (next < size));
                    if (fragments.size() == 1) {
                        BOOST_TEST(same(payload_of(p), data));
                    } else if (size >= 8) {
                        whole = r.add(at({}), ip, p);
                    }
                }
                BOOST_TEST(next == size);
                if (fragments.size() > 1) BOOST_TEST(same(whole.bytes().subspan(20), data));
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(payload_goes_by_reference) {
    bench b;
    const auto fragments = b.cut(b.big(pattern(4000)), 1500);
    BOOST_REQUIRE_EQUAL(fragments.size(), 3u);
    for (const packet& p : fragments) {
        BOOST_TEST(p.head.size() == 20u);
        BOOST_TEST(b.large.contains(p.body.data()));
    }
}

BOOST_AUTO_TEST_CASE(only_options_with_the_copied_flag_go_into_later_fragments) {
    bench b;
    // Record route (not copied), padded; router alert (copied).
    const std::byte options[] = {std::byte{7}, std::byte{7}, std::byte{4}, {}, {}, {}, {}, std::byte{1},
                                 std::byte{148}, std::byte{4}, {}, {}};
    const auto fragments = b.cut(b.big(pattern(200), 0, false, options), 100);
    BOOST_REQUIRE(fragments.size() > 2u);
    BOOST_TEST(same(view(fragments[0]).options(), options));
    for (std::size_t i = 1; i < fragments.size(); ++i) BOOST_TEST(same(view(fragments[i]).options(), wire::ipv4_router_alert));
}

BOOST_AUTO_TEST_CASE(the_dont_fragment_flag_is_respected_unless_the_datagram_fits) {
    bench b;
    BOOST_TEST(b.cut(b.big(pattern(1481), 0, true), 1500, fragment_error::not_allowed).empty());
    BOOST_TEST(b.cut(b.big(pattern(1480), 0, true), 1500).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_fragment_can_be_cut_again) {
    bench b;
    auto first = b.cut(b.big(pattern(3000)), 1500);
    auto again = b.cut(std::move(first[1]), 576);
    BOOST_TEST(view(again[0]).fragment_offset() == 1480u);
    BOOST_TEST(view(again.back()).more_fragments()); // a third fragment follows
}

BOOST_AUTO_TEST_CASE(bad_input_and_an_empty_pool_are_errors_and_leak_nothing) {
    bench b;
    BOOST_TEST(b.cut(b.big(pattern(100)), 67, fragment_error::mtu_too_low).empty());
    packet wrong = b.big(pattern(100));
    wrong.body.remove_suffix(1);
    BOOST_TEST(b.cut(std::move(wrong), 1500, fragment_error::malformed).empty());
    BOOST_TEST(b.cut(packet{}, 1500, fragment_error::malformed).empty());
    {
        frame_pool small(2);
        fragmenter f(b.big(pattern(9000)), 1500);
        std::vector<packet> out;
        for (packet p; f.next(small, p);) out.push_back(std::move(p));
        BOOST_TEST(out.size() == 2u);
        BOOST_TEST((f.error() == fragment_error::no_frame));
    }
    BOOST_TEST(b.large.free_count == 4u);
    BOOST_TEST(b.pool.free_count == 256u);
}

BOOST_AUTO_TEST_CASE(identifications_of_a_flow_do_not_repeat_and_do_not_tell_of_others) {
    identification_source ids({1, 2});
    std::set<std::uint16_t> seen;
    for (int i = 0; i < 65'536; ++i) seen.insert(ids.next(us, peer, wire::ip_protocol::udp));
    BOOST_TEST(seen.size() == 65'536u);
    // Another key: another sequence. Another destination: not the neighbour of this one's.
    identification_source other({3, 4});
    const std::uint16_t a = ids.next(us, peer, wire::ip_protocol::udp);
    BOOST_TEST(ids.next(us, ipv4(10, 0, 0, 3), wire::ip_protocol::udp) != static_cast<std::uint16_t>(a + 1));
    BOOST_TEST(ids.next(us, peer, wire::ip_protocol::udp) == static_cast<std::uint16_t>(a + 1));
    BOOST_TEST(other.next(us, peer, wire::ip_protocol::udp) != identification_source({1, 2}).next(us, peer, wire::ip_protocol::udp));
}

BOOST_AUTO_TEST_SUITE_END()
