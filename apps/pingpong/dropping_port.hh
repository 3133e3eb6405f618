// A port that loses every n-th frame it is given to send: what --drop-every puts round the client's end of a wire.
// Owned by the stack above it, like the port inside; the frames it loses are counted as transmit_dropped.
#pragma once

#include <corewire/net/port/port.hh>

#include <memory>

namespace corewire::pingpong {

class dropping_port final : public port {
public:
    /// `every` >= 1: of each run of `every` frames, the last one is lost.
    dropping_port(std::unique_ptr<port> inner, std::uint32_t every);

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    bool prepare_sleep() override { return inner_->prepare_sleep(); }
    void finish_sleep() override { inner_->finish_sleep(); }
    int wake_fd() const override { return inner_->wake_fd(); }

private:
    void update_statistics() noexcept;

    std::unique_ptr<port> inner_;
    std::uint32_t every_;
    std::uint32_t until_drop_; ///< frames, the lost one included
    std::uint64_t dropped_ = 0;
};

} // namespace corewire::pingpong
