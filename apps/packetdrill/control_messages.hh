// What sendmsg() and recvmsg() carry beside bytes (cmsg(3)), as Linux reads and writes it. Plain functions over hostile memory.
#pragma once

#include <corewire/net/posix/outcome.hh>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <linux/net_tstamp.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace corewire::packetdrill {

using posix::outcome;

/// Control messages of a msghdr, one after another, as far as there is room.
class control_writer {
public:
    explicit control_writer(msghdr& m) noexcept
        : message_(m), room_(m.msg_control == nullptr ? 0 : m.msg_controllen), at_(static_cast<char*>(m.msg_control)) {
        m.msg_controllen = 0;
    }
    template <typename Value>
    void put(int level, int type, const Value& value) noexcept {
        if (room_ < CMSG_LEN(sizeof value)) message_.msg_flags |= MSG_CTRUNC;
        cmsghdr head{};
        if (room_ < sizeof head) return;
        head.cmsg_level = level;
        head.cmsg_type = type;
        head.cmsg_len = std::min<std::size_t>(CMSG_LEN(sizeof value), room_); // of what is too long the beginning (put_cmsg())
        std::memcpy(at_, &head, sizeof head);
        std::memcpy(at_ + CMSG_LEN(0), &value, head.cmsg_len - CMSG_LEN(0));
        const std::size_t used = std::min<std::size_t>(CMSG_SPACE(sizeof value), room_);
        at_ += used;
        room_ -= used;
        message_.msg_controllen += used;
    }

private:
    msghdr& message_;
    std::size_t room_;
    char* at_;
};

/// What is looked at as a msghdr is taken over (copy_msghdr_from_user()).
inline outcome refuse(const msghdr* m, int flags) noexcept {
    constexpr unsigned of_32_bits = 0x8000'0000; // MSG_CMSG_COMPAT
    if ((static_cast<unsigned>(flags) & of_32_bits) != 0) return -EINVAL;
    if (m == nullptr) return -EFAULT;
    if (m->msg_name != nullptr && static_cast<std::int32_t>(m->msg_namelen) < 0) return -EINVAL;
    if (m->msg_iovlen > UIO_MAXIOV) return -EMSGSIZE;
    return m->msg_iov == nullptr && m->msg_iovlen != 0 ? -EFAULT : 0;
}

/// What a write's control messages ask for (sock_cmsg_send()): `stamps` as stream_socket::send() has it. False: there is no such thing.
/// `timed`: SO_TXTIME was set.
inline bool read_control(const msghdr& m, int& stamps, bool timed) noexcept {
    constexpr int so_timestamping_new = 65, scm_transmit_time = 61;
    constexpr unsigned allowed = SOF_TIMESTAMPING_TX_HARDWARE | SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_TX_SCHED |
                                 SOF_TIMESTAMPING_TX_ACK | 1u << 18; // SOF_TIMESTAMPING_TX_COMPLETION
    if (m.msg_control == nullptr) return true;
    const auto* const bytes = static_cast<const char*>(m.msg_control);
    for (std::size_t at = 0; m.msg_controllen - at >= sizeof(cmsghdr);) {
        cmsghdr head;
        std::memcpy(&head, bytes + at, sizeof head);
        if (head.cmsg_len < sizeof head || head.cmsg_len > m.msg_controllen - at) return false;
        if (head.cmsg_level == SOL_SOCKET) {
            switch (head.cmsg_type) {
            case SO_TIMESTAMPING:
            case so_timestamping_new: {
                std::uint32_t asked = 0;
                if (head.cmsg_len != CMSG_LEN(sizeof asked)) return false;
                std::memcpy(&asked, bytes + at + CMSG_LEN(0), sizeof asked);
                if ((asked & ~allowed) != 0) return false;
                stamps = static_cast<int>(asked);
                break;
            }
            case SO_MARK:
            case SO_PRIORITY:
                if (head.cmsg_len != CMSG_LEN(sizeof(std::uint32_t))) return false;
                break;
            case scm_transmit_time:
                if (!timed || head.cmsg_len != CMSG_LEN(sizeof(std::uint64_t))) return false;
                break;
            case SCM_RIGHTS: // of AF_UNIX
            case SCM_CREDENTIALS: break;
            default: return false;
            }
        }
        at += std::min<std::size_t>(CMSG_ALIGN(head.cmsg_len), m.msg_controllen - at);
    }
    return true;
}

} // namespace corewire::packetdrill
