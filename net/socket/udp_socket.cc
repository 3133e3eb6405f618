#include <corewire/net/socket/udp_socket.hh>

#include <corewire/net/socket/bind_error.hh>

namespace corewire {

udp_socket udp_socket::bind(socket_address at, udp_options options) try {
    return udp_socket{socket_provider::current().bind_udp(at, options)};
} catch (const std::system_error& error) {
    throw bind_error(error);
}

udp_socket udp_socket::connect(socket_address to, udp_options options) {
    const net_address any = to.is_v4() ? net_address(ipv4::any()) : net_address(ipv6::any());
    udp_socket socket{socket_provider::current().bind_udp({any, 0}, options)};
    const std::errc why = socket.backend_->connect(to);
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "connect " + to.to_string());
    return socket;
}

} // namespace corewire
