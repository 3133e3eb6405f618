// The client of raw::echo: bare frames, connections x pipeline of them in flight, straight through the port. The floor
// under every number that cw-pingpong prints for TCP and UDP on the same port.
// Polled by one shard's reactor. The first frames go to everybody; whoever answers is talked to from then on.
#pragma once

#include <corewire/apps/pingpong/flights.hh>
#include <corewire/apps/pingpong/message.hh>
#include <corewire/apps/pingpong/meter.hh>
#include <corewire/net/port/port.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/event.hh>

#include <array>

namespace corewire::pingpong {

class raw_client final : public poller {
public:
    raw_client(port& through, meter& accounts);

    /// Sends the first frames; run() returns when the meter allows no more and nothing is in flight.
    task<> run();
    /// For the watch: what has been in flight for too long is an error, and another is sent in its place.
    void check_progress(time_point now) noexcept;

    bool poll(time_point now) override;
    bool prepare_sleep() override { return port_.prepare_sleep(); }
    void finish_sleep() override { port_.finish_sleep(); }
    int wake_fd() const override { return port_.wake_fd(); }

private:
    static constexpr std::size_t burst = 32;
    void take_in(const buffer& frame, time_point now) noexcept;
    void send_from(std::uint32_t place, time_point now) noexcept;
    buffer make_frame(std::uint64_t number) noexcept;
    void send_outgoing() noexcept;

    port& port_;
    meter& meter_;
    message_block message_;
    flights flights_;
    mac_address server_ = mac_address::broadcast();
    std::array<packet, burst> received_;
    std::array<packet, burst> outgoing_;
    std::size_t outgoing_count_ = 0;
    event finished_;
};

} // namespace corewire::pingpong
