#include <corewire/net/stack/connection_row.hh>

namespace corewire {

namespace {

constexpr std::uint64_t recovering = 1, sack = 2, timestamps = 4;

std::uint64_t ns(duration d) noexcept { return static_cast<std::uint64_t>(d.count()); }
duration from(std::uint64_t ns) noexcept { return duration{static_cast<std::int64_t>(ns & INT64_MAX)}; }
net_address from_words(std::uint64_t high, std::uint64_t low) noexcept {
    std::byte octets[16];
    store_be64(octets, high);
    store_be64(octets + 8, low);
    return ipv6::load(octets);
}
std::uint32_t low(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value); }

} // namespace

connection_row::fields connection_row::pack() const noexcept {
    const tcp::connection_info& i = info;
    return {name.local.high(),
            name.local.low(),
            name.remote.high(),
            name.remote.low(),
            std::uint64_t{name.local_port} << 16 | name.remote_port,
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
    if (f[5] >= static_cast<std::uint64_t>(tcp::tcp_state_count) || f[4] > UINT32_MAX) return false;
    out.name = {from_words(f[0], f[1]), from_words(f[2], f[3]), static_cast<std::uint16_t>(f[4] >> 16),
                static_cast<std::uint16_t>(f[4])};
    tcp::connection_info& i = out.info;
    i = {};
    i.state = static_cast<tcp::tcp_state>(f[5]);
    i.cwnd = low(f[6]);
    i.ssthresh = low(f[7]);
    i.srtt = from(f[8]);
    i.rttvar = from(f[9]);
    i.rto = from(f[10]);
    i.backoff = low(f[11]);
    i.in_flight = low(f[12]);
    i.unsent = low(f[13]);
    i.unacknowledged = low(f[14]);
    i.unread = low(f[15]);
    i.out_of_order = low(f[16]);
    i.send_window = low(f[17]);
    i.receive_window = low(f[18]);
    i.segment_payload = low(f[19]);
    i.bytes_received = f[20];
    i.recovering = (f[22] & recovering) != 0;
    i.sack = (f[22] & sack) != 0;
    i.timestamps = (f[22] & timestamps) != 0;
    out.retransmitted = f[21];
    return true;
}

} // namespace corewire
