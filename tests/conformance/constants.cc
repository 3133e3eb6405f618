#include "constants.hh"

#include <corewire/net/posix/linux_tcp_info.hh>

#include <cerrno>
#include <fcntl.h>
#include <linux/tcp.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <map>
#include <netinet/in.h>
#include <poll.h>
#include <sstream>
#include <stdexcept>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace corewire::conformance {

#define NAME(n) {#n, n}

std::int64_t constant(const std::string& text) {
    static const std::map<std::string, std::int64_t> known{
        NAME(AF_INET), NAME(AF_INET6), NAME(SOCK_STREAM), NAME(SOCK_NONBLOCK), NAME(SOCK_DGRAM), NAME(IPPROTO_TCP), NAME(IPPROTO_IP),
        NAME(SOL_SOCKET), {"SOL_TCP", IPPROTO_TCP}, NAME(SOL_IP), NAME(SO_REUSEADDR), NAME(SO_RCVBUF), NAME(SO_SNDBUF), NAME(SO_LINGER),
        NAME(SO_KEEPALIVE), NAME(SO_ERROR), NAME(SO_RCVTIMEO), NAME(SO_RCVLOWAT), NAME(SO_SNDLOWAT), NAME(SO_PEEK_OFF),
        NAME(SO_BINDTODEVICE), {"SO_BINDTOIFINDEX", 62}, NAME(SO_REUSEPORT), NAME(SO_DEBUG), NAME(SO_BSDCOMPAT), NAME(SO_DETACH_FILTER),
        NAME(SO_RXQ_OVFL), NAME(SO_PEERCRED), NAME(SO_PASSSEC), {"SO_CNX_ADVICE", 53}, {"SO_MEMINFO", 55}, {"SO_TIMESTAMP_NEW", 63},
        {"SO_TIMESTAMPNS_NEW", 64}, {"SO_RCVTIMEO_NEW", 66}, {"SO_SNDTIMEO_NEW", 67}, {"SO_BUF_LOCK", 72}, {"SO_PASSPIDFD", 76},
        {"F_DUPFD", 0}, {"F_SETOWN", 8}, {"F_GETOWN", 9}, {"F_SETSIG", 10}, {"F_GETSIG", 11}, {"IPV6_V6ONLY", 26},
        NAME(SO_MAX_PACING_RATE), NAME(TCP_NODELAY), NAME(TCP_CORK),
        NAME(TCP_MAXSEG), NAME(TCP_KEEPIDLE), NAME(TCP_KEEPINTVL), NAME(TCP_KEEPCNT), NAME(TCP_USER_TIMEOUT), NAME(TCP_QUICKACK),
        NAME(TCP_DEFER_ACCEPT), NAME(TCP_INFO), NAME(TCP_NOTSENT_LOWAT), NAME(TCP_SYNCNT), NAME(TCP_LINGER2), NAME(TCP_INQ),
        NAME(TCP_FASTOPEN), NAME(TCP_FASTOPEN_CONNECT), NAME(TCP_FASTOPEN_NO_COOKIE), NAME(MSG_FASTOPEN), NAME(EOPNOTSUPP),
        NAME(SOL_IPV6), NAME(IP_TOS), NAME(IP_TTL), NAME(IP_MTU), NAME(IP_MTU_DISCOVER), NAME(IP_PMTUDISC_OMIT), NAME(IPV6_TCLASS),
        NAME(IPV6_UNICAST_HOPS), NAME(IPV6_MTU), NAME(IPV6_MTU_DISCOVER), NAME(IPV6_PMTUDISC_OMIT), NAME(MSG_ERRQUEUE), NAME(EPERM),
        NAME(TCP_TIMESTAMP), NAME(TCP_SAVE_SYN), NAME(TCP_SAVED_SYN), NAME(TCP_CC_INFO), NAME(TCP_THIN_LINEAR_TIMEOUTS),
        NAME(TCP_CONGESTION), NAME(MSG_EOR), NAME(MSG_ZEROCOPY), NAME(SO_ZEROCOPY), NAME(SO_TIMESTAMPING),
        {"SOF_TIMESTAMPING_TX_SCHED", 1 << 8}, {"SOF_TIMESTAMPING_TX_SOFTWARE", 1 << 1}, {"SOF_TIMESTAMPING_TX_ACK", 1 << 9},
        {"SOF_TIMESTAMPING_SOFTWARE", 1 << 4}, {"SOF_TIMESTAMPING_OPT_ID", 1 << 7}, NAME(IP_RECVERR), NAME(SO_RCVBUFFORCE),
        NAME(SO_SNDBUFFORCE),
        NAME(SO_MARK), NAME(SO_BROADCAST), NAME(IP_RECVTOS), NAME(EACCES), NAME(EPROTO), NAME(EHOSTDOWN), NAME(AF_UNSPEC),
        NAME(SO_PRIORITY), NAME(SO_BUSY_POLL), {"SO_TXTIME", 61}, {"TCP_ULP", 31}, {"TCP_ZEROCOPY_RECEIVE", 35},
        {"EPOLLEXCLUSIVE", 1 << 28},
        {"TCP_TX_DELAY", 37}, NAME(TCP_REPAIR), NAME(TCP_REPAIR_QUEUE), NAME(TCP_QUEUE_SEQ), {"TCP_REPAIR_OPTIONS", 22},
        {"TCP_REPAIR_WINDOW", 29}, NAME(IP_MINTTL), {"IPV6_MINHOPCOUNT", 73}, NAME(IP_PMTUDISC_DONT), NAME(IPV6_RECVERR),
        {"TCP_RTO_MAX_MS", 44}, {"TCP_RTO_MIN_US", 45}, {"TCP_DELACK_MAX_US", 46}, NAME(TCP_WINDOW_CLAMP), NAME(SHUT_RD), NAME(SHUT_WR),
        NAME(SHUT_RDWR), NAME(F_GETFL), NAME(F_SETFL), NAME(O_RDWR),
        NAME(O_NONBLOCK), NAME(MSG_DONTWAIT), NAME(MSG_PEEK), NAME(MSG_WAITALL), NAME(MSG_TRUNC), NAME(MSG_MORE), NAME(MSG_OOB),
        NAME(SIOCINQ), NAME(SIOCATMARK), NAME(SO_OOBINLINE), NAME(SIOCOUTQ), NAME(SIOCOUTQNSD), NAME(POLLPRI), NAME(POLLIN), NAME(POLLOUT),
        NAME(POLLERR), NAME(POLLHUP), NAME(POLLRDHUP),
        NAME(EPOLLIN), NAME(EPOLLOUT), NAME(EPOLLERR), NAME(EPOLLHUP), NAME(EPOLLRDHUP), NAME(EPOLLET), NAME(EPOLLONESHOT),
        NAME(EPOLL_CTL_ADD), NAME(EPOLL_CTL_MOD), NAME(EPOLL_CTL_DEL), NAME(EAGAIN), NAME(EINPROGRESS), NAME(EALREADY), NAME(EISCONN),
        NAME(ENOTCONN), NAME(ECONNREFUSED), NAME(ECONNRESET), NAME(ECONNABORTED), NAME(ETIMEDOUT), NAME(EPIPE), NAME(EINVAL),
        NAME(EADDRINUSE), NAME(EADDRNOTAVAIL), NAME(EHOSTUNREACH), NAME(ENETUNREACH), NAME(EBADF), NAME(ENOPROTOOPT), NAME(ENOTSOCK),
        NAME(EMSGSIZE), NAME(EAFNOSUPPORT), NAME(EFAULT), NAME(ENOENT), NAME(EEXIST), NAME(ESRCH), NAME(POLLRDNORM),
        NAME(POLLWRNORM), NAME(ESOCKTNOSUPPORT), NAME(EPROTONOSUPPORT)};
    std::int64_t sum = 0;
    std::istringstream in(text);
    for (std::string name; std::getline(in, name, '|');) {
        const auto from = name.find_first_not_of(" \t");
        if (from == name.npos) throw std::runtime_error("an empty number");
        name = name.substr(from, name.find_last_not_of(" \t") - from + 1);
        if (const auto found = known.find(name); found != known.end()) {
            sum |= found->second;
        } else {
            std::size_t used = 0;
            const std::int64_t n = std::stoll(name, &used, 0);
            if (used != name.size()) throw std::runtime_error("unknown name " + name);
            sum = in.eof() && sum == 0 ? n : sum | n;
        }
    }
    return sum;
}

