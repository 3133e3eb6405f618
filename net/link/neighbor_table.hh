// The neighbours of one interface and the states they go through (RFC 4861 7.3): what ARP's cache (neighbors.hh) and
// neighbour discovery's (neighbor_discovery.hh) have in common. They differ in what is said and heard.
//
//     packet to send --resolve()--> ready: goes out            what has been heard --learn()--> poll_released(): packets
//                              \--> queued ...................................................--^
//                              \--> failed: host unreachable   timer --on_timer()--> ask(): a question goes out
//                                                                                \-> poll_unreachable(): nobody has answered
//
// One interface's, on one shard. Sans-I/O: after any call that may say something, take what the derived class has to say
// and poll_released() until they say no; and poll_unreachable() after on_timer().
// Bounded: entries (the least recently confirmed unpinned one makes room; one that is asked for, or is a gateway, does not), packets and
// bytes waiting behind one neighbour (the oldest is dropped) and behind all, questions (one a second each), messages not yet taken. Every
// bound has a counter. Whoever has us answer him without telling his MAC may not exist: such strangers have a share of entries and slots.
#pragma once

#include <corewire/net/frame/packet.hh>
#include <corewire/net/link/neighbor.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/random.hh>

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

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
    duration lock_time = std::chrono::seconds{1}; ///< ARP: a MAC that has just changed does not change again so soon
};

struct neighbor_statistics {
    std::uint64_t created = 0, evicted = 0;
    std::uint64_t table_full = 0;        ///< no entry could make room
    std::uint64_t strangers_refused = 0; ///< answers that went nowhere: strangers have as many entries as they may
    std::uint64_t packets_queued = 0;
    std::uint64_t queue_dropped = 0;     ///< the oldest packet gave way: 4 behind this neighbour, or its bytes, or all slots
    std::uint64_t unreachable_dropped = 0; ///< packets that waited for a neighbour that never answered
    std::uint64_t requests_sent = 0, replies_sent = 0; ///< of ARP; or solicitations and advertisements
    std::uint64_t outbox_full = 0;       ///< messages not sent because nobody took the earlier ones
    std::uint64_t resolved = 0, failed = 0;
    std::uint64_t mac_changed = 0, mac_change_refused = 0;
    std::uint64_t ignored_unsolicited = 0; ///< replies and announcements of strangers
    std::uint64_t ignored_malformed = 0;   ///< a sender that is a group address, or on no network of this link, or an unknown operation
};

/// What resolve() did with the packet.
enum class resolution : std::uint8_t {
    ready,  ///< the destination MAC is in its Ethernet header: transmit it
    queued, ///< kept; it comes back by poll_released() or poll_unreachable(), or is dropped and counted
    failed, ///< the neighbour does not answer (or the table is full): untouched, the caller's to drop (EHOSTUNREACH)
};

/// Why there is to be an entry: what it may push out depends on that.
enum class on_behalf : std::uint8_t {
    ourselves,
    stranger, ///< a packet claims to come from there, and is answered or learnt from
    configuration, ///< a static entry
};

class neighbor_table {
public:
    neighbor_table(const neighbor_options& options, std::uint64_t seed);
    neighbor_table(const neighbor_table&) = delete;
    neighbor_table& operator=(const neighbor_table&) = delete;

    /// The entry of an on-link address, whatever its state; null if there is none.
    neighbor* find(const net_address& address) noexcept;
    /// The entry of `address` if it can be sent to now, marked as being in use: its mac() and generation() may be kept
    /// in a neighbor_ref. Null: not resolved; give the packet to resolve().
    neighbor* use(time_point now, const net_address& address) noexcept;
    /// `p.head` starts at its Ethernet header, in bytes that may be written; the destination is filled in here.
    /// `next_hop` is a unicast address on the link (from a route table). `who`: a stranger, if `p` answers a packet that anybody may have
    /// sent: strangers who are not resolved have an eighth of the entries and half of the slots (RFC 6583 7.1), so that they cause
    /// max_entries / 8 questions a second at most. That a gateway is asked for is our own matter, whomever the answer goes to.
    resolution resolve(time_point now, const net_address& next_hop, packet& p, on_behalf who = on_behalf::ourselves) noexcept;
    /// How to find out whether an address is a gateway's, who is not pushed out. `routes` is passed on, and outlives this.
    using gateway_question = bool (*)(const void* routes, const net_address& address) noexcept;
    void spare_gateways(gateway_question asked, const void* routes) noexcept {
        is_gateway_ = asked;
        routes_ = routes;
    }
    /// `address` has sent us an IP packet that proves it receives ours, as TCP sees it: find() and confirm().
    void confirm(time_point now, const net_address& address) noexcept;
    /// What is sent over it is not answered: asked at once whether it is there, unless that was confirmed in the last second (RFC 1122
    /// 2.3.2.1 and 3.3.1.4: advice from the transport layer).
    void doubt(time_point now, const neighbor_ref& who) noexcept;

    /// Calls `tell` with the address of each neighbour that has been given up since the last call: who routes over it looks for another
    /// way now, for the entry itself is soon forgotten (RFC 4861 7.3.3).
    template <typename Tell>
    void take_failed(Tell tell) noexcept {
        if (!std::exchange(any_given_up_, false)) return;
        list_of(neighbor_state::failed).for_each([&](neighbor& n) {
            if (std::exchange(n.given_up_, false)) tell(n.address_);
        });
    }

