// What a round trip carries, and that a reply which is not what was sent is noticed.
#include <corewire/apps/pingpong/message.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <vector>

using namespace corewire;
using namespace corewire::pingpong;

namespace {

/// `count` messages of a connection as they are sent: numbered 0, 1, 2...
std::vector<std::byte> sent(std::uint32_t size, std::uint32_t count, std::uint32_t connection) {
    message_block block(size, count, connection);
    for (std::uint32_t n = 0; n < count; ++n) block.set_number(n, n);
    const byte_span all = block.first(count);
    return {all.begin(), all.end()};
}

/// How many messages of the stream, which comes in pieces, are complete and intact.
std::uint32_t intact(const std::vector<std::byte>& stream, std::size_t piece, std::uint32_t size,
                     std::uint32_t connection) {
    reply_checker replies(size, connection);
    std::uint32_t good = 0;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
        byte_span bytes{stream.data() + at, std::min(piece, stream.size() - at)};
        while (!bytes.empty() && replies.take(bytes)) good += replies.finish() ? 1 : 0;
    }
    return good;
}

} // namespace

BOOST_AUTO_TEST_SUITE(message)

BOOST_AUTO_TEST_CASE(every_size_comes_back_intact_however_the_stream_is_cut) {
    for (const std::uint32_t size : {1u, 7u, 8u, 9u, 64u})
        for (std::size_t piece = 1; piece < 200; ++piece)
            BOOST_TEST(intact(sent(size, 10, 3), piece, size, 3) == 10u);
}

BOOST_AUTO_TEST_CASE(any_one_changed_byte_spoils_its_message_and_no_other) {
    const auto good = sent(64, 4, 0);
    for (std::size_t at = 0; at < good.size(); ++at) {
        auto stream = good;
        stream[at] ^= std::byte{1};
        BOOST_TEST(intact(stream, 64, 64, 0) == 3u);
    }
}

BOOST_AUTO_TEST_CASE(a_reply_of_another_connection_is_noticed) { BOOST_TEST(intact(sent(64, 4, 1), 64, 64, 2) == 0u); }

BOOST_AUTO_TEST_CASE(a_message_that_is_missing_is_noticed) {
    auto stream = sent(64, 4, 0);
    stream.erase(stream.begin() + 64, stream.begin() + 128);
    BOOST_TEST(intact(stream, 64, 64, 0) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
