// The ARP cache (RFC 826, RFC 1122 2.3.2) with neighbour unreachability detection after RFC 4861 7.3.
//
//     packet to send --resolve()--> ready: goes out        arp request, reply --on_arp()--> poll_transmit(): our answer
//                              \--> queued ............................................---> poll_released(): packets
//                              \--> failed: host unreachable     timer --on_timer()-----> poll_transmit(): requests
//
// One interface's, on one shard. Sans-I/O: after any call that may say something, take poll_transmit() and
// poll_released() until they say no; call on_timer() at next_timeout().
// Bounded: entries (the least recently confirmed unpinned one makes room), packets and bytes waiting behind one
// neighbour (the oldest is dropped) and behind all, requests (one a second each), messages not yet taken. Every bound
// has a counter. An unsolicited reply never makes an entry.
#pragma once

#include <corewire/net/frame/packet.hh>
#include <corewire/net/link/address_claim.hh>
#include <corewire/net/link/neighbor.hh>
#include <corewire/net/wire/arp.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/random.hh>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>

namespace corewire {

struct neighbor_options {
    std::uint16_t max_entries = 1024;
    std::uint16_t max_waiting_each = 4;          ///< packets behind one unresolved neighbour
    std::uint32_t max_waiting_bytes = 16 * 1024; ///< bytes behind one unresolved neighbour
    std::uint16_t max_waiting_total = 256;       ///< packets behind all of them
    std::uint8_t max_requests = 3;               ///< RFC 4861 10: MAX_MULTICAST_SOLICIT, MAX_UNICAST_SOLICIT
    duration retransmit_time = std::chrono::seconds{1}; ///< RFC 1122 2.3.2.1 (MUST): at most one request a second
    duration reachable_time = std::chrono::seconds{30};
    duration delay_time = std::chrono::seconds{5};
    duration failed_time = std::chrono::seconds{3};
    duration lock_time = std::chrono::seconds{1}; ///< a MAC that has just changed does not change again so soon
};

struct neighbor_statistics {
    std::uint64_t created = 0, evicted = 0;
    std::uint64_t table_full = 0;        ///< no entry could make room
    std::uint64_t packets_queued = 0;
    std::uint64_t queue_dropped = 0;     ///< the oldest packet gave way: 4 behind this neighbour, or its bytes, or all slots
    std::uint64_t unreachable_dropped = 0; ///< packets that waited for a neighbour that never answered
    std::uint64_t requests_sent = 0, replies_sent = 0;
    std::uint64_t outbox_full = 0;       ///< messages not sent because nobody took the earlier ones
    std::uint64_t resolved = 0, failed = 0;
    std::uint64_t mac_changed = 0, mac_change_refused = 0;
    std::uint64_t ignored_unsolicited = 0; ///< replies and announcements of strangers
    std::uint64_t ignored_malformed = 0;   ///< a sender that is a group address, or not of this network, or an unknown operation
};

/// What resolve() did with the packet.
enum class resolution : std::uint8_t {
    ready,  ///< the destination MAC is in its Ethernet header: transmit it
    queued, ///< kept; it comes back by poll_released(), or is dropped and counted
    failed, ///< the neighbour does not answer (or the table is full): untouched, the caller's to drop (EHOSTUNREACH)
};

/// A message for the caller to put into an Ethernet frame of type ARP.
struct arp_message {
    mac_address destination;
    wire::arp_packet arp;
};

class neighbor_cache {
public:
    /// `own`: our address and the network that it is on; only senders of that network are believed.
    neighbor_cache(mac_address own_mac, ip_prefix own, neighbor_options options = {}, std::uint64_t seed = random_seed());
    ~neighbor_cache();
    neighbor_cache(const neighbor_cache&) = delete;
    neighbor_cache& operator=(const neighbor_cache&) = delete;

    /// Announces our address; and asks first whether it is free, if told to: with the wait that RFC 5227 wants, or once without.
    void start(time_point now, bool probe_first = false, bool ask = false);
    const address_claim& claim() const noexcept { return claim_; }

