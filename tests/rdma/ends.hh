// How waits on what stands on an RDMA device end, and options with which they end soon.
#pragma once

#include <corewire/rdma/channel/ud_socket.hh>

#include "tests/rdma/channel_world.hh"

namespace corewire::test {

/// Of a host whose device goes no peer hears anything: it asks.
inline rdma::rc_options soon() {
    rdma::rc_options o;
    o.silence = std::chrono::milliseconds{300};
    return o;
}

inline task<std::errc> end_of(rdma::rc_channel& on) {
    const std::errc how = co_await failure_of(on.receive());
    co_return how;
}

inline task<std::errc> end_of(rdma::ud_socket& on) {
    const std::errc how = co_await failure_of(on.receive_from());
    co_return how;
}

inline task<std::errc> end_of(rdma::listener& on) {
    const std::errc how = co_await failure_of(on.accept());
    co_return how;
}

} // namespace corewire::test
