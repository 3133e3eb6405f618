// A connection for every request: connect, one message there and back, close. What a load balancer's health checks and the
// worst of clients do; it measures how a stack makes and forgets connections.
//
//     short_client --SYN, message--> answer_once (in this process): echoes it, and closes first, so that TIME-WAIT is the server's
//                  <--echo, FIN----      and the client's ports are free again at once (RFC 9293 3.6.1, RFC 6191)
//
// One loop a `--connections`, on the client's shard; a loop ends with its first error.
#pragma once

#include <corewire/apps/pingpong/message.hh>
#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/socket/address.hh>
#include <corewire/net/socket/tcp_stream.hh>

namespace corewire::pingpong {

class short_client {
public:
    short_client(socket_address server, meter& accounts, std::uint32_t number);
    short_client(const short_client&) = delete;
    short_client& operator=(const short_client&) = delete;

    /// One connection after the other, until the meter allows no more. Failures are counted, not thrown.
    task<> run();
    /// For the watch: gives up an open connection that takes longer than the workload's patience.
    void check_progress(time_point now) noexcept;

private:
    task<> play_one();
    task<bool> exchange();
    void fail(const char* why) noexcept;

    socket_address server_;
    meter& meter_;
    std::uint32_t number_;
    message_block request_;
    std::uint64_t played_ = 0;
    tcp_stream stream_;
    time_point begun_ = never; ///< the present connection; never: none is open
    bool gave_up_ = false;
};

/// The server's half: the first `size` bytes go back, and then the connection is closed.
task<> answer_once(tcp_stream peer, std::uint32_t size);

} // namespace corewire::pingpong