    /// The entry of an on-link address, whatever its state; null if there is none.
    neighbor* find(ipv4 address) noexcept;
    /// The entry of `address` if it can be sent to now, marked as being in use: its mac() and generation() may be kept
    /// in a neighbor_ref. Null: not resolved; give the packet to resolve().
    neighbor* use(time_point now, ipv4 address) noexcept;
    /// `p.head` starts at its Ethernet header, in bytes that may be written; the destination is filled in here.
    /// `next_hop` is a unicast address on the link (from a route_table).
    resolution resolve(time_point now, ipv4 next_hop, packet& p) noexcept;

    /// An ARP packet has arrived.
    void on_arp(time_point now, const wire::arp_packet& arp) noexcept;
    /// `address` has sent us an IP packet that proves it receives ours, as TCP sees it: find() and confirm().
    void confirm(time_point now, ipv4 address) noexcept;

    time_point next_timeout() const noexcept;
    /// Retransmits, probes, ages. When it returns with next_timeout() <= now, take poll_transmit() and call it again.
    void on_timer(time_point now) noexcept;

    bool poll_transmit(arp_message& out) noexcept;
    /// A packet whose neighbour has answered, Ethernet header complete.
    bool poll_released(packet& out) noexcept;

    /// Static entries, and those mirrored from the kernel in shared mode. False when the table is full of pinned ones.
    bool set_permanent(ipv4 address, mac_address mac) noexcept;
    void remove(ipv4 address) noexcept;
    /// The host's word about a neighbour, where the host resolves (shared mode): its MAC, and whether that is confirmed now.
    void told(time_point now, ipv4 address, mac_address mac, bool reachable) noexcept;
    /// The host knows no MAC of it: an entry in use is forgotten, one that is asked for stays so.
    void told_unknown(ipv4 address) noexcept;

    std::size_t size() const noexcept { return size_; }
    std::size_t waiting_packets() const noexcept { return waiting_total_; }
    const neighbor_statistics& statistics() const noexcept { return statistics_; }
    void check_invariants() const;

private:
    static constexpr std::uint16_t no_slot = 0xffff;
    static constexpr std::size_t outbox_size = 64;
    struct waiting_slot {
        packet waiting;
        std::uint16_t next = no_slot;
    };
    using state_list = intrusive_list<neighbor>;

    std::size_t bucket_of(ipv4 address) const noexcept;
    neighbor* create(ipv4 address, bool for_stranger) noexcept;
    bool make_room(bool for_stranger) noexcept;
    void forget(neighbor& n) noexcept;
    state_list& list_of(neighbor_state s) noexcept { return lists_[static_cast<std::size_t>(s)]; }
    void enter(time_point now, neighbor& n, neighbor_state s) noexcept;
    void learn(time_point now, neighbor& n, mac_address mac, bool solicited) noexcept;
    void take_sender(time_point now, const wire::arp_packet& arp) noexcept;
    bool believable(const wire::arp_packet& arp) const noexcept;
    bool asks_for_us(const wire::arp_packet& arp) const noexcept;
    void run_claim(time_point now) noexcept;
    void request(neighbor& n) noexcept;
    void fail(time_point now, neighbor& n) noexcept;
    void expire(time_point now, neighbor& n) noexcept;
    bool say(mac_address destination, const wire::arp_packet& arp) noexcept;

    void enqueue(neighbor& n, packet&& p) noexcept;
    packet dequeue(neighbor& n) noexcept;
    std::size_t drop_waiting(neighbor& n) noexcept;
    void release_waiting(neighbor& n) noexcept;

    mac_address mac_;
    ip_prefix own_;
    neighbor_options options_;
    random_generator random_;
    address_claim claim_;
    std::uint64_t hash_key_;
    std::uint64_t hash_offset_;
    std::size_t bucket_mask_;
    std::size_t size_ = 0;
    std::unique_ptr<neighbor[]> entries_;
    std::unique_ptr<neighbor*[]> buckets_;
    std::unique_ptr<waiting_slot[]> slots_;
    std::uint16_t free_slot_ = no_slot;
    std::uint16_t waiting_total_ = 0;
    std::uint16_t released_first_ = no_slot, released_last_ = no_slot;
    std::array<state_list, 8> lists_; ///< by state; each in the order in which its deadlines come
    std::array<arp_message, outbox_size> outbox_;
    std::size_t outbox_first_ = 0, outbox_count_ = 0;
    neighbor_statistics statistics_;
};

} // namespace corewire
