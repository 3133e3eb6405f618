#include <corewire/rdma/channel/registered_buffer.hh>

#include <cstring>

namespace corewire::rdma {

registered_buffer::registered_buffer(adapter& on, std::size_t size, memory_use of)
    : block_(on.memory().allocate(size, of)), size_(size) {
    std::memset(block_->data, 0, block_->size); // another owner's bytes are nobody's business
}

} // namespace corewire::rdma
