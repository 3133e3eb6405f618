#include <corewire/net/socket/tcp_listener.hh>

namespace corewire {

tcp_listener tcp_listener::bind(socket_address at, listen_options options) {
    socket_provider& provider = socket_provider::current();
    std::unique_ptr<listener_backend> backend = provider.listen(at, options);
    provider.remember(*backend);
    return tcp_listener{std::move(backend)};
}

} // namespace corewire
