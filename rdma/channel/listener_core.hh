// What the two kinds of rdma::listener have in common, for them alone: a place where accept() looks.
#pragma once

#include <corewire/rdma/channel/listener.hh>
#include <corewire/reactor/task/event.hh>

#include <optional>

namespace corewire::rdma {

class listener::core {
public:
    virtual ~core() = default;
    /// The oldest that is made, if there is one. Throws why there will be no more.
    virtual std::optional<rc_channel> take() = 0;
    virtual std::uint16_t port() const noexcept = 0;

    event changed;
    listener_statistics counts;
};

std::unique_ptr<listener::core> listen_over(context& in, tcp_listener streams, over_options options); // over_listener.cc

} // namespace corewire::rdma
