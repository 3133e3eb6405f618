// The kernel's routes and neighbours of one interface, of both families, mirrored and followed live: for a stack that shares the
// kernel's addresses. The kernel resolves neighbours; we ask it to.
//
//     start: dumps of addresses, routes, neighbours ----> follower        afterwards: each change, as it happens
//     ask(neighbour) --RTM_GETNEIGH--> known well: told again
//                                  \-> not known, or stale --RTM_NEWNEIGH, NTF_USE--> the kernel sends ARP --> a change is told
//
// (NTF_USE on an entry that was set by hand would make it one like any other: hence the question first.)
//
// One shard's, over its io_uring; must go before the reactor. What the kernel says is read a bounded part a turn, the answer to a dump,
// too: until that has come to its end what was known holds. Bounds: `max_routes` routes are kept (more are left out, counted and told; they
// are asked for again when others have gone), asks that the socket can't take are dropped and counted (who waits asks again).
// When the kernel had more to say than the socket holds (ENOBUFS), everything is asked for anew, and if that fails, once more a second
// later; meanwhile what was known holds. So it is when a route has gone while others found no room: a second later, and as long as the
// kernel has more routes than we keep, after twice as long each time, a minute at most.
//
// The kernel drops routes of IPv4 without a word when their link goes down, an address goes, or a next hop that they share: a second after
// any of these all is asked for anew, since it does so after it has told of the cause. What went with the link is gone at once. The same is
// done where routes with one destination and metric make it unclear which of them a change was about: some are over other interfaces, or
// differ in what is not told of them (source, weights).
#pragma once

#include <corewire/net/netlink/route_messages.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/readable_watch.hh>

#include <array>
#include <bitset>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace corewire {

class reactor;

/// Who wants to know.
class kernel_follower {
public:
    /// All routes over the interface, and those that refuse, of both families: several may have one destination. Of IPv4's with one
    /// destination and metric the first is the kernel's choice; otherwise they come in no order.
    virtual void on_routes(std::span<const netlink::route_change> routes) = 0;
    /// One of those is left out: there is no room, or its gateway is of the other family. About once for each, however often all is asked
    /// for: one that is replaced, or takes the place of another that was left out, is told anew.
    virtual void on_route_refused(const netlink::route_change& route) = 0;
    virtual void on_neighbor(const netlink::neighbor_change& neighbor) = 0;
    /// The kernel has given up an address of those that are followed.
    virtual void on_address_gone(const net_address& address) = 0;
    /// The interface takes so many bytes of IP packet now; told whenever the kernel says it, and once at the start.
    virtual void on_link_mtu(std::uint32_t bytes) = 0;

protected:
    ~kernel_follower() = default;
};

struct mirror_statistics {
    std::uint64_t changes = 0, malformed = 0;
    /// The kernel's messages had overflowed, a dump was interrupted, the follower could not take them, or routes may have gone unheard.
    std::uint64_t resyncs = 0;
    std::uint64_t routes_refused = 0; ///< there is no room, or the gateway is of the other family
    std::uint64_t asked = 0, asks_dropped = 0;
};

class kernel_mirror {
public:
    static constexpr std::size_t max_routes = 1024;
    static constexpr std::size_t max_refusals = 512; ///< of those: a long list of blackholes leaves room for routes that lead somewhere
    static constexpr duration pause = std::chrono::seconds{1}; ///< before everything is asked for once more
    static constexpr duration longest_pause = std::chrono::minutes{1};
    static constexpr std::size_t max_permanent = 1024; ///< neighbours set by hand that are remembered, for when one goes unheard

    /// Follows interface number `interface` of the calling thread's network namespace, on which the kernel has `addresses`.
    /// Tells `follower` what there is before it returns. Throws std::system_error.
    kernel_mirror(reactor& loop, unsigned interface, std::span<const net_address> addresses, kernel_follower& follower);
    kernel_mirror(const kernel_mirror&) = delete;
    kernel_mirror& operator=(const kernel_mirror&) = delete;

