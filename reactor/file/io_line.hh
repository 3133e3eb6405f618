// Who may go next, to the kernel or to a helper thread: at most `limit` requests of a shard at a time, the rest in line, a queue for
// each scheduling group, served in proportion to the groups' shares (start-time fair queueing, by cost).
//
//     group 0: [] [] []  --+
//     group 3: [] []     --+--> the queue whose virtual time is least --> while in_flight < limit
//
// A request costs one, and one for each 16 KiB that it moves: in one piece, in several, or from file to file.
// One shard's. Bounds: groups; the line itself is as long as there are waiting coroutines.
#pragma once

#include <corewire/reactor/file/io_request.hh>

#include <algorithm>
#include <array>
#include <cstdint>

namespace corewire {

class io_line {
public:
    static constexpr unsigned groups = 16; ///< fair_scheduler::max_groups
    static constexpr std::uint64_t bytes_a_unit = 16 * 1024;

    explicit io_line(unsigned limit) noexcept : limit_(limit) {}

    /// True: it goes at once (leave() must follow when it is done). False: it stands in line.
    bool enter(io_request& r, unsigned group, unsigned shares) noexcept {
        r.group_ = static_cast<std::uint8_t>(group);
        queue& own = queues_[group];
        own.shares = std::max(shares, 1u);
        if (in_flight_ < limit_ && waiting_ == 0) {
            ++in_flight_;
            return true;
        }
        if (own.waiting.empty()) own.virtual_time = std::max(own.virtual_time, virtual_time_);
        own.waiting.push_back(r);
        ++waiting_;
        return false;
    }
    /// One that had entered is done.
    void leave() noexcept { --in_flight_; }
    /// The next one to go, or null: nobody waits, or the limit is reached.
    io_request* next() noexcept {
        if (waiting_ == 0 || in_flight_ >= limit_) return nullptr;
        queue* first = nullptr;
        for (queue& each : queues_)
            if (!each.waiting.empty() && (first == nullptr || each.virtual_time < first->virtual_time)) first = &each;
        io_request& r = first->waiting.pop_front();
        virtual_time_ = first->virtual_time;
        first->virtual_time += cost(r.arguments) * scale / first->shares;
        --waiting_;
        ++in_flight_;
        return &r;
    }
    /// One that stands in line goes away.
    void withdraw(io_request& r) noexcept {
        r.unlink();
        --waiting_;
    }

    unsigned limit() const noexcept { return limit_; }
    unsigned in_flight() const noexcept { return in_flight_; }
    std::size_t waiting() const noexcept { return waiting_; }

private:
    static constexpr std::uint64_t scale = 1 << 16;
    struct queue {
        intrusive_list<io_request> waiting;
        std::uint64_t virtual_time = 0;
        unsigned shares = 1;
    };
    static std::uint64_t cost(const io_arguments& a) noexcept {
        return 1 + std::min<std::uint64_t>(a.bytes_moved(), io_arguments::most_bytes) / bytes_a_unit;
    }

    unsigned limit_;
    unsigned in_flight_ = 0;
    std::size_t waiting_ = 0;
    std::uint64_t virtual_time_ = 0; ///< of the one who went last
    std::array<queue, groups> queues_;
};

} // namespace corewire
