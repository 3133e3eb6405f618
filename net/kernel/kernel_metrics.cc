#include <corewire/net/kernel/kernel_metrics.hh>

#include <corewire/net/kernel/kernel_connection.hh>
#include <corewire/net/kernel/kernel_provider.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/stack/connection_row.hh>

#include <algorithm>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace corewire {

namespace {

void register_traffic(metric_group& group, const char* transport, const kernel_traffic& t) {
    const std::string label = metric_label("transport", transport);
    group.counter("corewire_kernel_received_bytes_total", "Bytes received by sockets of the kernel.", t.received_bytes, label);
    group.counter("corewire_kernel_receives_total", "Pieces of a stream, or datagrams, received by sockets of the kernel.", t.receives,
                  label);
    group.counter("corewire_kernel_sent_bytes_total", "Bytes that the kernel took for sending.", t.sent_bytes, label);
    group.counter("corewire_kernel_sends_total", "Sends that the kernel took something of.", t.sends, label);
    group.counter("corewire_kernel_send_waits_total", "Sends that found the kernel's buffer full.", t.send_waits, label);
}

void register_buffers(metric_group& group, const char* kind, const receive_buffers& buffers) {
    const std::string label = metric_label("kind", kind);
    group.gauge("corewire_kernel_receive_buffers", "Buffers that the kernel receives into, those in use included.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const receive_buffers*>(of)->made(); }, &buffers, label);
    group.gauge("corewire_kernel_receive_buffers_lent", "Receive buffers that the program holds.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const receive_buffers*>(of)->lent(); }, &buffers, label);
    group.counter("corewire_kernel_receive_buffers_exhausted_total", "Receivers that waited because no buffer was left.",
                  [](const void* of) noexcept { return static_cast<const receive_buffers*>(of)->starvations(); }, &buffers, label);
}

/// The kernel's number of a state (include/net/tcp_states.h).
tcp::tcp_state state_of(unsigned number) noexcept {
    using enum tcp::tcp_state;
    constexpr std::array<tcp::tcp_state, 13> states{closed,    established, syn_sent, syn_received, fin_wait_1, fin_wait_2, time_wait,
                                                    closed,    close_wait,  last_ack, listen,       closing,    syn_received};
    return number < states.size() ? states[number] : closed;
}

std::uint32_t clamped(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, UINT32_MAX)); }

duration us(std::uint32_t value) noexcept { return std::chrono::microseconds{value}; }

std::uint32_t asked(int fd, unsigned long what) noexcept {
    int bytes = 0;
    return ::ioctl(fd, what, &bytes) == 0 && bytes > 0 ? static_cast<std::uint32_t>(bytes) : 0;
}

/// A connection of the kernel's as a row of ours; sizes in bytes, which the kernel counts in segments.
connection_row row_of(const kernel_connection& c, const ::tcp_info& info) noexcept {
    connection_row row;
    const socket_address local = local_address_of(c.fd());
    const socket_address& peer = c.peer();
    row.name = {local.net(), peer.net(), local.port, peer.port};
    tcp::connection_info& i = row.info;
    i.state = state_of(info.tcpi_state);
    i.srtt = us(info.tcpi_rtt);
    i.rttvar = us(info.tcpi_rttvar);
    i.rto = us(info.tcpi_rto);
    i.backoff = info.tcpi_backoff;
    i.segment_payload = info.tcpi_snd_mss;
    i.cwnd = clamped(std::uint64_t{info.tcpi_snd_cwnd} * info.tcpi_snd_mss);
    i.ssthresh = clamped(std::uint64_t{info.tcpi_snd_ssthresh} * info.tcpi_snd_mss);
    i.in_flight = clamped(std::uint64_t{info.tcpi_unacked} * info.tcpi_snd_mss);
    i.unsent = clamped(std::uint64_t{info.tcpi_notsent_bytes} + c.unsent());
    i.unacknowledged = asked(c.fd(), SIOCOUTQ); // what was not sent yet included (tcp(7))
    i.unacknowledged -= std::min(i.unacknowledged, info.tcpi_notsent_bytes);
    i.unread = asked(c.fd(), SIOCINQ) + c.unread();
    i.send_window = info.tcpi_snd_wnd;
    i.receive_window = info.tcpi_rcv_space;
    i.bytes_received = info.tcpi_bytes_received;
    i.sack = (info.tcpi_options & TCPI_OPT_SACK) != 0;
    i.timestamps = (info.tcpi_options & TCPI_OPT_TIMESTAMPS) != 0;
    i.recovering = info.tcpi_ca_state >= TCP_CA_Recovery;
    row.retransmitted = info.tcpi_total_retrans;
    return row;
}

} // namespace

