// The log of a process: takes the shards' records, formats them and writes them, on a thread of its own.
//
//     shard 0: ring --+
//     shard 1: ring --+--> oldest first --> format --> escape --> log_output
//     other threads --+        (this thread; a shard never waits for it)
//
// In order: each shard's messages as they were said; those of several by their time, as far as they are there when it looks.
// Made before the shards and destroyed after them: then all that was said is written. Bounds: log_options::records a shard,
// thread_lines for the others, 4,000 bytes a message; what finds no room is counted and dropped.
#pragma once

#include <corewire/reactor/log/log_output.hh>
#include <corewire/reactor/log/log_ring.hh>

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <new>
#include <span>
#include <thread>
#include <vector>

namespace corewire {

struct log_options {
    unsigned shards = 1;
    std::string levels = "info";  ///< log_levels::set()
    std::string file{};           ///< empty: stderr
    std::size_t records = 512;    ///< a shard's ring, 256 bytes each; a power of two
    std::size_t thread_lines = 1024;
    /// False: nothing is written but by drain(). For tests.
    bool own_thread = true;
    /// Instead of the file.
    log_output::line_writer write{};
    /// What the time of day was. Empty: by the real clock.
    std::function<log_output::wall_time(time_point)> time_of_day{};
};

struct log_writer_statistics {
    std::uint64_t lines = 0;
    std::uint64_t lost = 0;    ///< the file or stderr did not take them
    std::uint64_t dropped = 0; ///< of other threads: too many waited
};

class log_writer {
public:
    /// How often threads that are no shard's had something to say, written or not. A place is taken once and stays its event's.
    struct thread_event {
        std::atomic<const log_site*> site{nullptr};
        std::atomic<std::uint64_t> occurred{0};
    };
    static constexpr std::size_t max_thread_events = 32; ///< more of them are written and not counted

    /// Throws std::system_error (the file), std::invalid_argument (the levels).
    explicit log_writer(log_options options);
    ~log_writer();
    log_writer(const log_writer&) = delete;
    log_writer& operator=(const log_writer&) = delete;

    log_levels& levels() noexcept { return levels_; }
    const log_levels& levels() const noexcept { return levels_; }
    log_ring& ring(unsigned shard) noexcept { return *rings_[shard]; }
    /// There is something in a ring. From any thread; a system call only when the writer rests.
    void wake() noexcept;
    /// Writes all that is there. The writer's thread, or in its stead.
    void drain();
    /// From a thread that is no shard's, on which it is formatted.
    template <typename... Args, typename... Given>
    void from_thread(const log_event<Args...>& event, Given&&... given) {
        alignas(8) std::array<std::byte, log_record::argument_bytes> at;
        static_assert(sizeof(std::tuple<Args...>) <= sizeof at);
        ::new (at.data()) std::tuple<Args...>(std::forward<Given>(given)...);
        std::string text;
        event.format(event, at.data(), text);
        put(event, {&text, 1});
    }
    /// The lines of one message that is not made of an event's words, such as a backtrace.
    void put(const log_site& site, std::span<const std::string> lines);

    /// From any thread; those without a site have not occurred.
    std::span<const thread_event> thread_events() const noexcept { return thread_events_; }
    log_writer_statistics statistics() const noexcept {
        return {lines_.load(std::memory_order_relaxed), lost_.load(std::memory_order_relaxed), dropped_.load(std::memory_order_relaxed)};
    }

private:
    struct thread_line {
        time_point at;
        const log_site* site;
        std::string text;
    };
    void count(const log_site& site) noexcept;
    void keep_writing() noexcept;
    bool anything() noexcept;
    bool write_oldest();
    void write(time_point at, const log_site& site, std::optional<unsigned> shard, std::string_view text, std::uint64_t left_out);

    log_options options_;
    log_levels levels_;
    log_output output_;
    std::vector<std::unique_ptr<log_ring>> rings_; ///< by shard
    std::mutex mutex_;                             ///< of the next
    std::deque<thread_line> thread_lines_;
    std::array<thread_event, max_thread_events> thread_events_; ///< places are given under the mutex, and read without it
    std::string text_;
    std::atomic<std::uint64_t> lines_{0}, lost_{0}, dropped_{0};
    std::atomic<bool> stopping_{false};
    std::atomic<int> resting_{0};
    std::thread thread_;
};

} // namespace corewire
