// The address handles of one port, by MAC. Making one asks the kernel, which on RoCE may ask the network, for up to a second if nobody
// answers: so they are kept, a destination for which none could be made is not tried again for a while, and they are made by other threads
// (verbs::waiting_calls), `most_making` at a time. The first packets wait for them here, all others go on. (Where nobody would be asked
// they are made at once.)
//
// A handle is made anew when its peer is heard of again, and when the device says that addresses have changed: at once if the peer has
// another LID, else if the handle is older than `retry_after` (on RoCE the MAC behind the peer's GID is in the handle alone, and nobody
// tells us that it is another one: but a neighbour that does not answer is asked for again, by the group). Sends that name the old one
// keep it until they are over.
//
// One shard's. Bounded: `capacity`, in sets of four; the least recently used of a set makes room, unless a send that names it has
// not completed: then the new one has to wait, and its packets are lost.
#pragma once

#include <corewire/net/frame/packet.hh>
#include <corewire/rdma/ud_link/peers.hh>
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/rdma/verbs/waiting_calls.hh>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace corewire {

struct handle_statistics {
    std::uint64_t made = 0, evicted = 0;
    std::uint64_t refreshed = 0;     ///< made anew for a peer that was heard of again
    std::uint64_t unknown_peer = 0;  ///< packets to a MAC that no ARP has told of, or whose peer has been forgotten
    std::uint64_t unreachable = 0;   ///< packets to a peer for which the device makes no handle
    std::uint64_t no_room = 0;       ///< packets that found all handles of their set in use
    std::uint64_t held = 0;          ///< packets that waited for a handle
    std::uint64_t held_lost = 0;     ///< packets for which there was no room to wait
};

class handle_cache {
public:
    static constexpr std::size_t capacity = 1024;
    static constexpr std::size_t most_making = 4;
    static constexpr std::size_t most_held = 4; ///< packets, for each of those

    /// What sends need: null handle when there is none.
    struct destination {
        ibv_ah* handle = nullptr;
        std::uint32_t queue_pair = 0;
    };

    struct options {
        std::uint8_t port = 1, gid_index = 0;
        bool ethernet = true;
        std::chrono::milliseconds retry_after{1000}; ///< how long a destination for which no handle could be made is left alone
    };
    handle_cache(const verbs::protection_domain& in, const link_peers& peers, const options& o);
    ~handle_cache(); ///< waits for handles that are being made
    handle_cache(const handle_cache&) = delete;

    /// For a send that will be number `position`; everything before `completed` has completed. Both count up, in 64 bits: an entry may
    /// rest for as long as it likes.
    destination find(mac_address to, std::uint64_t position, std::uint64_t completed) noexcept {
        entry* e = last_;
        if (e == nullptr || e->mac != to.value() || seen_ != peers_.generation()) [[unlikely]] e = look_up(to.value(), position, completed);
        if (e == nullptr) [[unlikely]] return {};
        e->last_send = position + 1;
        return {e->handle.get(), e->queue_pair};
    }
    /// InfiniBand: handles that are made from now on have this service level; those that there are are made anew before their next send.
    void use_service_level(std::uint8_t level) noexcept {
        if (level != service_level_) last_ = nullptr;
        service_level_ = level;
    }
    /// Nothing that was sent is with the device any more.
    void all_completed() noexcept;
    /// Keeps a packet to whom find() has just given nothing, if a handle is being made. False: it stays with the caller.
    bool hold(mac_address to, packet& p) noexcept;
    bool any_being_made() const noexcept { return making_ != 0; }
    /// Takes one handle that has been made, or not, and the packets that have waited for it (they may be sent: find() knows). False: none.
    bool next_made(std::uint64_t completed, std::span<packet, most_held> held, std::size_t& count) noexcept;

    const handle_statistics& statistics() const noexcept { return counts_; }
    std::size_t count() const noexcept { return count_; }

private:
    static constexpr std::size_t ways = 4;
    struct entry {
        std::uint64_t mac = 0; ///< 0: free
        verbs::address_handle handle; ///< empty: the device made none
        verbs::address_handle before; ///< what it has replaced, while sends that name it are under way
        std::uint64_t before_until = 0; ///< the position behind the last of those
        std::uint32_t told = 0;       ///< link_peer's, when it was made
        std::uint16_t lid = 0;
        std::uint8_t service_level = 0;
        std::uint32_t queue_pair = 0;
        std::uint64_t last_send = 0; ///< the position behind the last one that names it
        bool busy = false;           ///< last_send says something
        bool being_made = false;     ///< its first handle
        std::uint64_t used = 0;
        std::chrono::steady_clock::time_point retry{}; ///< with no handle: not before; else: old enough to be made anew
    };
    [[gnu::noinline]] entry* look_up(std::uint64_t mac, std::uint64_t position, std::uint64_t completed) noexcept;
    entry* fill(entry& e, std::uint64_t mac) noexcept;
    bool refresh(entry& e, std::uint64_t completed) noexcept;
    verbs::address_handle make(const link_peer& peer, std::uint8_t service_level) const;
    struct making {
        std::uint64_t mac = 0; ///< 0: free
        link_peer peer;
        bool over = false;
        verbs::address_handle made; ///< empty: the device made none
        std::string why;
        std::array<packet, most_held> held;
        std::size_t held_count = 0;
    };
    struct making_call;
    bool waits_for(const link_peer& peer) const noexcept;
    making* making_of(std::uint64_t mac) noexcept;
    bool begin(std::uint64_t mac, const link_peer& peer) noexcept;
    void made_anew(entry& e, verbs::address_handle fresh, const link_peer& peer, std::uint64_t completed) noexcept;
    void complain(const std::string& why) noexcept;
    entry* room_in(std::span<entry, ways> set, std::uint64_t completed) noexcept;

    const verbs::protection_domain& in_;
    const link_peers& peers_;
    const options options_;
    std::uint8_t service_level_ = 0;
    std::vector<entry> entries_;
    entry* last_ = nullptr;
    std::uint32_t seen_ = 0; ///< the generation of peers_ that last_ was looked up in
    std::uint64_t clock_ = 0; ///< counts look-ups
    std::size_t count_ = 0;
    handle_statistics counts_;
    std::array<making, most_making> makings_;
    std::size_t making_ = 0;
    std::optional<verbs::waiting_calls> waits_; ///< from when it is needed first
};

} // namespace corewire
