// One queue of receive buffers for many queue pairs. Belongs to one shard.
// When it runs low (arm_limit) the device raises IBV_EVENT_SRQ_LIMIT_REACHED, once: refill, then arm again.
#pragma once

#include <corewire/rdma/verbs/protection_domain.hh>

namespace corewire::verbs {

struct shared_receive_queue_options {
    unsigned max_receives = 1024;
    unsigned pieces = 1;
    unsigned limit = 0; ///< 0: not armed
};

class shared_receive_queue {
public:
    /// Throws std::system_error with a sentence.
    shared_receive_queue(const protection_domain& in, const shared_receive_queue_options& options);
    /// An errno, and what was not posted in `bad`.
    int post(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept { return ::ibv_post_srq_recv(queue_.get(), chain, bad); }
    /// An errno.
    int arm_limit(unsigned limit) noexcept;
    ibv_srq* get() const noexcept { return queue_.get(); }
    unsigned max_receives() const noexcept { return max_receives_; }

private:
    handle<ibv_srq, &verbs_api::destroy_srq> queue_;
    unsigned max_receives_;
};

} // namespace corewire::verbs
