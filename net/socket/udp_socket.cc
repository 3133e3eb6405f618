#include <corewire/net/socket/udp_socket.hh>

#include <corewire/net/socket/bind_error.hh>

namespace corewire {

udp_socket udp_socket::bind(socket_address at, udp_options options) try {
    require_family("bind ", at, options.ipv6_only);
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

void udp_socket::set_datagram_size(datagram_size how) {
    const std::errc why = existing(backend_, "the socket").set_datagram_size(how);
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "the size of datagrams");
}

std::uint32_t udp_socket::path_mtu() const {
    const std::uint32_t bytes = existing(backend_, "the socket").path_mtu();
    if (bytes == 0) throw std::system_error(std::make_error_code(std::errc::not_connected), "the path's MTU");
    return bytes;
}

udp_socket udp_socket::connect(socket_address to, udp_options options) {
    const net_address any = to.is_v4() ? net_address(ipv4::any()) : net_address(ipv6::any());
    require_family("connect ", to, options.ipv6_only);
    udp_socket socket{socket_provider::current().bind_udp({any, 0}, options)};
    const std::errc why = socket.backend_->connect(to);
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "connect " + to.to_string());
    return socket;
}

} // namespace corewire
