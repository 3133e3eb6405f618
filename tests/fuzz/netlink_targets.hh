// Any bytes at all as a netlink datagram: what comes out must make sense, and no byte outside is read (AddressSanitizer's part).
#pragma once

#include <corewire/net/netlink/route_messages.hh>
#include <corewire/reactor/base/assert.hh>

#include <cstring>
#include <memory>

namespace netlink_fuzz {

using namespace corewire;
using netlink::message_reader;

inline void check(const netlink::change& told) {
    if (const auto* a = std::get_if<netlink::address_change>(&told))
        CW_ASSERT(a->address.length <= (a->address.is_v4() ? 32 : 128), "an impossible prefix");
    if (const auto* r = std::get_if<netlink::route_change>(&told)) {
        CW_ASSERT(r->destination == r->destination.network(), "a destination with host bits");
        CW_ASSERT(r->destination.is_v4() == r->gateway.is_v4(), "a route of two families");
        CW_ASSERT(!r->refuses || (r->interface == 0 && r->gateway.is_any() && !r->more && !r->further), "a refusal that leads somewhere");
    }
    if (const auto* n = std::get_if<netlink::neighbor_change>(&told)) {
        CW_ASSERT(n->address.is_unicast(), "a neighbour that is a group");
        CW_ASSERT(n->word == netlink::neighbor_word::unknown || n->mac.is_unicast(), "a neighbour without a MAC of its own");
    }
}

/// Reads in a block of exactly this size (new aligns it as netlink wants). Ends, and says how many messages it found.
inline std::size_t messages(byte_span bytes) {
    const auto block = std::make_unique<std::byte[]>(bytes.size());
    if (!bytes.empty()) std::memcpy(block.get(), bytes.data(), bytes.size());
    message_reader reader({block.get(), bytes.size()});
    std::size_t count = 0;
    for (netlink::change told;; ++count) {
        const auto verdict = reader.next(told);
        if (verdict == message_reader::verdict::end) return count;
        CW_ASSERT(count <= bytes.size() / 8, "more messages than headers, and ways of a route, fit");
        CW_ASSERT(reader.error() >= 0 && reader.error() < 4096, "an error that is none");
        if (verdict == message_reader::verdict::told) check(told);
    }
}

} // namespace netlink_fuzz
