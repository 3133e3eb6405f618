// A packet's bytes in one run, for whoever looks at whole frames. Copies when there is a body; lives for one call.
#pragma once

#include <corewire/net/frame/packet.hh>

#include <vector>

namespace corewire {

class packet_bytes {
public:
    explicit packet_bytes(const packet& p) : view_(p.head.bytes()) {
        if (p.body.empty()) return;
        copy_.reserve(p.size());
        copy_.insert(copy_.end(), p.head.bytes().begin(), p.head.bytes().end());
        copy_.insert(copy_.end(), p.body.bytes().begin(), p.body.bytes().end());
        view_ = copy_;
    }
    packet_bytes(const packet_bytes&) = delete;
    byte_span bytes() const noexcept { return view_; }

private:
    std::vector<std::byte> copy_;
    byte_span view_;
};

} // namespace corewire
