// What one verbs port has of its device: a raw-packet queue pair and, where flows are spread over several, a receive queue of its own.
// Owned by the verbs_device, since the table that spreads flows names all of them.
#pragma once

#include <corewire/rdma/port/port_queue.hh>
#include <corewire/rdma/verbs/receive_side_scaling.hh>

#include <optional>

namespace corewire {

struct verbs_queue : port_queue {
    verbs_queue(const verbs::device& on, unsigned receive_depth, unsigned send_depth, unsigned inline_bytes, bool spread,
                bool extended, std::uint8_t port);
    /// Puts both directions back to their beginning, with nothing posted. An errno.
    int reset() noexcept;
    /// After that: to where it receives and sends. An errno.
    int start(std::uint8_t port) noexcept;
    int post_receives(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept {
        return work ? work->post(chain, bad) : pair.post_receive(chain, bad);
    }
    using port_queue::concerns;
    bool concerns(const ibv_wq* q) const noexcept { return work && q == work->get(); }

    std::optional<verbs::receive_work_queue> work; ///< receives, and `pair` only sends
};

} // namespace corewire
