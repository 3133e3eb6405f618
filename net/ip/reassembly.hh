// Puts fragmented datagrams of IPv4 (RFC 791 3.2) and IPv6 (RFC 8200 4.5) together: RFC 815's idea with a bitmap in place of
// hole descriptors.
//
//     fragment --add()--> copied to its place in a 64 KiB frame --> all bytes there: one contiguous datagram, header first
//
// One interface's, on one shard. Sans-I/O: expire() at next_timeout(). Bounded: datagrams (the oldest makes room),
// frames of the pool, 30 s each. Every fragment costs a bounded amount of work, however small it is: nothing is
// kept per fragment.
// A mark of congestion on any fragment is the datagram's (RFC 3168 5.3).
// Overlaps: a fragment that changes or extends bytes received before kills its datagram (RFC 5722 4, for IPv4 as
// well); one whose bytes are all there already, with the same content, is a harmless duplicate. Of IPv6, what comes of that datagram
// afterwards dies too: its name is remembered until its time is over.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/ipv6_extensions.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

namespace corewire {

struct reassembly_options {
    std::uint16_t max_datagrams = 64;
    /// RFC 1122 3.3.2 (SHOULD) wants 60 to 120 s; 30 s is what Linux does, and bounds what an attacker can hold.
    duration timeout = std::chrono::seconds{30};
};

struct reassembly_statistics {
    std::uint64_t fragments = 0, completed = 0;
    std::uint64_t timed_out = 0;     ///< datagrams
    std::uint64_t evicted = 0;       ///< datagrams that made room for a newer one
    std::uint64_t no_frame = 0;      ///< fragments dropped: every frame of the pool is held by a reader
    std::uint64_t duplicates = 0;    ///< fragments ignored
    std::uint64_t overlaps = 0;      ///< datagrams killed
    /// Datagrams killed: two different ends, or bytes beyond the end; or a mark of congestion, and a piece whose sender knows of none.
    std::uint64_t inconsistent = 0;
    std::uint64_t posthumous = 0;    ///< fragments dropped: their datagram was killed before
    std::uint64_t too_long = 0;      ///< fragments that reach beyond 65,535 bytes (ping of death)
    std::uint64_t tiny = 0;          ///< first fragments without a whole transport header, or offsets into one (RFC 1858)
    std::uint64_t malformed = 0;     ///< no payload, or a length that is no multiple of 8 before the last
};

/// One that ran out of time. `quote` is for ICMP time exceeded/reassembly: the datagram as far as fragment 0 went,
/// header first; empty when fragment 0 never came (RFC 792: then nothing is sent), and when any came to more than one host (RFC 1122
/// 3.2.2, RFC 4443 2.4: the same).
struct expired_datagram {
    buffer quote;
};

class reassembler {
public:
    /// Bytes of a frame in `pool` that holds any datagram: headroom for headers, then 65,535 bytes of IP.
    static constexpr std::uint32_t frame_size = frame_headroom + 60 + 65536;

    /// `pool` outlives this and is used by nobody else; its frames bound the longest datagram (frame_size for all).
    explicit reassembler(frame_pool& pool, reassembly_options options = {});
    ~reassembler();
    reassembler(const reassembler&) = delete;
    reassembler& operator=(const reassembler&) = delete;

    /// `ip` describes a fragment (ip.is_fragment()) whose header and payload start in p.head and may go on in p.body.
    /// Returns the datagram when this was its last missing piece, else an empty buffer. The datagram's header is
    /// fragment 0's with length, flags, offset, mark of congestion and checksum put right. `to_group`: it has come to a group or a
    /// broadcast, of IP or of the link.
    buffer add(time_point now, const wire::ipv4_view& ip, const packet& p, bool to_group = false) noexcept;
    /// The same of IPv6, whose header starts `ip_at` bytes into p.head and which is `size` bytes long, header and all. The datagram's
    /// headers are what stood before fragment 0's fragment header.
    buffer add(time_point now, const wire::ipv6_view& ip, const wire::ipv6_chain& chain, std::uint32_t ip_at, std::uint32_t size,
               const packet& p, bool to_group = false) noexcept;
    static constexpr std::uint32_t max_ipv6_headers = 128; ///< bytes, in front of a fragment header

    time_point next_timeout() const noexcept;
    /// Takes one datagram whose time is over. False when there is none (any more).
    bool expire(time_point now, expired_datagram& out) noexcept;

    /// Datagrams of which pieces are missing.
    std::size_t size() const noexcept { return size_ - dead_; }
    const reassembly_statistics& statistics() const noexcept { return statistics_; }
    void check_invariants() const;

private:
    struct datagram;
    struct piece;
    struct facts;
    buffer add(time_point now, const facts& of, std::uint32_t payload_at, std::uint32_t length, const packet& p) noexcept;
    datagram* find(const facts& of) noexcept;
    datagram* begin(time_point now, const facts& of) noexcept;
    void drop(datagram& d) noexcept;
    void evict(datagram& d) noexcept;
    void kill(datagram& d) noexcept;
    bool acceptable(const facts& of, std::uint32_t length) noexcept;
    bool place(datagram& d, const facts& of, const piece& fragment) noexcept;
    static bool marks_agree(const datagram& d) noexcept;
    static buffer finish(datagram& d) noexcept;

    frame_pool& pool_;
    reassembly_options options_;
    std::unique_ptr<datagram[]> datagrams_;
    intrusive_list<datagram> free_;
    intrusive_list<datagram> busy_; ///< oldest first
    std::size_t size_ = 0;
    std::size_t dead_ = 0; ///< of those: killed, and remembered
    reassembly_statistics statistics_;
};

} // namespace corewire
