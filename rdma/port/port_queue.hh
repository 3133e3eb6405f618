// What one port has of a device: its queues, and a word in which the device's events reach it.
// Owned by the device that the port belongs to; used by its port's shard alone, but for `trouble`, which the shard that hears the
// device's events writes.
#pragma once

#include <corewire/rdma/verbs/queue_pair.hh>

#include <atomic>

namespace corewire {

struct port_queue {
    /// Bits of `trouble`.
    enum : std::uint32_t {
        link_changed = 1, ///< look at the device's link_up()
        pair_failed = 2,  ///< the queue pair or receive queue is in error: start it again
        lost = 4,         ///< a completion queue overran: nothing can be received or sent any more
        device_gone = 8,
        group_changed = 16, ///< the link's broadcast group is another: look at the device (verbs-ud)
    };
    /// A queue pair as `options` say, on completion queues of these depths. Throws as they do.
    port_queue(const verbs::device& on, unsigned receive_depth, unsigned send_depth, verbs::queue_pair_options options)
        : domain(on), channel(on), receives(on, {.entries = receive_depth, .channel = &channel}),
          sends(on, {.entries = send_depth, .channel = &channel}), pair(domain, on_queues(options)) {}

    /// From any thread.
    void tell(std::uint32_t what) noexcept { trouble.fetch_or(what, std::memory_order_relaxed); }
    /// Whether an event is about one of ours.
    bool concerns(const ibv_qp* q) const noexcept { return q == pair.get(); }
    bool concerns(const ibv_cq* q) const noexcept { return q == receives.get() || q == sends.get(); }

    verbs::protection_domain domain;
    verbs::completion_channel channel;
    verbs::completion_queue receives, sends;
    verbs::queue_pair pair;
    alignas(64) std::atomic<std::uint32_t> trouble{0};

private:
    const verbs::queue_pair_options& on_queues(verbs::queue_pair_options& o) noexcept {
        o.sends = &sends;
        o.receives = &receives;
        return o;
    }
};

} // namespace corewire
