#include <corewire/net/socket/tcp_listener.hh>

namespace corewire {

tcp_listener tcp_listener::bind(socket_address at, listen_options options) {
    return tcp_listener{socket_provider::current().listen(at, options)};
}

} // namespace corewire
