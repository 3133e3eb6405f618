// The port behind --drop-every loses exactly every n-th frame, however frames are grouped and however often the port is full.
#include <corewire/net/port/wrap/faulty_port.hh>

#include <boost/test/unit_test.hpp>

#include <vector>

using namespace corewire;

namespace {

/// Takes at most `appetite` frames a call and remembers their first byte.
class recording_port final : public port {
public:
    explicit recording_port(std::vector<unsigned>& sent, std::size_t appetite) : sent_(sent), appetite_(appetite) {
        pool_ = &frames_;
    }
    std::size_t receive(std::span<packet>) override { return 0; }
    std::size_t transmit(std::span<packet> burst) override {
        const std::size_t n = std::min(burst.size(), appetite_);
        for (packet& p : burst.first(n)) {
            sent_.push_back(load_u8(p.head.data()));
            p = packet{};
        }
        statistics_.transmitted_packets += n;
        return n;
    }

private:
    frame_pool frames_{64};
    std::vector<unsigned>& sent_;
    std::size_t appetite_;
};

/// Sends frames 1 to `count` in bursts; returns those that went out.
std::vector<unsigned> survivors(std::uint32_t every, unsigned count, std::size_t burst, std::size_t appetite) {
    std::vector<unsigned> sent;
    faulty_port lossy(std::make_unique<recording_port>(sent, appetite), {.on_transmit = {.drop_every = every}});
    for (unsigned next = 1; next <= count;) {
        std::vector<packet> packets;
        for (unsigned n = next; n <= count && packets.size() < burst; ++n) {
            buffer frame = lossy.pool().allocate_buffer();
            store_u8(frame.append(1), static_cast<std::uint8_t>(n));
            packets.push_back(packet{.head = std::move(frame), .body = {}});
        }
        const std::size_t taken = lossy.transmit(packets);
        BOOST_REQUIRE(taken > 0 && taken <= packets.size());
        next += static_cast<unsigned>(taken);
    }
    BOOST_TEST(lossy.statistics().transmitted_packets + lossy.statistics().transmit_dropped == count);
    BOOST_TEST(lossy.pool().free_count == lossy.pool().count());
    return sent;
}

} // namespace

BOOST_AUTO_TEST_SUITE(frame_loss)

BOOST_AUTO_TEST_CASE(every_nth_frame_is_lost_and_no_other) {
    for (const std::uint32_t every : {2u, 3u, 10u, 200u}) {
        std::vector<unsigned> expected;
        for (unsigned n = 1; n <= 100; ++n)
            if (n % every != 0) expected.push_back(n);
        for (const std::size_t burst : {1u, 2u, 7u, 32u})
            for (const std::size_t appetite : {1u, 3u, 32u})
                BOOST_TEST(survivors(every, 100, burst, appetite) == expected, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(every_frame_can_be_lost) { BOOST_TEST(survivors(1, 10, 4, 32).empty()); }

BOOST_AUTO_TEST_SUITE_END()
