// From a received IP packet to the UDP endpoint that it is for, and onto its queue (RFC 768, RFC 1122 4.1).
//
//     packet --input()--> parse, checksum, port table --> endpoint's queue        no such port: the caller sends ICMP
//
// One interface's, on one shard. A table indexed by the local port (512 KiB of address space, of which only the pages
// in use are touched): nothing to hash, so nothing to attack. Bounded: endpoints, endpoints on one port, datagrams
// queued by all endpoints together. Every drop has a counter.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/ip/icmp.hh>
#include <corewire/net/udp/udp_endpoint.hh>
#include <corewire/net/udp/udp_port_map.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/udp.hh>
#include <corewire/reactor/base/random.hh>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <system_error>

namespace corewire {

struct udp_demux_options {
    std::uint32_t max_endpoints = 16'384;
    std::uint32_t max_on_port = 64;
    /// Datagrams that wait in all queues: each holds a frame that the port can't receive into meanwhile. One queue gets as many as it
    /// leaves to the others: a single one half, two of them a third each. Where the frames of a pool are scarce (frame_owner::reserve),
    /// who has unread ones gets no more.
    std::uint32_t max_queued = 8192;
    std::uint16_t ephemeral_first = 49'152; ///< RFC 6056 3.2 would take all from 1024; IANA's dynamic range is ours to use
    std::uint16_t ephemeral_last = 65'535;
};

struct udp_statistics {
    std::uint64_t received = 0, delivered = 0;
    std::uint64_t malformed = 0, bad_checksum = 0;
    std::uint64_t no_port = 0;
    std::uint64_t dropped_full = 0;
    std::uint64_t dropped_total_full = 0; ///< of these: because of max_queued, or frames were scarce
    std::uint64_t no_frame = 0;           ///< a datagram in two pieces, and no frame to join them in
    std::uint64_t ports_exhausted = 0;    ///< bind() to port 0 found no free port that comes home
    std::uint64_t endpoints_refused = 0;  ///< bind()s beyond max_endpoints or max_on_port
};

enum class udp_verdict : std::uint8_t {
    delivered, ///< on `endpoint`'s queue
    dropped,   ///< and counted
    no_port,   ///< nobody is there: the caller answers port unreachable; the packet is untouched
};

struct udp_delivery {
    udp_verdict verdict;
    /// When delivered: who has it. A datagram to a group or a broadcast address goes to everyone on the port (RFC 1122
    /// 4.1.3.1, as BSD and Linux do): the others follow by udp_endpoint::also_delivered(), to null.
    udp_endpoint* endpoint;
};

/// Whether a reply from `remote` to our `local_port` would arrive on this shard (the NIC's hash comes home).
struct home_hash {
    bool (*here)(const void* context, udp_address local, udp_address remote) = nullptr; ///< null: always
    const void* context = nullptr;
};

class udp_demux {
public:
    /// `pool`: where datagrams that arrived in two pieces are put together.
    explicit udp_demux(frame_pool& pool, udp_demux_options options = {}, std::uint64_t seed = random_seed());
    ~udp_demux(); ///< every endpoint has left
    udp_demux(const udp_demux&) = delete;
    udp_demux& operator=(const udp_demux&) = delete;

    /// Other shards have the same addresses: who has which port stands in `map`, where we are `self`. Before the first bind.
    void share_ports(std::shared_ptr<udp_port_map> map, unsigned self) noexcept;
    /// From these an ephemeral port is chosen, and not from the options' range; they outlive this, or the next call. Nothing: the range.
    void choose_from(std::optional<std::span<const std::uint16_t>> ports) noexcept { lent_ = ports; }

    /// Port 0: a random free one (RFC 6056 3.3.2), of those from which `home` sees replies. EADDRINUSE: somebody is there, on the same
    /// address or on any(), or another shard has chosen it; or there are too many. `shared`: others may bind the same (each connects).
    [[nodiscard]] std::errc bind(udp_endpoint& e, udp_address local, bool shared = false, home_hash home = {},
                                 udp_address expected_peer = {}) noexcept;
    /// Only datagrams of `peer` from now on; those of others that wait already stay. A port of 0 disconnects.
    /// `home`: an ephemeral port from which replies would not come home is given up for another that is. EADDRINUSE: there is none,
    /// and no other shard to hand replies over.
    [[nodiscard]] std::errc connect(udp_endpoint& e, const net_address& local, udp_address peer, home_hash home = {}) noexcept;
    /// A port for a connected endpoint to move() to, from which replies come home, or to give_back(). 0: it need not, or none is free.
    std::uint16_t choose_port(const udp_endpoint& e, home_hash home) noexcept;
    void give_back(std::uint16_t port) noexcept;
    void move(udp_endpoint& e, std::uint16_t port) noexcept;
    void unbind(udp_endpoint& e) noexcept; ///< and drops what waits

