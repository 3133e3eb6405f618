#include <corewire/apps/pingpong/tcp_client.hh>

#include <algorithm>
#include <cstdio>

namespace corewire::pingpong {

tcp_options_set stream_options(const workload& load) noexcept {
    tcp_options_set options;
    options.no_delay = !load.bulk;
    options.fast_open = load.fast_open;
    const std::uint32_t in_flight = load.size * load.pipeline;
    options.send_buffer = std::max(options.send_buffer, 2 * in_flight);
    options.receive_buffer = std::max(options.receive_buffer, 2 * in_flight);
    return options;
}

tcp_client::tcp_client(tcp_stream stream, meter& accounts, std::uint32_t connection)
    : stream_(std::move(stream)), meter_(accounts), connection_(connection), pipeline_(accounts.load().pipeline),
      requests_(accounts.load().size, pipeline_, connection), replies_(accounts.load().size, connection),
      sent_at_(pipeline_) {}

task<> tcp_client::run() {
    try {
        co_await exchange();
    } catch (const std::system_error& e) {
        lose_all(gave_up_ ? "no reply in time" : e.what());
    }
}

task<> tcp_client::exchange() {
    reactor& shard = reactor::current();
    last_progress_ = shard.read_clock();
    std::uint32_t to_send = prepare(pipeline_, last_progress_);
    while (replies_.number() < next_) {
        if (to_send != 0) co_await stream_.write(requests_.first(to_send));
        const buffer data = co_await stream_.read();
        if (!data) {
            lose_all("the server closed the connection");
            co_return;
        }
        // Read the clock, not the turn's time: the turn began before the reply was there.
        const time_point now = shard.read_clock();
        last_progress_ = now;
        to_send = prepare(take_in(data, now), now);
    }
    stream_.shutdown();
}

/// Checks and records the replies in `data`; returns how many are complete.
std::uint32_t tcp_client::take_in(const buffer& data, time_point now) noexcept {
    meter_.look_at(now);
    std::uint32_t complete = 0;
    byte_span bytes = data.bytes(); // not empty, and a reply is owed
    do {
        if (!replies_.take(bytes)) break;
        meter_.record(sent_at_[oldest_], now);
        oldest_ = behind(oldest_);
        if (!replies_.finish()) [[unlikely]] meter_.error();
        ++complete;
    } while (!bytes.empty() && replies_.number() < next_);
    if (!bytes.empty()) [[unlikely]] meter_.error(); // more than was asked for
    return complete;
}

/// Numbers and stamps up to `wanted` further messages; returns how many the meter allows.
std::uint32_t tcp_client::prepare(std::uint32_t wanted, time_point now) noexcept {
    std::uint32_t ready = 0;
    while (ready < wanted && meter_.take_turn()) {
        requests_.set_number(ready, next_);
        sent_at_[newest_] = now;
        newest_ = behind(newest_);
        ++next_;
        ++ready;
    }
    return ready;
}

void tcp_client::check_progress(time_point now) noexcept {
    if (gave_up_ || replies_.number() >= next_ || now - last_progress_ < meter_.load().patience) return;
    gave_up_ = true;
    stream_.abort(); // whoever waits in exchange() fails with ECONNABORTED
}

void tcp_client::lose_all(const char* why) noexcept {
    const std::uint64_t lost = next_ - replies_.number();
    meter_.error(std::max<std::uint64_t>(lost, 1));
    std::fprintf(stderr, "cw-pingpong: connection %u: %s; %llu messages lost\n", connection_, why,
                 static_cast<unsigned long long>(lost));
}

} // namespace corewire::pingpong
