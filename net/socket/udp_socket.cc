#include <corewire/net/socket/udp_socket.hh>

#include <corewire/net/socket/bind_error.hh>

namespace corewire {

udp_socket udp_socket::bind(socket_address at, udp_options options) try {
    return udp_socket{socket_provider::current().bind_udp(at, options)};
} catch (const std::system_error& error) {
    throw bind_error(error);
}

namespace {

void check(std::errc why, const char* what, const net_address& group) {
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), what + to_string(group));
}

} // namespace

void udp_socket::join(const net_address& group, const net_address& on) {
    check(existing(backend_, "the socket").join(group, on), "join ", group);
}

void udp_socket::leave(const net_address& group, const net_address& on) {
    check(existing(backend_, "the socket").leave(group, on), "leave ", group);
}

void udp_socket::set_multicast(const multicast_options& how) {
    check(existing(backend_, "the socket").set_multicast(how), "multicast on the interface of ", how.on);
}

udp_socket udp_socket::connect(socket_address to, udp_options options) {
    const net_address any = to.is_v4() ? net_address(ipv4::any()) : net_address(ipv6::any());
    udp_socket socket{socket_provider::current().bind_udp({any, 0}, options)};
    const std::errc why = socket.backend_->connect(to);
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "connect " + to.to_string());
    return socket;
}

} // namespace corewire
