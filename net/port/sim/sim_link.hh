// A simulated cable: latency, rate, a queue, and the faults of real ones, each drawn from a seed. Belongs to its
// sim_network; no real time. Each direction draws from its own generator, so what happens on one cable does not depend on
// the traffic of another.
//
//     transmit -> partition? -> filter? -> loss? -> queue full? -> serialise at `rate` -> latency -> corrupt? -> deliver
//                                                                           `-- duplicate? reorder? (later arrival)
//
// What is lost takes no time on the cable. Bound: what waits to be serialised, by `queue_bytes`.
#pragma once

#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>

namespace corewire {

struct sim_link_options {
    duration latency = std::chrono::microseconds{10}; ///< from the last bit sent to its arrival
    std::uint64_t bits_per_second = 0;                ///< 0: no limit
    std::uint64_t queue_bytes = 1 << 20;              ///< not yet serialised; what comes then is dropped. An idle cable takes any packet
    double loss = 0;                                  ///< probabilities, 0 to 1, of each packet
    double duplicate = 0;
    double corrupt = 0;                               ///< one bit behind the Ethernet header is flipped, where no FCS sees it
    double reorder = 0;                               ///< arrives up to `reorder_delay` later than it should
    duration reorder_delay = std::chrono::milliseconds{1};
    double mark = 0;                                  ///< a packet that is ECN-capable is marked CE (RFC 3168 5)
};

struct sim_link_statistics {
    std::uint64_t sent = 0, delivered = 0;
    std::uint64_t lost = 0, duplicated = 0, corrupted = 0, reordered = 0, marked = 0;
    std::uint64_t partitioned = 0, filtered = 0;
    std::uint64_t queue_full = 0, network_full = 0; ///< dropped: no room in the queue, no frame to travel in
};

class sim_link {
public:
    enum class direction : std::uint8_t { forward = 0, backward = 1 }; ///< from the first to the second end of connect()
    /// True to drop. `number` counts the packets of this direction from 0.
    using filter = std::function<bool(byte_span frame, std::uint64_t number)>;

    /// Both directions, or one; holds for what is sent from now on: what waits is serialised at the rate of its time, and nothing
    /// overtakes it. Throws std::invalid_argument: a negative time, a probability that is none, no latency between two switches.
    void configure(const sim_link_options& options);
    void configure(direction d, const sim_link_options& options);
    const sim_link_options& options(direction d) const noexcept { return lanes_[static_cast<std::size_t>(d)].options; }
    /// What is sent while it is cut is lost. What is on its way still arrives, in the queue included.
    void cut(bool is_cut);
    void cut(direction d, bool is_cut) { lane(d).is_cut = is_cut; }
    /// For tests that need the third segment gone, and no other. An empty function removes it.
    void drop_if(direction d, filter f) { lane(d).drop_if = std::move(f); }
    const sim_link_statistics& statistics(direction d) const noexcept { return lanes_[static_cast<std::size_t>(d)].counts; }

private:
    friend class sim_network;
    friend class sim_switch;
    friend class sim_port;
    friend class sim_endpoint;
    /// A packet that waits to be serialised, or is.
    struct waiting {
        time_point begin, end;
        std::uint32_t size;
    };
    struct one_way {
        double unsent_bytes(time_point now);
        sim_link_options options;
        sim_link_statistics counts;
        random_generator random{0};
        time_point busy_until{};
        time_point last_arrival{}; ///< of what nothing has reordered
        std::deque<waiting> queue; ///< the first may have left
        std::uint64_t queued_bytes = 0;
        filter drop_if;
        bool is_cut = false;
        class sim_endpoint* to = nullptr;
    };
    one_way& lane(direction d) noexcept { return lanes_[static_cast<std::size_t>(d)]; }
    void check(const sim_link_options& options) const;
    std::array<one_way, 2> lanes_;
    bool between_switches_ = false;
};

} // namespace corewire