    /// `ip` views a whole UDP datagram for us that starts in p.head (Ethernet header or not before it) and may go on in
    /// p.body. Takes the packet's buffers when it delivers.
    udp_delivery input(const wire::ipv4_view& ip, packet& p) noexcept {
        const auto offset = static_cast<std::uint32_t>(ip.header().data() + ip.header_size() - p.head.data());
        return input(ip.source(), ip.destination(), offset, ip.total_length() - static_cast<std::uint32_t>(ip.header_size()), p);
    }
    /// The same where the addresses are known: the datagram starts `offset` bytes into p.head, and IP gives it `ip_length` bytes.
    udp_delivery input(const net_address& source, const net_address& destination, std::uint32_t offset, std::uint32_t ip_length,
                       packet& p) noexcept;
    /// An ICMP error about one of our datagrams. The endpoint that has an error to tell now, or null.
    udp_endpoint* on_error(const icmp_report& report) noexcept;
    /// The endpoint that what the report quotes may have left from, or null.
    udp_endpoint* sender_of(const icmp_report& report) const noexcept;

    /// How many endpoints share this port.
    std::size_t on_port(std::uint16_t port) const noexcept;
    std::size_t size() const noexcept { return size_; }
    std::uint32_t queued() const noexcept { return queued_; }
    const udp_statistics& statistics() const noexcept { return statistics_; }
    void check_invariants() const;

private:
    friend class udp_endpoint;
    udp_endpoint* find(const net_address& to, std::uint16_t port, const udp_address& from) const noexcept;
    static udp_endpoint* find_among_many(udp_endpoint* first, const net_address& to, const udp_address& from) noexcept;
    static bool matches(const udp_endpoint& e, const net_address& to, const udp_address& from) noexcept;
    static bool hears(const udp_endpoint& e, const net_address& group) noexcept;
    bool conflicts(const udp_endpoint& newcomer, udp_address local, bool shared) noexcept;
    std::uint16_t pick_port(const net_address& local, home_hash home, udp_address peer) noexcept;
    bool join_payload(packet& p, std::uint32_t offset, std::uint32_t length, buffer& out) noexcept;
    static bool checksum_ok(const net_address& from, const net_address& to, const packet& p, std::uint32_t offset,
                            std::uint32_t length) noexcept;
    udp_delivery deliver_to_all(udp_endpoint* first, buffer&& data, const udp_address& from, const net_address& to) noexcept;
    static bool may_take_of_the_last(const udp_endpoint& e, const frame_owner& owner) noexcept;
    bool enqueue(udp_endpoint& e, buffer&& data, const udp_address& from, const net_address& to) noexcept;
    static udp_delivery drop(std::uint64_t& counter) noexcept;
    udp_delivery drop_full(udp_endpoint& e) noexcept;
    void link(udp_endpoint& e) noexcept;
    void unlink(udp_endpoint& e) noexcept;
    bool strays(const udp_endpoint& e, const net_address& local, udp_address peer, home_hash home) const noexcept;

    frame_pool& pool_;
    udp_demux_options options_;
    random_generator random_;
    udp_endpoint** by_port_; ///< 65,536 lists
    std::shared_ptr<udp_port_map> all_ports_; ///< of all shards: each port that has a list here; null: there are no others
    unsigned self_ = 0;
    std::optional<std::span<const std::uint16_t>> lent_;
    std::size_t size_ = 0;
    std::uint32_t queued_ = 0;
    udp_statistics statistics_;
};

/// The oldest datagram of an endpoint; here because the demux counts what waits.
inline udp_datagram udp_endpoint::receive() noexcept {
    CW_DEBUG_ASSERT(readable(), "nothing to receive: ask readable() first");
    udp_datagram* slot = ring_ + (head_ & mask_);
    ++head_;
    --demux_->queued_;
    udp_datagram out = std::move(*slot);
    slot->~udp_datagram();
    return out;
}

} // namespace corewire
