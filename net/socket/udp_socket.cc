#include <corewire/net/socket/udp_socket.hh>

namespace corewire {

udp_socket udp_socket::bind(socket_address at, udp_options options) {
    return udp_socket{socket_provider::current().bind_udp(at, options)};
}

udp_socket udp_socket::connect(socket_address to, udp_options options) {
    udp_socket socket = bind({ipv4::any(), 0}, options);
    const std::errc why = socket.backend_->connect(to);
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "connect " + to.to_string());
    return socket;
}

} // namespace corewire
