#include <corewire/reactor/shard/shard_metrics.hh>

#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/shard/mailbox.hh>

#include <algorithm>

namespace corewire {

namespace {

const reactor& loop_of(const void* of) noexcept { return *static_cast<const reactor*>(of); }

/// A counter of the io_uring, which may not have been made yet.
template <std::uint64_t uring_statistics::*Counter>
std::uint64_t of_ring(const void* of) noexcept {
    const uring* ring = loop_of(of).io_if_made();
    return ring == nullptr ? 0 : ring->statistics().*Counter;
}

} // namespace

void register_reactor_metrics(metric_group& group, const reactor& loop) {
    group.counter("corewire_reactor_turns_total", "Turns of the loop (polls).",
                  [](const void* of) noexcept { return loop_of(of).turns(); }, &loop);
    group.counter("corewire_reactor_sleeps_total", "Times the loop slept.",
                  [](const void* of) noexcept { return loop_of(of).sleeps(); }, &loop);
    group.counter("corewire_reactor_idle_seconds_total", "Time in which the loop had nothing to do, sleep included.",
                  [](const void* of) noexcept { return static_cast<std::uint64_t>(loop_of(of).idle_time().count()); }, &loop, {},
                  metric_unit::nanoseconds);
    group.histogram("corewire_reactor_turn_seconds", "Lengths of the turns of the loop that found something to do.", loop.turn_lengths());
    group.gauge("corewire_reactor_tasks", "Tasks that nobody awaits, of all task groups.",
                [](const void* of) noexcept -> std::uint64_t { return const_cast<reactor&>(loop_of(of)).tasks(); }, &loop);
    group.counter("corewire_reactor_tasks_failed_total", "Tasks that nobody awaited and that an exception has left.",
                  [](const void* of) noexcept { return loop_of(of).tasks_failed(); }, &loop);
    group.gauge("corewire_reactor_frames", "Coroutine frames in use or kept for use.",
                [](const void* of) noexcept { return const_cast<reactor&>(loop_of(of)).frames().frames_held(); }, &loop);
    group.gauge("corewire_reactor_frame_bytes", "Bytes of these.",
                [](const void* of) noexcept { return const_cast<reactor&>(loop_of(of)).frames().bytes_held(); }, &loop);
    group.counter("corewire_reactor_frame_allocations_total", "Coroutine frames that came from the heap.",
                  [](const void* of) noexcept { return const_cast<reactor&>(loop_of(of)).frames().heap_allocations(); }, &loop);
    group.counter("corewire_uring_enters_total", "Calls of io_uring_enter, or of what stands in for it.",
                  of_ring<&uring_statistics::enters>, &loop);
    group.counter("corewire_uring_requests_total", "Requests given to io_uring.", of_ring<&uring_statistics::started>, &loop);
    group.counter("corewire_uring_completions_total", "Completions taken from io_uring.",
                  of_ring<&uring_statistics::completions>, &loop);
    group.counter("corewire_uring_queue_full_total", "Times the submission queue was submitted early, being full.",
                  of_ring<&uring_statistics::queue_full>, &loop);
    group.counter("corewire_uring_refused_total", "Submissions that the kernel did not take, tried again with the next turn.",
                  of_ring<&uring_statistics::refused>, &loop);
}

void register_mailbox_metrics(metric_group& group, const mailbox& mail) {
    const mailbox_statistics& s = mail.statistics();
    group.counter("corewire_mailbox_sent_total", "Messages sent to other shards.", s.sent);
    group.counter("corewire_mailbox_received_total", "Messages received from other shards.", s.received);
    group.counter("corewire_mailbox_waited_total", "Requests that waited because the ring was full.", s.waited);
    group.counter("corewire_mailbox_parked_total", "Replies that waited because the ring was full.", s.parked);
    group.counter("corewire_mailbox_posts_refused_total", "Posts refused because the ring was full.", s.posts_refused);
    group.counter("corewire_mailbox_wakes_total", "Times a sleeping shard was told that there is mail.", s.wakes);
}

load_meter::load_meter(reactor& loop) noexcept : reactor_(loop), since_(loop.now()), idle_before_(loop.idle_time()) {}

void load_meter::register_metrics(metric_group& group) {
    group.gauge("corewire_reactor_load_ratio", "Share of the time since the last publication in which the loop was not idle.", load_,
                {}, metric_unit::parts_per_million);
}

bool load_meter::collect(metric_registry&, bool) noexcept {
    const duration elapsed = reactor_.now() - since_;
    if (elapsed < std::chrono::milliseconds{10}) return false; // a scrape just after a round: too short to say anything
    const duration idle = reactor_.idle_time() - idle_before_;
    const auto busy = std::clamp<std::int64_t>((elapsed - idle).count(), 0, elapsed.count());
    load_ = static_cast<std::uint64_t>(1e6 * static_cast<double>(busy) / static_cast<double>(elapsed.count()));
    since_ = reactor_.now();
    idle_before_ = reactor_.idle_time();
    return false;
}

} // namespace corewire
