// `mtu=N` beyond 2 KiB: what leaves is built in one frame of the port's, whatever its size.
#include "player.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace corewire::conformance;

namespace {

/// What the byte at `n` of a stream is.
std::byte pattern(std::size_t n) { return std::byte(static_cast<unsigned char>(n * 7 + n / 251)); }

/// A connection with segments of `mss`: 30,000 bytes in one write, and what leaves of them.
void check_stream(std::uint32_t mtu, std::uint32_t mss) {
    player p(("linux settings=none segments=single mtu=" + std::to_string(mtu)).c_str());
    p.play("0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n"
           "+0 < S 0:0(0) win 65535 <mss " + std::to_string(mss) + ">\n"
           "+0 > S. 0:0(0) ack 1 <mss " + std::to_string(mtu - 40) + ">\n"
           "+0 < . 1:1(0) ack 1 win 65535\n+0 accept(3, ..., ...) = 4\n");
    packetdrill_interface& i = p.table();
    std::vector<std::byte> sent(30'000), came;
    for (std::size_t n = 0; n < sent.size(); ++n) sent[n] = pattern(n);
    BOOST_REQUIRE(i.write(i.userdata, p.connection_fd(), sent.data(), sent.size()) == static_cast<ssize_t>(sent.size()));
    while (came.size() < std::min<std::size_t>(sent.size(), 10 * mss)) { // the first window
        std::vector<std::byte> room(66'000);
        std::size_t size = room.size();
        long long when = 0;
        BOOST_REQUIRE(i.netdev_receive(i.userdata, room.data(), &size, &when) == 0);
        const live_packet packet = parse_packet({room.data(), size});
        BOOST_TEST(packet.checksums_good);
        BOOST_REQUIRE(packet.payload != 0u);
        BOOST_TEST(packet.payload <= mss);
        const std::byte* const end = room.data() + size;
        came.insert(came.end(), end - packet.payload, end);
    }
    BOOST_TEST((came == sent));
}

} // namespace

BOOST_AUTO_TEST_SUITE(jumbo)

BOOST_AUTO_TEST_CASE(the_bytes_of_large_segments_are_those_that_were_written) {
    check_stream(9000, 8960);
    check_stream(65'535, 32'000); // half of a window is the most
}

BOOST_AUTO_TEST_SUITE_END()
