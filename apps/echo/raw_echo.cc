#include <corewire/apps/echo/raw_echo.hh>

#include <corewire/apps/echo/raw_frame.hh>

#include <utility>

namespace corewire::raw {

bool echo::poll(time_point) {
    if (held_ == sent_) receive();
    if (held_ == sent_) return false;
    send();
    return true;
}

void echo::receive() {
    const std::size_t got = port_.receive(packets_);
    held_ = sent_ = 0;
    for (std::size_t i = 0; i < got; ++i) {
        if (!turn_round(packets_[i])) {
            ++dropped_;
            packets_[i] = packet{};
            continue;
        }
        if (i != held_) packets_[held_] = std::move(packets_[i]);
        ++held_;
    }
}

/// Makes the frame its own reply: in place, or in a copy when its bytes are only lent to us.
bool echo::turn_round(packet& p) noexcept {
    if (!is_ours(p.head)) return false;
    p.flags = offload::none;
    if (!p.head.exclusive()) {
        buffer copy = port_.pool().allocate_buffer();
        if (copy.underlying_frame() == nullptr || copy.tailroom() < p.head.size()) return false;
        std::memcpy(copy.append(p.head.size()), p.head.data(), p.head.size());
        p.head = std::move(copy);
    }
    raw::turn_round(p.head.mutable_data(), port_.mac());
    return true;
}

void echo::send() {
    const std::size_t taken = port_.transmit({packets_.data() + sent_, held_ - sent_});
    sent_ += taken;
    bounced_ += taken;
}

} // namespace corewire::raw
