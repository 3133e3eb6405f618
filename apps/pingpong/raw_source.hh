// A one-way stream of bare frames, as fast as the port and raw::sink take them: what bulk TCP on the same port is held against.
// At most `window` frames are on their way that the sink has not counted. Polled by one shard's reactor.
#pragma once

#include <corewire/apps/pingpong/message.hh>
#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/port/port.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/event.hh>

#include <array>

namespace corewire::pingpong {

class raw_source final : public poller {
public:
    static constexpr std::uint64_t window = 512; ///< frames: three quarters of a megabyte, as a TCP window would be

    raw_source(port& through, meter& accounts);

    /// Returns when the meter allows no more and everything has been counted, or given up.
    task<> run();
    /// For the watch: what has not been counted for too long was lost; a run that loses everything is an error.
    void check_progress(time_point now) noexcept;

    bool poll(time_point now) override;
    bool prepare_sleep() override { return port_.prepare_sleep(); }
    void finish_sleep() override { port_.finish_sleep(); }
    int wake_fd() const override { return port_.wake_fd(); }

private:
    static constexpr std::size_t burst = 32;
    void take_in(const buffer& frame, time_point now) noexcept;
    bool send_some() noexcept;
    bool fill() noexcept;

    port& port_;
    meter& meter_;
    message_block message_;
    mac_address sink_ = mac_address::broadcast();
    std::array<packet, burst> received_;
    std::array<packet, burst> outgoing_;
    std::size_t outgoing_first_ = 0, outgoing_count_ = 0;
    std::uint64_t stream_ = 0; ///< which of the sink's streams this is, in the upper bits
    std::uint64_t sent_ = 0;
    std::uint64_t counted_ = 0; ///< as the sink said last
    std::uint64_t lost_ = 0;    ///< given up
    std::uint64_t seen_ = 0;    ///< counted_ when the watch last looked
    time_point last_progress_{};
    bool started_ = false;
    bool over_ = false; ///< the meter allows no more
    event finished_;
};

} // namespace corewire::pingpong
