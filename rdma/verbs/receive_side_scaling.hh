// Receive-side scaling in the device: receive work queues, one for each shard, and a table that spreads flows over them by
// the Toeplitz hash of their addresses and ports.
//
//     packet -> flow rule -> hashing queue pair -> table[hash mod size] -> receive_work_queue -> its shard's completion queue
//
// The queues belong to their shards; table and hashing queue pairs to whoever made them, and go before the queues.
#pragma once

#include <corewire/rdma/verbs/queue_pair.hh>

#include <array>
#include <span>

namespace corewire::verbs {

class receive_work_queue {
public:
    /// In RDY: receives may be posted. Throws std::system_error with a sentence.
    receive_work_queue(const protection_domain& in, completion_queue& completions, unsigned max_receives, unsigned pieces = 1);
    int post(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept { return ::ibv_post_wq_recv(queue_.get(), chain, bad); }
    /// Forgets all receives that are posted, and takes none. An errno.
    int reset() noexcept { return move_to(IBV_WQS_RESET); }
    /// After that: receives may be posted again. An errno.
    int start() noexcept { return move_to(IBV_WQS_RDY); }
    ibv_wq* get() const noexcept { return queue_.get(); }

private:
    int move_to(ibv_wq_state state) noexcept;
    handle<ibv_wq, &verbs_api::destroy_wq> queue_;
};

/// Which flows hash by what. Devices hash TCP and UDP ports, and IPv4 and IPv6, in separate queue pairs.
enum class hashed { tcp, udp, addresses };

class spread {
public:
    /// A table of `slots` (a power of two) entries, filled with `queues` in turn.
    spread(const device& on, std::span<receive_work_queue* const> queues, unsigned slots);
    /// A queue pair that receives only, and never needs to be moved to another state.
    queue_pair pair_for(const protection_domain& in, hashed fields, std::span<const std::uint8_t, 40> key, bool six = false) const;
    unsigned slots() const noexcept { return slots_; }

private:
    unsigned slots_;
    handle<ibv_rwq_ind_table, &verbs_api::destroy_rwq_ind_table> table_;
};

} // namespace corewire::verbs
