// The fuzz targets of net/wire without a fuzzer: captured frames, cut at every length and changed at random 100,000
// times from a seed. Each input lies in a heap block of its own exact size, so that AddressSanitizer sees every byte
// read too far.
// ctest: timeout=300
#include <tests/net/wire/support.hh>
#include "wire_targets.hh"

#include <memory>

using namespace wire_test;

namespace {

/// The bytes that a target starts with: a frame for `frame` and `ethernet`, else what is behind the lower headers.
std::vector<byte_vector> starting_points() {
    std::vector<byte_vector> out;
    for (const std::string_view text : kernel::all_frames) {
        const byte_vector frame = hex(text);
        for (const std::size_t skip :
             {0u, 14u, 34u, 38u, 54u}) { // frame, IP, L4, L4 behind IPv4 options, options or ICMPv6
            if (skip < frame.size()) out.emplace_back(frame.begin() + static_cast<std::ptrdiff_t>(skip), frame.end());
        }
    }
    for (const char* text :
         {"192.0.2.1", "10.0.0.1/24", "02:00:00:00:00:01", "2001:db8::1:0:0:1", "::ffff:192.0.2.1"}) {
        const byte_span bytes = std::as_bytes(std::span(std::string_view(text)));
        out.emplace_back(bytes.begin(), bytes.end());
    }
    return out;
}

void run_all(byte_span bytes) {
    const auto block = std::make_unique<std::byte[]>(bytes.size()); // exactly as large as the input
    std::copy(bytes.begin(), bytes.end(), block.get());
    for (const wire_fuzz::target& target : wire_fuzz::all_targets)
        target.run({block.get(), bytes.size()});
}

/// A few of the changes that fuzzers make.
void mutate(byte_vector& bytes, corewire::random_generator& random) {
    for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
        const std::size_t at = bytes.empty() ? 0 : random.below(bytes.size());
        switch (bytes.empty() ? 4 : random.below(7)) {
        case 0:
            bytes[at] ^= static_cast<std::byte>(1u << random.below(8));
            break;
        case 1:
            bytes[at] = static_cast<std::byte>(random.next());
            break;
        case 2:
            bytes[at] = random.chance(0.5) ? std::byte{0} : std::byte{0xff};
            break;
        case 3:
            bytes.resize(at);
            break;
        case 4:
            bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + random.below(8), std::byte{1});
            break;
        case 5:
            bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
            break;
        default: // one header's start over another's
            for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i)
                bytes[at + i] = bytes[i];
            break;
        }
    }
}

} // namespace

BOOST_AUTO_TEST_SUITE(wire_corpus)

BOOST_AUTO_TEST_CASE(captured_frames_cut_at_every_length) {
    for (const byte_vector& bytes : starting_points()) {
        for (std::size_t size = 0; size <= bytes.size(); ++size)
            run_all(byte_span(bytes).first(size));
    }
}

BOOST_AUTO_TEST_CASE(a_hundred_thousand_mutations) {
    corewire::random_generator random(test_seed());
    const std::vector<byte_vector> points = starting_points();
    for (int i = 0; i < 100'000; ++i) {
        byte_vector bytes = points[random.below(points.size())];
        mutate(bytes, random);
        run_all(bytes);
    }
}

BOOST_AUTO_TEST_CASE(random_bytes_of_every_length) {
    corewire::random_generator random(test_seed());
    for (std::size_t size = 0; size < 200; ++size) {
        for (int i = 0; i < 50; ++i) {
            byte_vector bytes = random_payload(random, size);
            if (size > 0)
                bytes[0] = random.chance(0.3) ? std::byte{0x45} : random.chance(0.3) ? std::byte{0x60} : bytes[0];
            run_all(bytes);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
