#include <corewire/rdma/verbs/memory_region.hh>

#include <corewire/rdma/verbs/error.hh>

#include <fmt/format.h>

namespace corewire::verbs {

memory_region::memory_region(const protection_domain& in, mutable_byte_span memory, access allowed) {
    ibv_mr* region = in.api().reg_mr(in.plain(), memory.data(), memory.size(), static_cast<unsigned>(allowed));
    if (region == nullptr)
        fail(operation::register_memory, errno, fmt::format("register {} bytes with {}", memory.size(), in.device_name()));
    region_ = {in.api(), region};
}

} // namespace corewire::verbs
