#include <corewire/apps/echo/udp_echo.hh>

#include <corewire/apps/echo/sockperf.hh>

#include <cstring>

namespace corewire::echo {

namespace {

/// Turns a request into its reply. False: nothing is to be sent.
bool answer_sockperf(udp_socket& socket, buffer& data) {
    if (!sockperf::is_request(data.bytes())) return false;
    if (!data.exclusive()) {
        buffer copy = socket.allocate(data.size());
        if (copy.tailroom() < data.size()) return false;
        std::memcpy(copy.append(data.size()), data.data(), data.size());
        data = std::move(copy);
    }
    sockperf::make_reply(data.mutable_data());
    return true;
}

} // namespace

task<> serve_datagrams(udp_socket& socket, udp_format format) {
    for (;;) {
        try {
            datagram request = co_await socket.receive_from();
            if (format == udp_format::sockperf && !answer_sockperf(socket, request.data)) continue;
            const datagram_options from_where_it_came{.from = request.to}; // another source is no answer to its peer
            co_await socket.send_to(std::move(request.data), request.from, from_where_it_came);
        } catch (const std::system_error& e) {
            // A reply that cannot go is lost, as on any network; only a closed socket ends the service.
            if (e.code() == std::errc::operation_canceled || e.code() == std::errc::bad_file_descriptor) co_return;
        }
    }
}

} // namespace corewire::echo
