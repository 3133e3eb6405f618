#include <corewire/net/socket/tcp_listener.hh>

#include <corewire/net/socket/bind_error.hh>

namespace corewire {

tcp_listener tcp_listener::bind(socket_address at, listen_options options) try {
    socket_provider& provider = socket_provider::current();
    require_family("bind ", at, options.ipv6_only);
    options.stream = options.stream.with_least_buffers();
    std::unique_ptr<listener_backend> backend = provider.listen(at, options);
    provider.remember(*backend);
    return tcp_listener{std::move(backend)};
} catch (const std::system_error& error) {
    throw bind_error(error);
}

} // namespace corewire
