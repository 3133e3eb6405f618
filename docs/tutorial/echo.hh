// docs/tutorial/echo.hh
#pragma once
#include <corewire/task.hh>
#include <corewire/tcp.hh>
namespace cw = corewire;

namespace tutorial {

inline cw::task<> echo(cw::tcp_stream peer) {
    while (auto data = co_await peer.read())      // empty at end of stream
        co_await peer.write(std::move(data));     // forwarded without a copy
}

} // namespace tutorial
