// stream_socket for those who expect FreeBSD: what poll() tells, and options of which it has other ideas.
#include <corewire/net/posix/parts.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <algorithm>
#include <limits>
#include <netinet/tcp.h>
#include <poll.h>

namespace corewire::posix {

namespace {

constexpr int least_segment = 216;                ///< net.inet.tcp.minmss
constexpr unsigned most_seconds = ~0u / 1000;     ///< what fits into its ticks, of which a second has a thousand (UINT_MAX / hz)
constexpr int idle_first = 7200, interval_first = 75, probes_first = 8;

} // namespace

/// As sopoll_generic() tells it: there is no POLLERR, an error is something to read and to write, and nothing is said of what has never
/// been connected.
unsigned stream_socket::freebsd_events() const {
    constexpr unsigned reads = POLLIN | POLLRDNORM, writes = POLLOUT | POLLWRNORM;
    unsigned e = peek_error() != std::errc{} ? reads | writes : 0;
    const tcp_connection* const c = connection();
    if (c == nullptr) return e;
    const tcp::tcb& t = c->tcb;
    const bool over = t.state() == tcp::tcp_state::closed || t.state() == tcp::tcp_state::time_wait;
    const bool reading_over = over || reading_shut_ || tcp::at_or_after_fin(t.state());
    const bool writing_over = over || writing_shut_;
    if (reading_over && writing_over) e |= POLLHUP;
    if (reading_over) e |= reads | POLLRDHUP;
    if (writing_over) e |= writes;
    if (in_handshake()) return e;
    if (t.readable() >= settings_.receive_low_water + skips_mark(*c)) e |= reads;
    if (t.urgent_ahead() != 0) e |= POLLPRI | POLLRDBAND; // as soon as it is announced, until it is read past
    if (may_write()) e |= writes;
    return e;
}

bool stream_socket::freebsd_closed() const {
    const tcp_connection* const c = connection();
    return settings_.like_freebsd && c != nullptr && c->tcb.state() == tcp::tcp_state::closed;
}

/// t_maxseg, which is the handshake's to say: before it is what every host takes.
int stream_socket::freebsd_segment() const {
    const tcp_connection* const c = connection();
    if (c != nullptr && !in_handshake()) return static_cast<int>(c->tcb.packet_size() - 40);
    if (settings_.max_segment != 0) return static_cast<int>(settings_.max_segment);
    return family_ == AF_INET6 ? 1220 : 536;
}

/// tcp_usr_send()'s implied connect.
outcome stream_socket::connect_by_sending(const socket_address& to, std::span<const iovec> from) {
    if (listener_ != nullptr) return -ENOTCONN;
    if (writing_shut_) return -EPIPE;
    if (connection_ == nullptr) {
        if (const outcome r = begin_to_connect(to, false); r != -EINPROGRESS) return r;
    }
    tcp_connection& c = *connection();
    const std::uint64_t most = std::min<std::uint64_t>(c.tcb.writable(), reachable_size(from));
    const std::uint64_t taken = write_at_once(from, most);
    stack_.tcp().mark_dirty(c);
    return taken != 0 ? static_cast<outcome>(taken) : -EAGAIN;
}

/// Nothing: the option is as everywhere.
std::optional<outcome> stream_socket::set_freebsd_option(int name, int n) {
    stream_settings& s = settings_;
    const auto number = static_cast<unsigned>(n);
    switch (name) {
    case TCP_MAXSEG:
        if (n > freebsd_segment() || n <= 0 || n + 40 < least_segment) return -EINVAL;
        if (tcp_connection* const c = connection(); c != nullptr && !in_handshake()) c->tcb.limit_segments(static_cast<std::uint16_t>(n));
        else s.max_segment = number;
        return 0;
    case TCP_KEEPIDLE:
        if (number > most_seconds) return -EINVAL;
        s.keepalive_idle = n != 0 ? n : idle_first;
        return 0;
    case TCP_KEEPINTVL:
        if (number > most_seconds) return -EINVAL;
        s.keepalive_interval = n != 0 ? n : interval_first;
        break;
    case TCP_KEEPCNT: s.keepalive_probes = n != 0 ? n : probes_first; break;
    default: return std::nullopt;
    }
    const std::uint64_t patience = std::uint64_t{static_cast<unsigned>(s.keepalive_probes)} * static_cast<unsigned>(s.keepalive_interval);
    s.fin_wait_2 = static_cast<int>(std::min<std::uint64_t>(patience, std::numeric_limits<int>::max()));
    return 0;
}

} // namespace corewire::posix
