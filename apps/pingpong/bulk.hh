// A one-way TCP stream at full speed: the source writes owned buffers without a copy, the sink reads and drops them.
//
//     bulk_source --- messages 0 1 2 ... 60 0 1 ... FIN --->  bulk_sink (in this process) or `cw-echo --discard`
//                 <------- bytes received (8, big-endian), FIN ---
//
// The source sends views of `rotation` buffers that it filled once, as a server sends from its cache; each differs, so a
// stream put together wrongly is noticed. One pair a connection, each end on its own shard.
#pragma once

#include <corewire/apps/pingpong/message.hh>
#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/socket/tcp_stream.hh>

#include <vector>

namespace corewire::pingpong {

/// How many different messages take turns; a prime, so that it divides no burst or window.
inline constexpr std::uint32_t rotation = 61;

class bulk_source {
public:
    bulk_source(tcp_stream stream, meter& accounts, std::uint32_t connection);
    bulk_source(const bulk_source&) = delete;
    bulk_source& operator=(const bulk_source&) = delete;

    /// Writes until the meter allows no more and the sink has everything. Failures are counted, not thrown.
    task<> run();
    /// For the watch: gives up when nothing has moved for the workload's patience.
    void check_progress(time_point now) noexcept;

private:
    bool fill_messages();
    task<> send_all();
    task<> await_tally(std::uint64_t sent);
    void fail(const char* why) noexcept;

    tcp_stream stream_;
    meter& meter_;
    std::uint32_t connection_;
    std::vector<buffer> messages_;
    std::uint64_t written_ = 0;
    std::uint64_t seen_ = 0; ///< written_ when the watch last looked
    time_point last_progress_{};
    bool gave_up_ = false;
};

/// The other end. Checks both ends of every buffer it is given, which finds bytes that are lost, doubled or misplaced.
class bulk_sink {
public:
    explicit bulk_sink(std::uint32_t message_size);

    /// Reads to the end of the stream, then answers with the tally.
    task<> run(tcp_stream stream);
    std::uint64_t errors() const noexcept { return errors_; }

private:
    void check(byte_span bytes) noexcept;
    bool matches(std::uint64_t offset, byte_span bytes) noexcept;

    message_block expected_;
    std::uint64_t received_ = 0;
    std::uint64_t errors_ = 0;
};

} // namespace corewire::pingpong
