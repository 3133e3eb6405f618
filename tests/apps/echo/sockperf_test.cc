// sockperf's wire format, against bytes captured from sockperf 3.7, however a stream is cut.
#include <corewire/apps/echo/sockperf.hh>

#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>
#include <vector>

using namespace corewire;
using verdict = sockperf::framer::verdict;

namespace {

std::vector<std::byte> from_hex(std::string_view hex) {
    std::vector<std::byte> bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    return bytes;
}

// `sockperf ping-pong -m 32`: a request and the reply of `sockperf server`.
const std::vector<std::byte> request = from_hex("0000000000000001000300000020d4abb2cdc69bb454110e827441213ddc8770");
const std::vector<std::byte> reply = from_hex("0000000000000001000200000020d4abb2cdc69bb454110e827441213ddc8770");

/// The same message, but nobody asks for its reply (`sockperf throughput`).
std::vector<std::byte> one_way_message() {
    auto bytes = request;
    store_be16(bytes.data() + sockperf::flags_offset, sockperf::from_client);
    return bytes;
}

/// What a server sends back for a stream that arrives in pieces of `piece` bytes.
std::vector<std::byte> answer(std::vector<std::byte> stream, std::size_t piece) {
    sockperf::framer messages;
    std::vector<std::byte> sent;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
        mutable_byte_span bytes{stream.data() + at, std::min(piece, stream.size() - at)};
        while (!bytes.empty()) {
            const auto run = messages.next(bytes);
            BOOST_REQUIRE(run.what != verdict::malformed);
            BOOST_REQUIRE(run.size > 0 && run.size <= bytes.size());
            if (run.what == verdict::held_header)
                sent.insert(sent.end(), messages.held_header().begin(), messages.held_header().end());
            if (run.what == verdict::reply)
                sent.insert(sent.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(run.size));
            bytes = bytes.subspan(run.size);
        }
    }
    return sent;
}

void append(std::vector<std::byte>& to, const std::vector<std::byte>& bytes) {
    to.insert(to.end(), bytes.begin(), bytes.end());
}

} // namespace

BOOST_AUTO_TEST_SUITE(sockperf)

BOOST_AUTO_TEST_CASE(a_request_becomes_the_reply_that_sockperf_itself_sends) {
    auto bytes = request;
    BOOST_TEST(corewire::sockperf::is_request(bytes));
    corewire::sockperf::make_reply(bytes.data());
    BOOST_CHECK(bytes == reply);
}

BOOST_AUTO_TEST_CASE(replies_short_datagrams_and_messages_without_the_reply_bit_are_not_requests) {
    BOOST_TEST(!corewire::sockperf::is_request(reply));
    BOOST_TEST(!corewire::sockperf::is_request(one_way_message()));
    BOOST_TEST(!corewire::sockperf::is_request(byte_span{request}.first(13)));
    BOOST_TEST(!corewire::sockperf::is_request({}));
}

BOOST_AUTO_TEST_CASE(a_stream_is_answered_the_same_however_it_is_cut) {
    std::vector<std::byte> stream, expected;
    for (int i = 0; i < 5; ++i) {
        append(stream, request);
        append(expected, reply);
        append(stream, one_way_message());
    }
    for (std::size_t piece = 1; piece <= stream.size(); ++piece)
        BOOST_TEST_CONTEXT("pieces of " << piece << " bytes") BOOST_CHECK(answer(stream, piece) == expected);
}

BOOST_AUTO_TEST_CASE(a_message_that_is_its_header_only_is_answered) {
    auto bytes = request;
    bytes.resize(corewire::sockperf::header_size);
    store_be32(bytes.data() + corewire::sockperf::length_offset, corewire::sockperf::header_size);
    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) BOOST_TEST(answer(bytes, piece).size() == bytes.size());
}

BOOST_AUTO_TEST_CASE(a_length_shorter_than_the_header_is_malformed) {
    auto bytes = request;
    store_be32(bytes.data() + corewire::sockperf::length_offset, corewire::sockperf::header_size - 1);
    corewire::sockperf::framer messages;
    BOOST_CHECK(messages.next(bytes).what == verdict::malformed);
}

BOOST_AUTO_TEST_SUITE_END()