#undef NAME

std::int64_t info_field(const linux_tcp_info_fields& i, const std::string& name) {
#define FIELD(n) if (name == #n) return static_cast<std::int64_t>(i.n)
    FIELD(tcpi_state);
    FIELD(tcpi_ca_state);
    FIELD(tcpi_retransmits);
    FIELD(tcpi_backoff);
    FIELD(tcpi_probes);
    FIELD(tcpi_options);
    FIELD(tcpi_rto);
    FIELD(tcpi_snd_mss);
    FIELD(tcpi_rcv_mss);
    FIELD(tcpi_unacked);
    FIELD(tcpi_sacked);
    FIELD(tcpi_lost);
    FIELD(tcpi_retrans);
    FIELD(tcpi_rtt);
    FIELD(tcpi_rttvar);
    FIELD(tcpi_min_rtt);
    FIELD(tcpi_snd_ssthresh);
    FIELD(tcpi_snd_cwnd);
    FIELD(tcpi_reordering);
    FIELD(tcpi_advmss);
    FIELD(tcpi_pmtu);
    FIELD(tcpi_total_retrans);
    FIELD(tcpi_bytes_acked);
    FIELD(tcpi_bytes_received);
    FIELD(tcpi_bytes_sent);
    FIELD(tcpi_bytes_retrans);
    FIELD(tcpi_notsent_bytes);
    FIELD(tcpi_segs_in);
    FIELD(tcpi_segs_out);
    FIELD(tcpi_data_segs_in);
    FIELD(tcpi_data_segs_out);
    FIELD(tcpi_delivered);
    FIELD(tcpi_dsack_dups);
    FIELD(tcpi_reord_seen);
    FIELD(tcpi_rcv_ooopack);
    FIELD(tcpi_last_data_sent);
    FIELD(tcpi_last_data_recv);
    FIELD(tcpi_last_ack_recv);
    FIELD(tcpi_busy_time);
    FIELD(tcpi_rwnd_limited);
    FIELD(tcpi_sndbuf_limited);
    FIELD(tcpi_pacing_rate);
    FIELD(tcpi_max_pacing_rate);
    FIELD(tcpi_ato);
    FIELD(tcpi_delivered_ce);
    FIELD(tcpi_received_ce);
    FIELD(tcpi_delivered_e0_bytes);
    FIELD(tcpi_delivered_e1_bytes);
    FIELD(tcpi_delivered_ce_bytes);
    FIELD(tcpi_received_e0_bytes);
    FIELD(tcpi_received_e1_bytes);
    FIELD(tcpi_received_ce_bytes);
    FIELD(tcpi_ecn_mode);
    FIELD(tcpi_accecn_opt_seen);
    FIELD(tcpi_accecn_fail_mode);
    FIELD(tcpi_rcv_wnd);
    FIELD(tcpi_rcv_rtt);
    FIELD(tcpi_rcv_ssthresh);
    FIELD(tcpi_rcv_space);
    FIELD(tcpi_total_rto);
    FIELD(tcpi_total_rto_recoveries);
    FIELD(tcpi_total_rto_time);
    FIELD(tcpi_rehash);
    FIELD(tcpi_delivery_rate_app_limited);
    FIELD(tcpi_fastopen_client_fail);
#undef FIELD
    throw std::runtime_error("unknown field " + name);
}

} // namespace corewire::conformance