    /// Have the kernel find out about this neighbour, and say what it knows.
    void ask(const net_address& neighbor) noexcept;
    const mirror_statistics& statistics() const noexcept { return statistics_; }
    /// False while all is asked for anew: what was known before holds.
    bool is_current() const noexcept { return !resyncing_ && !overflowed_; }

private:
    void on_news() noexcept;
    void look() noexcept;
    /// Takes in what waits, until it has been about as many bytes. True if nothing waits any more. Throws.
    bool drain(std::size_t most);
    void read(byte_span datagram);
    void take(const netlink::change& news);
    void take_route(const netlink::route_change& r);
    void take_ipv4_route();
    std::optional<netlink::route_change> keep_our_ways();
    std::vector<netlink::route_change>::iterator replace_ipv4_route(std::vector<netlink::route_change>::iterator at);
    void take_ipv6_way(const netlink::route_change& r);
    void remove_ipv4_route(std::span<const netlink::route_change> ways);
    std::vector<netlink::route_change>::iterator find_ipv4_route(std::span<const netlink::route_change> ways) noexcept;
    bool is_ours(const netlink::route_change& r) const noexcept { return r.interface == interface_ || r.refuses; }
    /// While all is asked for nothing is searched for each route of a large table.
    bool known_to_be_full(const netlink::route_change& r) const noexcept {
        return resyncing_ && (routes_.size() == max_routes || (r.refuses && no_refusals_));
    }
    bool make_room(std::size_t ways, const netlink::route_change& r);
    void take_neighbor(const netlink::neighbor_change& n);
    void take_address(const netlink::address_change& a);
    void take_link(const netlink::link_change& link);
    void refuse(const netlink::route_change& r);
    void one_less_is_left_out() noexcept;
    void routes_have_gone() noexcept;
    void look_again(duration later) noexcept;
    /// As long as there are more routes than we keep, each time all is asked for is dear.
    void look_again_soon() noexcept { look_again(no_room_ ? room_pause_ : pause); }
    static std::size_t slot_of(const netlink::route_change& r) noexcept;
    void begin_resync();
    void begin_counted_resync();
    void begin_try();
    void go_on();
    void try_again();
    void end_resync();
    void give_up_resync() noexcept;
    void tell_routes();
    void dump();
    bool send_about(std::uint16_t type, std::uint16_t flags, const net_address& neighbor) noexcept;
    void ask_for_link();
    void answered(std::uint32_t sequence, const netlink::neighbor_change* known) noexcept;

    template <void (kernel_mirror::*act)() noexcept>
    struct delayed final : timer {
        explicit delayed(kernel_mirror& m) noexcept
            : timer([](timer& t) noexcept { (static_cast<delayed&>(t).mirror.*act)(); }), mirror(m) {}
        kernel_mirror& mirror;
    };

    reactor& loop_;
    unsigned interface_;
    struct followed_address {
        net_address address;
        bool there = false;
        bool told_gone = false;
    };
    std::vector<followed_address> addresses_;
    kernel_follower& follower_;
    unique_fd socket_;
    std::vector<netlink::route_change> routes_;
    std::vector<netlink::route_change> told_; ///< of one route of IPv4 the ways that have been told so far, over any interface
    std::bitset<4096> elsewhere_; ///< by slot_of(): of such a destination and metric the kernel has routes of IPv4 that are not in routes_
    bool no_room_ = false;    ///< a route was left out since all was asked for
    bool no_refusals_ = false; ///< so was one that refuses
    duration room_pause_ = pause; ///< before all is asked for anew since there may be room
    std::size_t left_out_ = 0; ///< routes of the kernel's that are not in routes_, as far as we have heard
    std::size_t left_out_anew_ = 0; ///< of those that a dump has told so far
    struct permanent_neighbor {
        net_address address;
        bool there = true;
    };
    std::vector<permanent_neighbor> permanent_; ///< that were told
    bool link_up_ = true;
    bool link_runs_ = true;
    bool routes_changed_ = false;
    bool overflowed_ = false; ///< something has been missed: everything is to be asked for anew
    bool resyncing_ = false;
    std::vector<netlink::route_change> before_; ///< while all is asked for: what was known
    unsigned tries_ = 0, dumped_ = 0;           ///< how often all was asked for in vain; how many of the dumps have come to their end
    std::uint32_t dump_sequence_ = 0;
    std::uint32_t link_sequence_ = 0; ///< of ask_for_link()
    delayed<&kernel_mirror::look> again_{*this};
    delayed<&kernel_mirror::give_up_resync> silence_{*this}; ///< of the kernel's, while it is to answer
    std::uint32_t sequence_ = 0;
    struct question {
        std::uint32_t sequence = 0;
        net_address neighbor;
    };
    std::array<question, 1024> questions_{}; ///< the last ones, by sequence: as many as there may be neighbours
    mirror_statistics statistics_;
    alignas(8) std::array<std::byte, 32768> datagram_;
    readable_watch<kernel_mirror, &kernel_mirror::on_news> news_{*this};
};

/// The kernel's addresses on an interface, of both families, its first one first, whatever they may be used for. Throws std::system_error.
std::vector<netlink::address_change> kernel_addresses(unsigned interface);

} // namespace corewire
