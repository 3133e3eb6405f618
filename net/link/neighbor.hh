// One neighbour on the link: an address of either family and the MAC address it answers at.
//
// Owned by a neighbor_table (ARP's or neighbour discovery's), on its shard. The object stays where it is for the table's whole
// life, even when it is given to another address: whoever keeps a neighbor_ref finds out by comparing one number, the
// generation.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <string_view>

namespace corewire {

/// RFC 4861 7.3.2's states, for ARP too.
///
///              packet to send          reply             reachable_time without confirmation
///     (absent) --------> incomplete --------> reachable ---------------------------> stale
///                            | max_requests       ^  ^  confirmed                       | a packet is sent
///                            v  without reply     |  +------------- delay <-------------+
///                          failed <-- probe ------+                   | delay_time without confirmation
///                            no reply   ^-----------------------------+
enum class neighbor_state : std::uint8_t {
    unused,     ///< the object stands for no address
    incomplete, ///< asked for by broadcast or multicast; packets wait
    reachable,  ///< confirmed lately
    stale,      ///< was right once; used, and checked as soon as it is used
    delay,      ///< in use and unconfirmed: the upper layer may still confirm it
    probe,      ///< asked for by unicast; still used
    failed,     ///< nobody answered: packets are refused until failed_time is over
    permanent,  ///< set from outside (a static entry, or the kernel's own neighbour table in shared mode)
};
std::string_view to_string(neighbor_state s) noexcept;

class neighbor : public list_hook {
public:
    const net_address& address() const noexcept { return address_; }
    mac_address mac() const noexcept { return mac_; }
    neighbor_state state() const noexcept { return state_; }
    /// mac() may be sent to.
    bool valid() const noexcept { return state_ >= neighbor_state::reachable && state_ != neighbor_state::failed; }
    /// Its last advertisement said that it forwards packets (RFC 4861 4.4, R). IPv4: false.
    bool is_router() const noexcept { return router_; }
    /// Grows whenever a header made from mac() must be made anew, or the cache wants to hear that the entry is in use:
    /// when the MAC changes, when reachable turns stale, when the entry fails, when the object gets another address.
    std::uint32_t generation() const noexcept { return generation_; }

    /// The upper layer knows that what it sends arrives: TCP saw its data acknowledged (RFC 4861 7.3.1).
    /// At `when`, which may be a while ago. The cache looks at it when a timer is due.
    void confirm(time_point when) noexcept {
        if (when > confirmed_) confirmed_ = when;
    }

    /// A pinned entry is not evicted to make room.
    void pin() noexcept { ++pins_; }
    void unpin() noexcept { --pins_; }

private:
    friend class neighbor_table;
    friend class neighbor_discovery;
    std::uint32_t generation_ = 1;
    neighbor_state state_ = neighbor_state::unused;
    std::uint8_t requests_ = 0; ///< sent in this incomplete or probe
    bool router_ = false;
    bool given_up_ = false; ///< and take_failed() has not told of it yet
    bool for_stranger_ = false; ///< unresolved, and only answers to it itself were to be sent
    std::uint16_t pins_ = 0;
    net_address address_;
    mac_address mac_;
    time_point confirmed_{};
    time_point deadline_ = never; ///< when this state has something to do
    time_point changed_{};        ///< when mac_ was last replaced by another
    neighbor* next_in_bucket_ = nullptr;
    // Packets waiting for the MAC: indices into the cache's slots.
    std::uint16_t first_waiting_ = 0, last_waiting_ = 0, waiting_ = 0;
    std::uint32_t waiting_bytes_ = 0;
};

/// What a connection keeps beside its prebuilt Ethernet header: current() is four instructions. A neighbor_ref never
/// dangles as long as its cache lives.
class neighbor_ref {
public:
    neighbor_ref() noexcept = default;
    explicit neighbor_ref(neighbor& n) noexcept : entry_(&n), generation_(n.generation()) {}
    /// The header made when this reference was taken is still right.
    bool current() const noexcept { return entry_ != nullptr && entry_->generation() == generation_; }
    /// Passes on a confirmation, if the entry is still the one that was meant.
    void confirm(time_point now) const noexcept {
        if (current()) entry_->confirm(now);
    }
    neighbor* get() const noexcept { return entry_; }

private:
    neighbor* entry_ = nullptr;
    std::uint32_t generation_ = 0;
};

} // namespace corewire
