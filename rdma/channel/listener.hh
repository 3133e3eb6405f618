// rdma::listener: takes in connections, by rdma_cm at an address and port, or over the streams of a TCP listener of ours.
// rdma::connector: makes them, by rdma_cm; over a stream: connect_over() (over_stream.hh). All belong to the shard of their context.
//
//     request, or introduction --> listener: a peer of ours? room in the backlog? --> rc_connection --established--> accept()
//
// Bound: rc_options::accept_backlog connections that are half made or wait for accept(); what is beyond is rejected. What
// a peer sends with its request is checked before anything is made for it. Counted: statistics().
#pragma once

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/rdma/channel/over_stream.hh>
#include <corewire/rdma/channel/rc_channel.hh>

#include <memory>
#include <vector>

namespace corewire::rdma {

struct listener_statistics {
    std::uint64_t accepted = 0;
    std::uint64_t rejected_foreign = 0; ///< the request was no peer's of ours
    std::uint64_t rejected_full = 0;    ///< the backlog was
    std::uint64_t rejected_for_want = 0; ///< of memory, or of room on the device
    std::uint64_t died_early = 0;       ///< ended before accept() took them
};

class listener {
public:
    /// Address 0.0.0.0: every device. Port 0: any. Throws std::system_error with a sentence: EADDRINUSE, EADDRNOTAVAIL, ENODEV.
    static listener bind(context& in, socket_address at, rc_options options = {});
    /// Without rdma_cm: each stream that `streams` accepts becomes a channel, several at a time.
    static listener over(context& in, tcp_listener streams, over_options options = {});
    listener(listener&&) noexcept;
    listener& operator=(listener&&) noexcept;
    ~listener(); ///< what waits for accept() is ended

    /// The next connection. Throws ETIMEDOUT or ECANCELED by its limits, ENODEV when the device of its address has gone; over streams also
    /// what the TCP listener ended with, and once what kept it from accepting (EMFILE, ENOBUFS, ENOMEM): the next call tries again.
    task<rc_channel> accept(wait_limits limits = {});
    std::uint16_t port() const noexcept;
    const listener_statistics& statistics() const noexcept;

    class core; ///< what both kinds have in common (listener_core.hh)

private:
    explicit listener(std::unique_ptr<core> c) noexcept;
    std::unique_ptr<core> core_;
};

class connector {
public:
    explicit connector(context& in, rc_options options = {}) noexcept : context_(in), options_(options) {}
    /// `from`: the address of ours to use (its port 0: any), and by it the device; unspecified: as routes have it. Throws
    /// std::system_error: ECONNREFUSED, EHOSTUNREACH, ETIMEDOUT, EPROTO (no peer of ours), ENODEV, ECANCELED.
    task<rc_channel> connect(socket_address to, wait_limits limits = {}, socket_address from = {});

private:
    context& context_;
    rc_options options_;
};

} // namespace corewire::rdma
