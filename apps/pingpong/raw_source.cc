#include <corewire/apps/pingpong/raw_source.hh>

#include <corewire/apps/echo/raw_frame.hh>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace corewire::pingpong {

using namespace std::chrono_literals;

raw_source::raw_source(port& through, meter& accounts) : port_(through), meter_(accounts), message_(accounts.load().size, 1, 0) {}

task<> raw_source::run() {
    last_progress_ = reactor::current().read_clock();
    stream_ = static_cast<std::uint64_t>(last_progress_.time_since_epoch().count()) << raw::stream_shift;
    started_ = true;
    send_some();
    co_await finished_.wait();
}

bool raw_source::poll(time_point) {
    if (!started_) return false;
    const std::size_t got = port_.receive(received_);
    if (got != 0) {
        const time_point now = reactor::current().read_clock();
        meter_.look_at(now);
        for (std::size_t i = 0; i < got; ++i) {
            take_in(received_[i].head, now);
            received_[i] = packet{};
        }
    }
    const bool sent = send_some();
    if (over_ && counted_ + lost_ >= sent_) finished_.set();
    return got != 0 || sent;
}

void raw_source::take_in(const buffer& frame, time_point now) noexcept {
    if (!raw::is_ours(frame) || frame.size() < raw::header_size + sizeof counted_) return;
    const std::uint64_t told = load_native<std::uint64_t>(frame.data() + raw::header_size);
    const std::uint64_t counted = told & raw::number_mask;
    if ((told & ~raw::number_mask) != stream_ || counted <= counted_ || counted > sent_) return; // an older report, or another stream's
    sink_ = raw::source_of(frame);
    const std::uint64_t news = counted - counted_;
    counted_ = counted;
    if (meter_.measuring(now)) meter_.record_bulk(news, news * message_.size(), now);
}

/// As many as the window has room for and the port takes, a burst a call. True if any went.
bool raw_source::send_some() noexcept {
    if (outgoing_count_ == outgoing_first_ && !fill()) return false;
    const std::size_t taken = port_.transmit({outgoing_.data() + outgoing_first_, outgoing_count_ - outgoing_first_});
    outgoing_first_ += taken;
    sent_ += taken;
    return taken != 0;
}

/// A burst of frames. False: the window is full, the pool empty, or the time over.
bool raw_source::fill() noexcept {
    outgoing_first_ = outgoing_count_ = 0;
    const std::uint64_t settled = counted_ + lost_; // what was given up may be counted after all
    const std::uint64_t flight = sent_ > settled ? sent_ - settled : 0;
    const std::size_t room = std::min<std::uint64_t>(burst, flight < window ? window - flight : 0);
    const std::uint32_t length = std::max(raw::header_size + message_.size(), raw::smallest_frame);
    while (outgoing_count_ < room) {
        buffer frame = port_.pool().allocate_buffer();
        if (frame.underlying_frame() == nullptr || frame.tailroom() < length) break;
        if (!meter_.take_turn()) {
            over_ = true;
            break;
        }
        std::byte* at = frame.append(length);
        raw::write_header(at, sink_, port_.mac());
        message_.set_number(0, stream_ | (sent_ + outgoing_count_));
        std::memcpy(at + raw::header_size, message_.at(0), message_.size());
        packet& p = outgoing_[outgoing_count_++];
        p = packet{};
        p.head = std::move(frame);
    }
    return outgoing_count_ != 0;
}

void raw_source::check_progress(time_point now) noexcept {
    meter_.look_at(now);
    if (counted_ != seen_) {
        seen_ = counted_;
        last_progress_ = now;
        return;
    }
    if (sent_ <= counted_ + lost_ || now - last_progress_ < 100ms) return;
    lost_ = sent_ - counted_;
    last_progress_ = now;
    if (!over_ || counted_ != 0) return;
    meter_.error();
    std::fprintf(stderr, "cw-pingpong: no frame was counted: is it cw-echo --raw --discard?\n");
}

} // namespace corewire::pingpong
