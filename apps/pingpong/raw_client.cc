#include <corewire/apps/pingpong/raw_client.hh>

#include <corewire/apps/echo/raw_frame.hh>

#include <algorithm>
#include <cstring>

namespace corewire::pingpong {

raw_client::raw_client(port& through, meter& accounts)
    : port_(through), meter_(accounts), message_(accounts.load().size, 1, 0),
      flights_(accounts.load().connections * accounts.load().pipeline) {}

task<> raw_client::run() {
    const time_point now = reactor::current().read_clock();
    for (std::uint32_t place = 0; place < flights_.places(); ++place) send_from(place, now);
    send_outgoing();
    if (flights_.count() != 0) co_await finished_.wait();
}

bool raw_client::poll(time_point) {
    const std::size_t got = port_.receive(received_);
    if (got == 0) {
        if (outgoing_count_ != 0) send_outgoing();
        return outgoing_count_ != 0;
    }
    const time_point now = reactor::current().read_clock();
    meter_.look_at(now);
    for (std::size_t i = 0; i < got; ++i) {
        take_in(received_[i].head, now);
        received_[i] = packet{};
    }
    send_outgoing();
    if (flights_.count() == 0) finished_.set();
    return true;
}

void raw_client::take_in(const buffer& frame, time_point now) noexcept {
    if (!raw::is_ours(frame)) return;
    if (frame.size() < raw::header_size + message_.size()) return meter_.error();
    const std::byte* payload = frame.data() + raw::header_size;
    const auto number = load_native<std::uint64_t>(payload);
    if (!flights_.in_flight(number)) return meter_.error(); // late, or a duplicate
    message_.set_number(0, number);
    if (std::memcmp(payload, message_.at(0), message_.size()) != 0) return meter_.error();
    server_ = raw::source_of(frame);
    meter_.record(flights_.land(number), now);
    send_from(flights_.place_of(number), now);
}

void raw_client::send_from(std::uint32_t place, time_point now) noexcept {
    if (!meter_.take_turn()) return;
    const std::uint64_t number = flights_.depart(place, now);
    if (outgoing_count_ == burst) send_outgoing();
    buffer frame = make_frame(number);
    if (outgoing_count_ == burst || !frame) return; // lost, as on a full link: the watch notices
    packet& p = outgoing_[outgoing_count_++];
    p = packet{};
    p.head = std::move(frame);
}

/// Empty when the pool is.
buffer raw_client::make_frame(std::uint64_t number) noexcept {
    buffer frame = port_.pool().allocate_buffer();
    const std::uint32_t used = raw::header_size + message_.size();
    const std::uint32_t length = std::max(used, raw::smallest_frame);
    if (frame.tailroom() < length) return {};
    std::byte* at = frame.append(length);
    raw::write_header(at, server_, port_.mac());
    message_.set_number(0, number);
    std::memcpy(at + raw::header_size, message_.at(0), message_.size());
    std::memset(at + used, 0, length - used);
    return frame;
}

/// What the port does not take stays for the next time.
void raw_client::send_outgoing() noexcept {
    const std::size_t taken = port_.transmit({outgoing_.data(), outgoing_count_});
    if (taken != 0 && taken < outgoing_count_)
        std::move(outgoing_.begin() + static_cast<std::ptrdiff_t>(taken),
                  outgoing_.begin() + static_cast<std::ptrdiff_t>(outgoing_count_), outgoing_.begin());
    outgoing_count_ -= taken;
}

void raw_client::check_progress(time_point now) noexcept {
    const std::uint64_t before = meter_.errors();
    flights_.give_up_before(now - meter_.load().patience, [&](std::uint32_t place) {
        meter_.error();
        meter_.look_at(now);
        send_from(place, now);
    });
    if (meter_.errors() == before) return;
    send_outgoing();
    if (flights_.count() == 0) finished_.set();
}

} // namespace corewire::pingpong
