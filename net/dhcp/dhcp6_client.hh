// The client's part of DHCPv6 (RFC 8415 18.2): addresses of one IA_NA, or other settings alone, as router advertisements say (M, O).
//
//     M: SOLICITING --the best advertisement--> REQUESTING --reply--> BOUND --T1--> RENEWING --T2--> REBINDING
//            ^    \---rapid commit: reply--------------------------->  ^ ^            | reply           | reply
//            |                                     somebody has it: DECLINING         v                 v
//            +-- refused, silence, the last address's end ------------+ +-------------+-----------------+
//     O: INFORMING --reply--> INFORMED --the refresh time--> INFORMING
//
// One interface's, on one shard. Sans-I/O: time comes in; after any call that may say something poll_transmit() gives what to send (to
// dhcp6_servers, from our link-local address) until it says no; generation() tells when lease() is another. Whether an address may be
// used is duplicate address detection's business (ipv6_addresses.hh). Bounded: four addresses, two messages that wait to be sent.
#pragma once

#include <corewire/net/dhcp/dhcp6_message.hh>
#include <corewire/net/dhcp/dhcp_outbox.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <chrono>
#include <cstdint>

namespace corewire {

struct dhcp6_options {
    std::uint32_t association = 1; ///< IAID
    bool rapid_commit = true;      ///< a server may answer with a lease at once
    duration start_delay = std::chrono::seconds{1}; ///< SOL_MAX_DELAY, INF_MAX_DELAY
};

struct dhcp6_leased {
    ipv6 address;
    time_point preferred_until = never, valid_until = never;
    friend bool operator==(const dhcp6_leased&, const dhcp6_leased&) = default;
};

struct dhcp6_lease {
    bounded_list<dhcp6_leased, 4> addresses; ///< none: other settings alone
    dhcp6_duid server;
    bounded_list<ipv6, 4> name_servers;
    wire::domain_name domain;
    time_point renew_at = never, rebind_at = never;
};

enum class dhcp6_state : std::uint8_t {
    stopped,
    soliciting,
    requesting,
    bound,
    renewing,
    rebinding,
    declining,
    informing,
    informed,
};

struct dhcp6_outgoing {
    dhcp6_message_type type = dhcp6_message_type::none;
    std::uint16_t size = 0;
    std::array<std::byte, dhcp6_request_size> bytes;
    byte_span message() const noexcept { return {bytes.data(), size}; }
};

struct dhcp6_statistics {
    std::uint64_t sent = 0, received = 0;
    std::uint64_t malformed = 0;
    std::uint64_t ignored = 0;   ///< another's number or identifier, not expected now, from another server
    std::uint64_t refused = 0;   ///< a status that is no success
    std::uint64_t conflicts = 0; ///< addresses that somebody had: declined
    std::uint64_t expired = 0;   ///< addresses whose time ended
    std::uint64_t leases = 0, renewals = 0;
    std::uint64_t left_out = 0;  ///< addresses and name servers of an answer for which there was no room
    std::uint64_t outbox_full = 0;
};

class dhcp6_client {
public:
    dhcp6_client(mac_address mac, dhcp6_options options, std::uint64_t seed) noexcept;

    /// A router has said whether addresses (M) and other settings (O) come by DHCPv6 (RFC 4861 4.2). What has begun goes on though a later
    /// one says no.
    void on_flags(time_point now, bool managed, bool other) noexcept;
    /// Gives the addresses back and stops, whatever routers say from now on.
    void release(time_point now) noexcept;
    /// A datagram to our port 546: the UDP payload, whole.
    void input(time_point now, byte_span message) noexcept;
    /// Another host has an address of the lease.
    void on_duplicate(time_point now, const ipv6& address) noexcept;
    time_point next_timeout() const noexcept;
    void on_timer(time_point now) noexcept;
    bool poll_transmit(dhcp6_outgoing& out) noexcept;

    dhcp6_state state() const noexcept { return state_; }
    const dhcp6_lease& lease() const noexcept { return lease_; }
    std::uint32_t generation() const noexcept { return generation_; }
    const dhcp6_statistics& statistics() const noexcept { return statistics_; }
    byte_span duid() const noexcept { return byte_span(id_.bytes).subspan(5, id_.size - 5u); }
    void check_invariants() const;

private:
    /// RFC 8415 15.
    struct schedule {
        duration first, longest;
        unsigned times = 0; ///< 0: for ever
    };
    schedule schedule_of(dhcp6_state state) const noexcept;
    void enter(time_point now, dhcp6_state state, duration wait = duration{0}) noexcept;
    void solicit_again(time_point now) noexcept;
    void ask(time_point now) noexcept;
    void say(time_point now, dhcp6_message_type type, std::span<const dhcp6_address> about) noexcept;
    void give_up(time_point now) noexcept;
    void on_advertise(time_point now, const dhcp6_reply& reply) noexcept;
    void on_reply(time_point now, const dhcp6_reply& reply) noexcept;
    void take_lease(time_point now, const dhcp6_reply& reply) noexcept;
    void take_settings(const dhcp6_reply& reply) noexcept;
    void request_from(time_point now, const dhcp6_reply& advertised) noexcept;
    bool drop_expired(time_point now) noexcept;
    duration spread(duration about) noexcept;
    duration start_delay() noexcept;

    dhcp6_options options_;
    dhcp_client_id id_; ///< RFC 4361: its DUID is ours here
    random_generator random_;
    dhcp6_state state_ = dhcp6_state::stopped;
    bool released_ = false;
    std::uint32_t transaction_ = 0;
    std::uint8_t tries_ = 0;    ///< of the question that is out
    std::uint8_t failures_ = 0;  ///< since the last lease
    std::uint8_t conflicts_ = 0; ///< since the last renewal
    duration wait_{};           ///< RT
    time_point due_ = never;
    time_point asked_first_{};
    bool has_best_ = false;
    dhcp6_reply best_;          ///< the best advertisement while others may come
    bounded_list<dhcp6_address, 4> wanted_; ///< what a server has advertised, or what is declined
    dhcp6_lease lease_;
    std::uint32_t generation_ = 0;
    duration solicit_max_ = std::chrono::hours{1}, information_max_ = std::chrono::hours{1};
    dhcp_outbox<dhcp6_outgoing> outbox_;
    dhcp6_statistics statistics_;
};

} // namespace corewire
