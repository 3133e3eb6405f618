// A protection domain: which queue pairs may use which memory. With `for_one_thread` the driver is told that one thread
// alone uses what is made in it (a thread domain), and leaves out its locks where it can.
// Belongs to one shard then; outlives the regions, queue pairs and address handles made in it.
#pragma once

#include <corewire/rdma/verbs/device.hh>

namespace corewire::verbs {

class protection_domain {
public:
    explicit protection_domain(const device& on, bool for_one_thread = true);

    /// What queues are made with: the thread's own where the driver has that.
    ibv_pd* get() const noexcept { return parent_ ? parent_.get() : domain_.get(); }
    /// What memory is registered with, and address handles are made with.
    ibv_pd* plain() const noexcept { return domain_.get(); }
    bool without_locks() const noexcept { return static_cast<bool>(parent_); }
    const verbs_api& api() const noexcept { return domain_.api(); }
    ibv_context* context() const noexcept { return domain_->context; }
    const std::string& device_name() const noexcept { return device_name_; }

private:
    std::string device_name_;
    handle<ibv_pd, &verbs_api::dealloc_pd> domain_;
    handle<ibv_td, &verbs_api::dealloc_td> thread_;
    handle<ibv_pd, &verbs_api::dealloc_pd> parent_;
};

} // namespace corewire::verbs