    /// A packet whose neighbour has answered, Ethernet header complete.
    bool poll_released(packet& out) noexcept;

    /// A packet whose neighbour has not answered: for its sender to hear of it, and for nobody else (RFC 4861 7.2.2). Counted already.
    bool poll_unreachable(packet& out) noexcept;
    /// One that was refused (resolution::failed) comes by poll_unreachable(), too, if there is room.
    void keep_refused(packet&& p) noexcept;
    /// Packets to `address` are refused now.
    bool has_failed(const net_address& address) const noexcept;

    /// Static entries, and those mirrored from the kernel in shared mode. False when the table is full of pinned ones.
    bool set_permanent(const net_address& address, mac_address mac) noexcept;
    void remove(const net_address& address) noexcept;
    /// The host's word about a neighbour, where the host resolves (shared mode): its MAC, and whether that is confirmed now.
    void told(time_point now, const net_address& address, mac_address mac, bool reachable) noexcept;
    /// The host knows no MAC of it: an entry in use is forgotten, one that is asked for stays so.
    void told_unknown(const net_address& address) noexcept;

    std::size_t size() const noexcept { return size_; }
    std::size_t waiting_packets() const noexcept { return waiting_total_; }
    const neighbor_statistics& statistics() const noexcept { return statistics_; }
    void check_invariants() const;

protected:
    ~neighbor_table();

    /// Puts a question about `n` into the outbox: to everybody, or to `n` alone when it is being probed.
    virtual void ask(const neighbor& n) noexcept = 0;
    /// A question would find no room.
    virtual bool outbox_full() const noexcept = 0;

    neighbor* create(const net_address& address, on_behalf who) noexcept;
    /// The MAC of `n` is `mac`, says somebody; `solicited`: in answer to us.
    void learn(time_point now, neighbor& n, mac_address mac, bool solicited) noexcept;
    /// All but the permanent ones.
    void forget_learnt() noexcept;
    void enter(time_point now, neighbor& n, neighbor_state s) noexcept;
    time_point next_change() const noexcept;
    /// Other times from now on, for entries that are in the state already, too. Each is in (0, 90 min].
    void set_reachable_time(duration t) noexcept;
    void set_retransmit_time(duration t) noexcept;
    /// Asks, probes, ages; stops when the outbox is full.
    void age(time_point now) noexcept;

    neighbor_options options_;
    random_generator random_;
    neighbor_statistics statistics_;

private:
    static constexpr std::uint16_t no_slot = 0xffff;
    struct waiting_slot {
        packet waiting;
        std::uint16_t next = no_slot;
    };
    using state_list = intrusive_list<neighbor>;

    std::size_t bucket_of(const net_address& address) const noexcept;
    bool make_room(on_behalf who) noexcept;
    bool make_room_for_stranger() noexcept;
    bool is_gateway(const net_address& address) const noexcept { return is_gateway_ != nullptr && is_gateway_(routes_, address); }
    void adopt(neighbor& n) noexcept;
    bool slots_taken(const neighbor& n) const noexcept;
    void forget(neighbor& n) noexcept;
    state_list& list_of(neighbor_state s) noexcept { return lists_[static_cast<std::size_t>(s)]; }
    void question(neighbor& n) noexcept;
    void fail(time_point now, neighbor& n) noexcept;
    void expire(time_point now, neighbor& n) noexcept;
    void shift_deadlines(neighbor_state s, duration by) noexcept;

    void enqueue(neighbor& n, packet&& p) noexcept;
    packet dequeue(neighbor& n) noexcept;
    std::size_t drop_waiting(neighbor& n) noexcept;
    void release_waiting(neighbor& n) noexcept;
    /// Slots in a row, each with a packet.
    struct slot_list {
        std::uint16_t first = no_slot, last = no_slot;
    };
    void move_waiting(neighbor& n, slot_list& to) noexcept;
    bool take_first(slot_list& from, packet& out) noexcept;

    siphash_key hash_key_;
    std::size_t bucket_mask_;
    std::size_t size_ = 0;
    std::unique_ptr<neighbor[]> entries_;
    std::unique_ptr<neighbor*[]> buckets_;
    std::unique_ptr<waiting_slot[]> slots_;
    std::uint16_t free_slot_ = no_slot;
    std::uint16_t waiting_total_ = 0;
    std::uint16_t strangers_ = 0;         ///< entries for_stranger_
    std::uint16_t strangers_waiting_ = 0; ///< packets behind them
    bool any_given_up_ = false;
    slot_list released_, unreachable_;
    gateway_question is_gateway_ = nullptr;
    const void* routes_ = nullptr;
    std::array<state_list, 8> lists_; ///< by state; each in the order in which its deadlines come
};

/// Messages that wait to be taken: a ring of 64. Shared by those who have something to say on a link.
template <typename Message>
class outbox {
public:
    static constexpr std::size_t size = 64;
    bool full() const noexcept { return count_ == size; }
    bool put(const Message& m) noexcept {
        if (full()) return false;
        messages_[(first_ + count_++) % size] = m;
        return true;
    }
    bool take(Message& out) noexcept {
        if (count_ == 0) return false;
        out = messages_[first_];
        first_ = (first_ + 1) % size;
        --count_;
        return true;
    }

private:
    std::array<Message, size> messages_;
    std::size_t first_ = 0, count_ = 0;
};

} // namespace corewire
