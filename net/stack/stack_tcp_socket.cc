#include <corewire/net/stack/stack_sockets.hh>

#include <corewire/net/stack/tcp_layer.hh>

namespace corewire {

stack_tcp_socket::~stack_tcp_socket() { connection_.layer().let_go(connection_); }

void stack_tcp_socket::set_options(const tcp_options_set& options) {
    tcp::tcb& tcb = connection_.tcb;
    tcb.set_no_delay(options.no_delay);
    tcb.set_buffers(options.receive_buffer, options.send_buffer);
    tcb.set_keepalive(connection_.layer().now(), options.keepalive, options.keepalive_idle, options.keepalive_interval,
                      options.keepalive_probes);
    connection_.layer().mark_dirty(connection_); // Nagle may have held something back; the timer may have moved
}

tcp_options_set stack_tcp_socket::options() const {
    const tcp::parameters& p = connection_.tcb.options();
    tcp_options_set out;
    out.no_delay = p.no_delay;
    out.receive_buffer = p.receive_buffer;
    out.send_buffer = p.send_buffer;
    out.keepalive = p.keepalive;
    out.keepalive_idle = p.keepalive_idle;
    out.keepalive_interval = p.keepalive_interval;
    out.keepalive_probes = p.keepalive_probes;
    return out;
}

bool stack_tcp_socket::readable() const noexcept {
    return connection_.tcb.readable() != 0 || connection_.tcb.at_end() || connection_.tcb.error() != std::errc{};
}

bool stack_tcp_socket::writable() const noexcept { return connection_.room() != 0; }

} // namespace corewire
