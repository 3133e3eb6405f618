// Swallows a one-way stream of raw frames (raw_frame.hh) and says now and then how many there were: the floor under bulk.
//
//     source --- | header | number (8) | ... |  as many as it may ---> sink
//            <-- | header | frames so far (8) | padding |  --------        once for `every` frames, and when no more come
//
// A frame of another stream than the last one's begins a new count. Polled by one shard's reactor, whose port it is. Holds nothing but
// one burst.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/net/wire/address.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <array>
#include <cstddef>
#include <cstdint>

namespace corewire::raw {

class sink final : public poller {
public:
    /// A TCP receiver acknowledges every second segment, or a burst at once; this is between the two.
    static constexpr std::uint64_t every = 16;

    explicit sink(port& through) noexcept : port_(through) {}

    bool poll(time_point now) override;
    bool prepare_sleep() override { return counted_ == told_ && port_.prepare_sleep(); }
    void finish_sleep() override { port_.finish_sleep(); }
    int wake_fd() const override { return port_.wake_fd(); }

    /// Of the stream that came last.
    std::uint64_t counted() const noexcept { return counted_; }

private:
    static constexpr std::size_t burst = 32;
    void count(const buffer& frame) noexcept;
    void tell() noexcept;

    port& port_;
    std::array<packet, burst> packets_;
    mac_address source_{};
    std::uint64_t stream_ = 0;
    std::uint64_t counted_ = 0;
    std::uint64_t told_ = 0;
};

} // namespace corewire::raw
