#include <corewire/net/stack/connection_row.hh>

namespace corewire {

namespace {

constexpr std::uint64_t recovering = 1, sack = 2, timestamps = 4;

std::uint64_t ns(duration d) noexcept { return static_cast<std::uint64_t>(d.count()); }
duration from(std::uint64_t ns) noexcept { return duration{static_cast<std::int64_t>(ns & INT64_MAX)}; }
std::uint32_t low(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value); }

} // namespace

connection_row::fields connection_row::pack() const noexcept {
    const tcp::connection_info& i = info;
    return {std::uint64_t{key.local_address} << 32 | key.remote_address,
            std::uint64_t{key.local_port} << 16 | key.remote_port,
            static_cast<std::uint64_t>(i.state),
            i.cwnd,
            i.ssthresh,
            ns(i.srtt),
            ns(i.rttvar),
            ns(i.rto),
            i.backoff,
            i.in_flight,
            i.unsent,
            i.unacknowledged,
            i.unread,
            i.out_of_order,
            i.send_window,
            i.receive_window,
            i.segment_payload,
            i.bytes_received,
            retransmitted,
            (i.recovering ? recovering : 0) | (i.sack ? sack : 0) | (i.timestamps ? timestamps : 0)};
}

bool connection_row::unpack(const fields& f, connection_row& out) noexcept {
    if (f[2] >= static_cast<std::uint64_t>(tcp::tcp_state_count) || f[1] > UINT32_MAX) return false;
    out.key = {low(f[0] >> 32), low(f[0]), static_cast<std::uint16_t>(f[1] >> 16), static_cast<std::uint16_t>(f[1])};
    tcp::connection_info& i = out.info;
    i = {};
    i.state = static_cast<tcp::tcp_state>(f[2]);
    i.cwnd = low(f[3]);
    i.ssthresh = low(f[4]);
    i.srtt = from(f[5]);
    i.rttvar = from(f[6]);
    i.rto = from(f[7]);
    i.backoff = low(f[8]);
    i.in_flight = low(f[9]);
    i.unsent = low(f[10]);
    i.unacknowledged = low(f[11]);
    i.unread = low(f[12]);
    i.out_of_order = low(f[13]);
    i.send_window = low(f[14]);
    i.receive_window = low(f[15]);
    i.segment_payload = low(f[16]);
    i.bytes_received = f[17];
    i.recovering = (f[19] & recovering) != 0;
    i.sack = (f[19] & sack) != 0;
    i.timestamps = (f[19] & timestamps) != 0;
    out.retransmitted = f[18];
    return true;
}

} // namespace corewire
