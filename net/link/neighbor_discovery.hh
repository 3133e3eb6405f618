// Neighbour discovery's cache (RFC 4861 7): what neighbour solicitations and advertisements say, over the states that
// neighbor_table.hh keeps for ARP too.
//
//     solicitation for us --on_solicitation()--> poll_transmit(): our advertisement
//     advertisement       --on_advertisement()--> poll_released(): packets that may go      timer --> poll_transmit(): questions
//
// One interface's, on one shard. Sans-I/O, as neighbors.hh is. Who calls has validated the messages (RFC 4861 7.1) and
// knows our addresses; source addresses of what goes out are the caller's to choose. An unsolicited advertisement never
// makes an entry.
#pragma once

#include <corewire/net/link/neighbor_table.hh>
#include <corewire/net/wire/icmpv6.hh>

namespace corewire {

/// A message for the caller to put behind an IPv6 header with hop limit 255.
struct nd_message {
    enum class kind : std::uint8_t {
        question, ///< a solicitation: to target's solicited-node group, or to `destination` alone
        answer,   ///< an advertisement of our address `target`
    };
    kind what = kind::question;
    ipv6 target;
    ipv6 destination;
    mac_address destination_mac;
    bool solicited = false; ///< of an answer
};

class neighbor_discovery final : public neighbor_table {
public:
    explicit neighbor_discovery(neighbor_options options = {}, std::uint64_t seed = random_seed());

    /// A valid solicitation of our address `ns.target`. `source` is :: in duplicate address detection: then the answer goes to
    /// all nodes. True: who asks is to be asked for its MAC first, so the answer is the caller's to send, as packets are (7.2.4).
    bool on_solicitation(time_point now, const ipv6& source, const wire::neighbor_solicitation& ns) noexcept;
    /// A valid advertisement that is not about an address of ours. True: it says that who was a router is none any more.
    bool on_advertisement(time_point now, const wire::neighbor_advertisement& na) noexcept;
    /// A router advertisement, or another message that carries its sender's MAC (RFC 4861 6.3.4).
    void on_sender(time_point now, const ipv6& source, mac_address mac, bool router) noexcept;
    /// A router advertisement that does not carry it: who is known is a router all the same.
    void on_router(const ipv6& source) noexcept {
        if (neighbor* const n = find(source)) n->router_ = true;
    }
    /// What a router advertisement says of the link's times (RFC 4861 6.3.4); 0: nothing. What lies outside of the bounds counts as
    /// the nearest: an advertisement cannot have us flood the link, or wait for ever.
    void on_times(time_point now, duration reachable, duration retransmit) noexcept;
    static constexpr duration least_reachable = std::chrono::seconds{1};
    static constexpr duration most_reachable = std::chrono::hours{1}; ///< RFC 4861 6.2.1: no router may say more
    static constexpr duration least_retransmit = std::chrono::milliseconds{100};
    static constexpr duration most_retransmit = std::chrono::seconds{10};
    duration reachable_time() const noexcept { return options_.reachable_time; }   ///< drawn: 0.5 to 1.5 times what was said
    duration retransmit_time() const noexcept { return options_.retransmit_time; }

    /// Tells everybody of an address of ours (RFC 4861 7.2.6).
    void announce(const ipv6& own) noexcept;

    time_point next_timeout() const noexcept { return next_change(); }
    void on_timer(time_point now) noexcept;
    bool poll_transmit(nd_message& out) noexcept { return outbox_.take(out); }

private:
    void ask(const neighbor& n) noexcept override;
    bool outbox_full() const noexcept override { return outbox_.full(); }
    bool say(const nd_message& m) noexcept;
    duration drawn() noexcept;

    duration base_reachable_; ///< BaseReachableTime
    time_point draw_again_{}; ///< {}: no timer has run yet
    outbox<nd_message> outbox_;
};

} // namespace corewire
