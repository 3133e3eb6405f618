// The client's part of DHCP for IPv4 (RFC 2131 4.4): an address from a server, kept as long as the server lets us.
//
//     INIT --discover--> SELECTING --an offer--> REQUESTING --ack--> CHECKING --nobody has it--> BOUND --T1--> RENEWING --T2--> REBINDING
//      ^                                            ^  | nak             | somebody: decline        ^            | ack            | ack
//      |            REBOOTING --ack--> CHECKING     |  v                 v                          +------------+----------------+
//      +--------------- nak, silence, the lease's end ---------------------------------------------- nak, the end: the address is gone
//
// One interface's, on one shard. Sans-I/O: time comes in, and after any call that may say something poll_transmit() and poll_probe()
// give what to send until they say no; generation() tells when lease() is another. Bounded: two messages that wait to be sent.
#pragma once

#include <corewire/net/dhcp/dhcp_message.hh>
#include <corewire/net/dhcp/dhcp_outbox.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace corewire {

namespace wire {
struct arp_packet;
}

/// What a server has given us.
struct dhcp_lease {
    ip_prefix address;
    ipv4 server;
    dhcp_routes routes;                ///< classless ones, or the default over the first router; gateways of any(): on the link
    std::uint16_t routes_left_out = 0; ///< for which there was no room
    bounded_list<ipv4, 4> name_servers;
    bounded_list<char, 255> domain;
    std::uint16_t mtu = 0;             ///< 0: not said
    time_point renew_at = never, rebind_at = never, ends_at = never;
    /// A host would do the same with both.
    bool same_configuration(const dhcp_lease& other) const noexcept {
        return address == other.address && routes == other.routes && name_servers == other.name_servers && domain == other.domain &&
               mtu == other.mtu;
    }
};

struct dhcp_options {
    std::uint32_t association = 1;     ///< of the client id (RFC 4361)
    std::uint16_t max_message = 1500;  ///< bytes of IP datagram that we take
    std::string host_name{};           ///< told to servers; empty: not
    duration start_delay = std::chrono::milliseconds{500}; ///< the first question comes after a random part of it
    /// Whether somebody has the address already is asked by ARP so often, at such intervals (RFC 2131 4.4.1, RFC 5227). 0: not asked.
    unsigned probes = 2;
    duration probe_interval = std::chrono::milliseconds{500};
};

enum class dhcp_state : std::uint8_t { stopped, init, selecting, requesting, rebooting, checking, bound, renewing, rebinding };

struct dhcp_outgoing {
    dhcp_message_type type = dhcp_message_type::none;
    ipv4 source;      ///< any(): we have none
    ipv4 destination; ///< broadcast(), or our server
    std::uint16_t size = 0;
    std::array<std::byte, dhcp_request_size> bytes;
    byte_span message() const noexcept { return {bytes.data(), size}; }
};

struct dhcp_statistics {
    std::uint64_t sent = 0, received = 0;
    std::uint64_t malformed = 0;         ///< RFC 2131 2: not a reply, a broken option
    std::uint64_t ignored = 0;           ///< another machine's, another transaction's, not expected now, or from another server
    std::uint64_t unusable = 0;          ///< offers and acknowledgements of what no host can have
    std::uint64_t refused = 0;           ///< DHCPNAKs
    std::uint64_t conflicts = 0;         ///< somebody had the address that we were given: declined
    std::uint64_t expired = 0;           ///< leases that ended before anybody renewed them
    std::uint64_t leases = 0, renewals = 0;
    std::uint64_t left_out = 0;          ///< routes and name servers of an answer for which there was no room
    std::uint64_t outbox_full = 0;
};

class dhcp_client {
public:
    dhcp_client(mac_address mac, dhcp_options options, std::uint64_t seed);

    /// Begins. `remembered`: an address that we had before, which is asked for at once (INIT-REBOOT, RFC 2131 3.2).
    void start(time_point now, std::optional<ipv4> remembered = std::nullopt) noexcept;
    /// Gives the address back (DHCPRELEASE) and stops. lease() is none from now on.
    void release(time_point now) noexcept;

    /// A datagram to our port 68: the UDP payload, whole.
    void input(time_point now, byte_span message) noexcept;
    /// An ARP packet: somebody may have the address that we are about to take.
    void on_arp(time_point now, const wire::arp_packet& arp) noexcept;
    time_point next_timeout() const noexcept;
    void on_timer(time_point now) noexcept;

    bool poll_transmit(dhcp_outgoing& out) noexcept;
    /// Ask who has `target`, by an ARP probe (RFC 5227 2.1.1).
    bool poll_probe(ipv4& target) noexcept;
    /// It has not left: it is asked anew, after `probe_interval`.
    void on_probe_unsent() noexcept;

    dhcp_state state() const noexcept { return state_; }
    /// Null: there is no address that may be used.
    const dhcp_lease* lease() const noexcept { return lease_ ? &*lease_ : nullptr; }
    /// Grows when lease() gives another configuration, or none.
    std::uint32_t generation() const noexcept { return generation_; }
    /// The number by which answers to the question that is out are known; it is another after a change of state.
    std::uint32_t transaction() const noexcept { return transaction_; }
    /// The address that is looked at whether somebody has it; any(): none is.
    ipv4 candidate() const noexcept { return state_ == dhcp_state::checking ? checked_.address.address() : ipv4::any(); }
    const dhcp_statistics& statistics() const noexcept { return statistics_; }
    void check_invariants() const;

private:
    void begin(time_point now, duration wait) noexcept;
    void enter(dhcp_state state) noexcept;
    void on_offer(time_point now, const dhcp_reply& reply) noexcept;
    void on_ack(time_point now, const dhcp_reply& reply) noexcept;
    void on_nak(time_point now, const dhcp_reply& reply) noexcept;
    void keep_lease(time_point now) noexcept;
    void bind(time_point now, const dhcp_lease& lease) noexcept;
    void check_next(time_point now) noexcept;
    void decline(time_point now) noexcept;
    void lose() noexcept;
    void ask(time_point now) noexcept;
    void say(time_point now, dhcp_message_type type) noexcept;
    bool make_lease(const dhcp_reply& reply, dhcp_lease& out) const noexcept;
    duration back_off() noexcept;
    duration part_of(duration whole) noexcept;
    std::optional<dhcp_lease> acceptable(const dhcp_reply& reply) noexcept;

    mac_address mac_;
    dhcp_options options_;
    dhcp_client_id id_;
    random_generator random_;
    dhcp_state state_ = dhcp_state::stopped;
    std::uint32_t transaction_ = 0;
    std::uint8_t tries_ = 0;          ///< of the question that is out
    std::uint8_t conflicts_ = 0; ///< since the last lease, ten at most
    std::uint8_t naks_ = 0;           ///< since the last lease
    std::uint8_t probes_sent_ = 0;
    bool probe_due_ = false;
    time_point due_ = never;          ///< of the state
    time_point began_{};              ///< to ask, for `secs`
    std::uint16_t discover_seconds_ = 0; ///< what the last DHCPDISCOVER said there
    time_point asked_{};              ///< the request that an acknowledgement answers: a lease counts from there (RFC 2131 4.4.1)
    ipv4 wanted_;                     ///< the address of an offer, or one that we had before
    ipv4 server_;                     ///< that made the offer
    dhcp_lease checked_;              ///< in CHECKING
    std::optional<dhcp_lease> lease_;
    std::uint32_t generation_ = 0;
    dhcp_outbox<dhcp_outgoing> outbox_;
    dhcp_statistics statistics_;
};

} // namespace corewire
