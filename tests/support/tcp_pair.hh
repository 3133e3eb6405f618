// Two TCP endpoints joined by a bad network, in virtual time, from a seed: latency, loss, reordering, duplication.
// check_invariants() runs on both after every event.
#pragma once

#include "tcp_script.hh"

#include <corewire/reactor/base/random.hh>

#include <functional>
#include <map>

namespace corewire::test {

struct pair_faults {
    double loss = 0;
    double duplicate = 0;
    double reorder = 0;             ///< chance of up to `jitter` more latency
    duration latency = 5us;
    duration jitter = 20us;
    unsigned drop_every = 0;        ///< every n-th frame, whatever it is
    duration frame_time{0};         ///< a frame occupies the line so long
    bool copy_frames = true;
};

class tcp_pair {
public:
    struct side {
        std::optional<tcp::tcb> tcb;
        std::uint64_t to_write = 0, written = 0, read = 0;
        bool closing = false;       ///< shut down once everything is written
        bool paused = false;        ///< does not read
        std::uint32_t write_size = 1448;
        bool lockstep = false;      ///< writes only when everything before has been acknowledged
        unsigned fast_in = 0, fast_out = 0; ///< segments that took the tcb's fast paths
        tcp::event seen = tcp::event::none;
        time_point line_free{};
    };

    tcp_pair(std::uint64_t seed, const pair_faults& faults, const tcp::parameters& a, const tcp::parameters& b)
        : random_(seed), faults_(faults), parameters_{a, b} {}
    tcp_pair(std::uint64_t seed, const pair_faults& faults, const tcp::parameters& p) : tcp_pair(seed, faults, p, p) {}
    ~tcp_pair();

    /// Side 0 connects; side 1 answers the first SYN that gets through. `both`: both connect at once.
    void start(bool both = false);
    /// Runs until `done()` or the time limit; false at the limit.
    bool run(const std::function<bool()>& done, duration limit);
    side& operator[](int i) { return sides_[i]; }
    time_point now() const { return now_; }
    std::uint64_t frames() const { return frames_; }
    std::string why() const { return why_; }
    /// All bytes arrived on the other side, in order.
    bool transferred(int from) const { return sides_[1 - from].read == sides_[from].to_write; }
    void finish() { network_.clear(); for (side& s : sides_) s.tcb.reset(); }
    bool leaked() const { return pool_.free_count != pool_.count(); }
    /// From now on each segment sent leaves a line in trace().
    void record() { recording_ = true; }
    const std::vector<std::string>& trace() const { return trace_; }

private:
    struct in_flight {
        int to;
        tcp::segment seg;
        buffer data;
    };
    void pump(int i);
    void application(int i);
    void send(int from, const tcp::outgoing_segment& out);
    void deliver(in_flight& f);
    bool deliver_plain(in_flight& f, buffer& body);
    void take(side& s, const buffer& b);
    void check();

    random_generator random_;
    pair_faults faults_;
    tcp::parameters parameters_[2];
    frame_pool pool_{16384};
    side sides_[2];
    std::multimap<time_point, in_flight> network_;
    time_point now_ = from_ns(1'000'000'000);
    std::uint64_t frames_ = 0;
    std::string why_;
    bool recording_ = false;
    std::vector<std::string> trace_;
};

} // namespace corewire::test
