#include <corewire/apps/echo/raw_sink.hh>

#include <corewire/apps/echo/raw_frame.hh>

namespace corewire::raw {

bool sink::poll(time_point) {
    const std::size_t got = port_.receive(packets_);
    for (std::size_t i = 0; i < got; ++i) {
        count(packets_[i].head);
        packets_[i] = packet{};
    }
    if (counted_ - told_ >= every || (got == 0 && counted_ != told_)) tell();
    return got != 0;
}

void sink::count(const buffer& frame) noexcept {
    if (!is_ours(frame) || frame.size() < header_size + sizeof(std::uint64_t)) return;
    const std::uint64_t stream = load_native<std::uint64_t>(frame.data() + header_size) >> stream_shift;
    if (stream != stream_) {
        stream_ = stream;
        counted_ = told_ = 0;
    }
    ++counted_;
    source_ = source_of(frame);
}

/// A report that finds no frame or no room goes the next time.
void sink::tell() noexcept {
    packet p;
    p.head = port_.pool().allocate_buffer();
    if (p.head.underlying_frame() == nullptr || p.head.tailroom() < smallest_frame) return;
    std::byte* at = p.head.append(smallest_frame);
    std::memset(at, 0, smallest_frame);
    write_header(at, source_, port_.mac());
    const std::uint64_t told = stream_ << stream_shift | counted_;
    std::memcpy(at + header_size, &told, sizeof told);
    if (port_.transmit({&p, 1}) == 1) told_ = counted_;
}

} // namespace corewire::raw
