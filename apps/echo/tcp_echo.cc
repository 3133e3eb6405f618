#include <corewire/apps/echo/tcp_echo.hh>

#include <corewire/apps/echo/sockperf.hh>
#include <corewire/net/socket/accept_each.hh>
#include <corewire/reactor/task/task_group.hh>

#include <array>
#include <cstring>

namespace corewire::echo {

task<> serve(tcp_stream peer) {
    while (auto data = co_await peer.read())     // a view of the NIC's own buffer; empty at end of stream
        co_await peer.write(std::move(data));    // forwarded without a copy
}

task<> serve_discard(tcp_stream peer) {
    std::uint64_t received = 0;
    while (const auto data = co_await peer.read()) received += data.size();
    std::array<std::byte, sizeof received> tally;
    store_be64(tally.data(), received);
    co_await peer.write(byte_span{tally});
}

namespace {

/// Bytes we may write to: the received ones, or a copy when they are only lent to us.
buffer writable(tcp_stream& peer, buffer data) {
    if (data.exclusive()) return data;
    buffer copy = peer.allocate(data.size());
    if (copy.tailroom() < data.size())
        throw std::system_error(std::make_error_code(std::errc::no_buffer_space), "sockperf reply");
    std::memcpy(copy.append(data.size()), data.data(), data.size());
    return copy;
}

} // namespace

task<> serve_sockperf(tcp_stream peer) {
    sockperf::framer messages;
    while (auto received = co_await peer.read()) {
        buffer data = writable(peer, std::move(received));
        while (data) {
            const auto run = messages.next(data.mutable_bytes());
            const auto size = static_cast<std::uint32_t>(run.size);
            if (run.what == sockperf::framer::verdict::malformed) co_return peer.abort();
            if (run.what == sockperf::framer::verdict::held_header) co_await peer.write(messages.held_header());
            if (run.what == sockperf::framer::verdict::reply) co_await peer.write(data.share(0, size));
            data.remove_prefix(size);
        }
    }
}

namespace {

/// What the peer does to its connection is no failure of ours.
task<> until_reset(task<> session) {
    try {
        co_await session;
    } catch (const std::system_error&) {
    }
}

} // namespace

task<> accept_all(tcp_listener& listener, server serve_one, stop_token stop) {
    return accept_each(listener, std::move(stop),
                       [serve_one = std::move(serve_one)](tcp_stream peer) { spawn(until_reset(serve_one(std::move(peer)))); });
}

} // namespace corewire::echo
