#include <corewire/apps/echo/raw_sink.hh>

#include <corewire/apps/echo/raw_frame.hh>

namespace corewire::raw {

bool sink::poll(time_point) {
    const std::size_t got = port_.receive(packets_);
    for (std::size_t i = 0; i < got; ++i) {
        if (is_ours(packets_[i].head)) {
            ++counted_;
            source_ = source_of(packets_[i].head);
        }
        packets_[i] = packet{};
    }
    if (counted_ - told_ >= every || (got == 0 && counted_ != told_)) tell();
    return got != 0;
}

/// A report that finds no frame or no room goes the next time.
void sink::tell() noexcept {
    packet p;
    p.head = port_.pool().allocate_buffer();
    if (p.head.underlying_frame() == nullptr || p.head.tailroom() < smallest_frame) return;
    std::byte* at = p.head.append(smallest_frame);
    std::memset(at, 0, smallest_frame);
    write_header(at, source_, port_.mac());
    store_be64(at + header_size, counted_);
    if (port_.transmit({&p, 1}) == 1) told_ = counted_;
}

} // namespace corewire::raw
