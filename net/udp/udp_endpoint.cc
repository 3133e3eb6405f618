#include <corewire/net/udp/udp_endpoint.hh>

#include <corewire/net/udp/udp_demux.hh>

#include <bit>
#include <new>

namespace corewire {

namespace {
std::uint32_t ring_size(std::uint32_t capacity) {
    CW_ASSERT(capacity > 0 && capacity <= (1u << 24), "a receive queue of 1 to 16 million datagrams");
    return std::bit_ceil(capacity);
}
} // namespace

// The ring is raw memory, so that a queue of thousands costs the pages that are used and no more.
udp_endpoint::udp_endpoint(std::uint32_t capacity, void* owner)
    : mask_(ring_size(capacity) - 1), ring_(static_cast<udp_datagram*>(::operator new(sizeof(udp_datagram) * (mask_ + 1)))),
      owner_(owner) {}

udp_endpoint::~udp_endpoint() {
    if (demux_ != nullptr) demux_->unbind(*this);
    ::operator delete(ring_, sizeof(udp_datagram) * (mask_ + 1));
}

} // namespace corewire
