// One UDP socket of the client: keeps `pipeline` datagrams in flight. A datagram that is not answered within the
// workload's patience is an error and is replaced by another, so that loss never stops a run.
#pragma once

#include <corewire/apps/pingpong/flights.hh>
#include <corewire/apps/pingpong/message.hh>
#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/reactor/task/task.hh>

#include <optional>
#include <vector>

namespace corewire::pingpong {

class udp_client {
public:
    udp_client(udp_socket connected, meter& accounts, std::uint32_t connection);
    udp_client(const udp_client&) = delete;
    udp_client& operator=(const udp_client&) = delete;

    /// Ping-pong until the meter allows no more and nothing is in flight. Failures are counted, not thrown.
    task<> run();
    /// For the watch: counts what has been in flight for too long and sends another in its place.
    void check_progress(time_point now) noexcept;

private:
    task<> exchange();
    task<> replace_lost();
    std::optional<std::uint32_t> take_in(const datagram& reply, time_point now) noexcept;
    bool is_answer(const datagram& reply, std::uint64_t number) noexcept;
    bool prepare(std::uint32_t place, time_point now) noexcept;
    void fail(const char* why) noexcept;

    udp_socket socket_;
    meter& meter_;
    std::uint32_t connection_;
    message_block request_;
    flights flights_;
    std::vector<std::uint32_t> lost_; ///< places to send from again
    bool replacing_ = false;
    bool closed_ = false;
};

} // namespace corewire::pingpong
