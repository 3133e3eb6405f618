#include <corewire/apps/pingpong/bulk.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

namespace corewire::pingpong {

namespace {
/// All messages of the rotation, one behind the other, as both ends know them.
message_block make_rotation(std::uint32_t size) {
    message_block all(size, rotation, 0);
    for (std::uint32_t slot = 0; slot < rotation; ++slot) all.set_number(slot, slot * 0x0101010101010101ull + 1);
    return all;
}
} // namespace

bulk_source::bulk_source(tcp_stream stream, meter& accounts, std::uint32_t connection)
    : stream_(std::move(stream)), meter_(accounts), connection_(connection) {}

task<> bulk_source::run() {
    try {
        co_await send_all();
    } catch (const std::system_error& e) {
        fail(gave_up_ ? "nothing moves" : e.what());
    }
}

bool bulk_source::fill_messages() {
    message_block all = make_rotation(meter_.load().size);
    messages_.reserve(rotation);
    for (std::uint32_t slot = 0; slot < rotation; ++slot) {
        buffer message = stream_.allocate(all.size());
        if (message.tailroom() < all.size()) return false;
        std::memcpy(message.append(all.size()), all.at(slot), all.size());
        messages_.push_back(std::move(message));
    }
    return true;
}

task<> bulk_source::send_all() {
    reactor& shard = reactor::current();
    if (!fill_messages()) {
        fail("a message of this --size does not fit a frame of this port");
        co_return;
    }
    last_progress_ = shard.read_clock();
    for (std::uint32_t slot = 0; meter_.take_turn(); slot = slot + 1 == rotation ? 0 : slot + 1) {
        co_await stream_.write(messages_[slot].share());
        written_ += messages_[slot].size();
        const time_point now = shard.now();
        if (meter_.measuring(now)) meter_.record_bulk(1, messages_[slot].size(), now);
        meter_.look_at(now);
    }
    stream_.shutdown();
    co_await await_tally(written_);
}

task<> bulk_source::await_tally(std::uint64_t sent) {
    std::array<std::byte, sizeof(std::uint64_t)> tally;
    const std::size_t got = co_await stream_.read_exactly(tally);
    const time_point now = reactor::current().read_clock();
    meter_.record_bulk(0, 0, now);
    if (got != tally.size()) {
        fail("the peer closed without saying how much it received: is it cw-echo --discard?");
    } else if (load_be64(tally.data()) != sent) {
        fail("the peer received another number of bytes than were sent");
    }
    co_await stream_.close();
}

void bulk_source::check_progress(time_point now) noexcept {
    if (written_ != seen_) {
        seen_ = written_;
        last_progress_ = now;
    }
    if (gave_up_ || messages_.empty() || now - last_progress_ < meter_.load().patience) return;
    gave_up_ = true;
    stream_.abort();
}

void bulk_source::fail(const char* why) noexcept {
    meter_.error();
    std::fprintf(stderr, "cw-pingpong: connection %u: %s\n", connection_, why);
}

bulk_sink::bulk_sink(std::uint32_t message_size) : expected_(make_rotation(message_size)) {}

task<> bulk_sink::run(tcp_stream stream) {
    try {
        while (const buffer data = co_await stream.read()) check(data.bytes());
        std::array<std::byte, sizeof(std::uint64_t)> tally;
        store_be64(tally.data(), received_);
        co_await stream.write(byte_span{tally});
        co_await stream.close();
    } catch (const std::system_error&) {
        ++errors_; // the source says why
    }
}

void bulk_sink::check(byte_span bytes) noexcept {
    constexpr std::size_t probe = 16;
    const std::size_t n = std::min(probe, bytes.size());
    const bool good = matches(received_, bytes.first(n)) && matches(received_ + bytes.size() - n, bytes.last(n));
    errors_ += good ? 0 : 1;
    received_ += bytes.size();
}

bool bulk_sink::matches(std::uint64_t offset, byte_span bytes) noexcept {
    const byte_span all = expected_.first(rotation);
    const std::size_t at = offset % all.size();
    const std::size_t before_wrap = std::min(bytes.size(), all.size() - at);
    return std::memcmp(all.data() + at, bytes.data(), before_wrap) == 0 &&
           std::memcmp(all.data(), bytes.data() + before_wrap, bytes.size() - before_wrap) == 0;
}

} // namespace corewire::pingpong
