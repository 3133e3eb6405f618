// What one port has of a verbs device: its queues, and a word in which the device's events reach it.
// Owned by the verbs_device, since the table that spreads flows names all of them; used by its port's shard alone, but for
// `trouble`, which the shard that hears the device's events writes.
#pragma once

#include <corewire/rdma/verbs/receive_side_scaling.hh>

#include <atomic>
#include <memory>
#include <optional>

namespace corewire {

struct verbs_queue {
    /// Bits of `trouble`.
    enum : std::uint32_t {
        link_changed = 1,  ///< look at the device's link_up()
        pair_failed = 2,   ///< the queue pair or receive queue is in error: start it again
        lost = 4,          ///< a completion queue overran: nothing can be received or sent any more
        device_gone = 8,
    };

    verbs_queue(const verbs::device& on, unsigned receive_depth, unsigned send_depth, unsigned inline_bytes, bool spread,
                bool extended, std::uint8_t port);
    /// Puts both directions back to their beginning, with nothing posted. An errno.
    int restart(std::uint8_t port) noexcept;
    int post_receives(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept {
        return work ? work->post(chain, bad) : pair.post_receive(chain, bad);
    }
    /// Whether an event is about one of ours.
    bool concerns(const ibv_qp* q) const noexcept { return q == pair.get(); }
    bool concerns(const ibv_wq* q) const noexcept { return work && q == work->get(); }
    bool concerns(const ibv_cq* q) const noexcept { return q == receives.get() || q == sends.get(); }

    verbs::protection_domain domain;
    verbs::completion_channel channel;
    verbs::completion_queue receives, sends;
    verbs::queue_pair pair;                        ///< sends; receives too unless `work` does
    std::optional<verbs::receive_work_queue> work; ///< receives, where flows are spread over several queues
    alignas(64) std::atomic<std::uint32_t> trouble{0};
};

} // namespace corewire
