#include <corewire/apps/pingpong/short_client.hh>

#include <corewire/apps/pingpong/tcp_client.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace corewire::pingpong {

short_client::short_client(socket_address server, meter& accounts, std::uint32_t number)
    : server_(server), meter_(accounts), number_(number), request_(accounts.load().size, 1, number) {}

task<> short_client::run() {
    try {
        while (meter_.take_turn()) co_await play_one();
    } catch (const std::system_error& e) {
        fail(gave_up_ ? "no answer in time" : e.what());
    }
    begun_ = never;
}

task<> short_client::play_one() {
    reactor& shard = reactor::current();
    const time_point begun = shard.read_clock();
    request_.set_number(0, played_++);
    stream_ = co_await tcp_stream::connect(server_, stream_options(meter_.load()));
    begun_ = begun;
    const bool good = co_await exchange();
    stream_ = tcp_stream{};
    begun_ = never;
    const time_point now = shard.read_clock();
    if (!good) meter_.error();
    meter_.record(begun, now);
    meter_.look_at(now);
}

/// True if exactly the request came back, and then the end of the stream.
task<bool> short_client::exchange() {
    co_await stream_.write(request_.first(1));
    bool good = true;
    std::uint32_t got = 0;
    while (const buffer data = co_await stream_.read()) {
        const std::uint32_t n = std::min(data.size(), request_.size() - got);
        good = good && n == data.size() && std::memcmp(request_.at(0) + got, data.data(), n) == 0;
        got += n;
    }
    co_return good && got == request_.size();
}

void short_client::check_progress(time_point now) noexcept {
    if (gave_up_ || begun_ == never || now - begun_ < meter_.load().patience) return;
    gave_up_ = true;
    stream_.abort();
}

void short_client::fail(const char* why) noexcept {
    meter_.error();
    std::fprintf(stderr, "cw-pingpong: short connections, loop %u: %s\n", number_, why);
}

task<> answer_once(tcp_stream peer, std::uint32_t size) {
    for (std::uint32_t left = size; left != 0;) {
        buffer data = co_await peer.read();
        if (!data) co_return;
        left -= std::min(left, data.size());
        co_await peer.write(std::move(data));
    }
}

} // namespace corewire::pingpong
