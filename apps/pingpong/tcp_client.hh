// One TCP connection of the client: keeps `pipeline` messages in flight, checks what comes back, times it.
// Lives in its shard's run, which also watches over it; holds one message block and one time stamp a message in flight.
#pragma once

#include <corewire/apps/pingpong/message.hh>
#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/socket/tcp_stream.hh>

#include <vector>

namespace corewire::pingpong {

class tcp_client {
public:
    tcp_client(tcp_stream stream, meter& accounts, std::uint32_t connection);
    tcp_client(const tcp_client&) = delete;
    tcp_client& operator=(const tcp_client&) = delete;

    /// Ping-pong until the meter allows no more and the last reply is in. Failures are counted, not thrown.
    task<> run();
    /// For the watch: gives up if no reply has come for the workload's patience.
    void check_progress(time_point now) noexcept;

private:
    task<> exchange();
    std::uint32_t take_in(const buffer& data, time_point now) noexcept;
    std::uint32_t prepare(std::uint32_t wanted, time_point now) noexcept;
    std::uint32_t behind(std::uint32_t place) const noexcept { return place + 1 == pipeline_ ? 0 : place + 1; }
    void lose_all(const char* why) noexcept;

    tcp_stream stream_;
    meter& meter_;
    std::uint32_t connection_;
    std::uint32_t pipeline_;
    message_block requests_;
    reply_checker replies_;
    std::vector<time_point> sent_at_; ///< of the messages in flight: a ring
    std::uint32_t oldest_ = 0;        ///< where in it the next reply's message stands,
    std::uint32_t newest_ = 0;        ///< and the next message to be sent
    std::uint64_t next_ = 0;          ///< number of the next message to send
    time_point last_progress_{};
    bool gave_up_ = false;
};

/// What a TCP socket needs so that a pipeline of this many bytes can never block both ends at once.
tcp_options_set stream_options(const workload& load) noexcept;

} // namespace corewire::pingpong
