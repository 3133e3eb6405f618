// Bounces raw frames (raw_frame.hh) straight from the port, below the stack. Everything else is dropped and counted.
// Polled by one shard's reactor, whose port it is. Holds one burst at most: while the port takes no more, it receives no more.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::raw {

class echo final : public poller {
public:
    explicit echo(port& through) noexcept : port_(through) {}

    bool poll(time_point now) override;
    bool prepare_sleep() override { return held_ == sent_ && port_.prepare_sleep(); }
    void finish_sleep() override { port_.finish_sleep(); }
    int wake_fd() const override { return port_.wake_fd(); }

    std::uint64_t bounced() const noexcept { return bounced_; }
    /// Frames of another EtherType, and frames that could not be copied because the pool was empty.
    std::uint64_t dropped() const noexcept { return dropped_; }

private:
    static constexpr std::size_t burst = 32;
    void receive();
    void send();
    bool turn_round(packet& p) noexcept;

    port& port_;
    std::array<packet, burst> packets_;
    std::size_t held_ = 0; ///< packets_[sent_, held_) wait to be sent
    std::size_t sent_ = 0;
    std::uint64_t bounced_ = 0;
    std::uint64_t dropped_ = 0;
};

} // namespace corewire::raw
