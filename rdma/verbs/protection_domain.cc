#include <corewire/rdma/verbs/protection_domain.hh>

#include <corewire/rdma/verbs/error.hh>

namespace corewire::verbs {

protection_domain::protection_domain(const device& on, bool for_one_thread) : device_name_(on.name()) {
    const verbs_api& api = on.api();
    ibv_pd* domain = api.alloc_pd(on.context());
    if (domain == nullptr) fail(operation::allocate_domain, errno, "allocate a protection domain on " + device_name_);
    domain_ = {api, domain};
    if (!for_one_thread) return;
    // Drivers without thread domains say so; theirs lock, which is slower and right.
    ibv_td* thread = api.alloc_td(on.context());
    if (thread == nullptr) return;
    thread_ = {api, thread};
    if (ibv_pd* parent = api.alloc_parent_domain(on.context(), domain, thread); parent != nullptr) parent_ = {api, parent};
}

} // namespace corewire::verbs