void register_kernel_metrics(metric_group& group, const kernel_provider& provider) {
    const kernel_statistics& s = provider.statistics();
    register_traffic(group, "tcp", s.tcp);
    register_traffic(group, "udp", s.udp);
    register_buffers(group, "stream", provider.stream_buffers());
    group.counter("corewire_kernel_connections_opened_total", "Connections opened, by who began.", s.connected, metric_label("by", "us"));
    group.counter("corewire_kernel_connections_opened_total", "Connections opened, by who began.", s.accepted, metric_label("by", "peer"));
    group.counter("corewire_kernel_connections_closed_total", "Connections that nobody holds any more.", s.closed);
    const char* const died = "Connections that failed once they were open, by why.";
    group.counter("corewire_kernel_connections_failed_total", died, s.died_by_reset, metric_label("why", "reset"));
    group.counter("corewire_kernel_connections_failed_total", died, s.died_by_time_out, metric_label("why", "timed_out"));
    group.counter("corewire_kernel_connections_failed_total", died, s.died_otherwise, metric_label("why", "other"));
    group.counter("corewire_kernel_connects_failed_total", "Connections that could not be opened.", s.connects_failed);
    group.counter("corewire_kernel_accepts_failed_total", "Accepts that failed for want of descriptors or memory.", s.accepts_failed);
    group.counter("corewire_kernel_datagrams_refused_total", "Datagrams that the kernel did not take.", s.datagrams_refused);
    group.counter("corewire_kernel_datagram_errors_total", "Errors that the network reported about datagrams.", s.datagram_errors);
}

void kernel_census::register_metrics(metric_group& group) {
    for (int s = 0; s < tcp::tcp_state_count; ++s)
        if (static_cast<tcp::tcp_state>(s) != tcp::tcp_state::listen)
            group.gauge("corewire_tcp_connections", "TCP connections by state.", states_[static_cast<std::size_t>(s)],
                        metric_label("state", tcp::name_of(static_cast<tcp::tcp_state>(s))));
    group.histogram("corewire_tcp_rtt_seconds", "Smoothed round-trip times of open connections, each taken once a publication.",
                    round_trips_);
}

tcp::tcp_state kernel_census::look_at(kernel_connection& c, metric_registry& registry) noexcept {
    ::tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(c.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return c.presumed_state();
    const connection_row row = row_of(c, info);
    if (row.info.state == tcp::tcp_state::established && info.tcpi_rtt != 0)
        round_trips_.record(static_cast<std::uint64_t>(row.info.srtt.count()));
    registry.add_row(row.pack());
    return row.info.state;
}

bool kernel_census::collect(metric_registry& registry, bool first) noexcept {
    if (first) {
        next_ = 0;
        states_so_far_ = {};
    }
    const auto& all = provider_.connections();
    std::size_t asked_now = 0;
    for (std::size_t n = 0; n < counted_a_slice && asked_now < asked_a_slice && next_ < all.size(); ++n, ++next_) {
        kernel_connection& c = *all[next_];
        tcp::tcp_state state = c.presumed_state();
        if (registry.rows_full()) {
            registry.count_row();
        } else {
            ++asked_now;
            state = look_at(c, registry);
        }
        ++states_so_far_[static_cast<std::size_t>(state)];
    }
    if (next_ < all.size()) return true;
    states_ = states_so_far_;
    return false;
}

} // namespace corewire
