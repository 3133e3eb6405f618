// Our own address on the link: told to everyone when we start, watched for somebody else who uses it (RFC 5227).
//
//     idle --start--> [probing: 3 probes] --> announcing: [a probe]; 2 announcements --> owned
//                         | someone has it                   | someone uses it: defend once in 10 s, else
//                         v                                  v   count it and keep the address
//                        lost
//
// A part of a neighbor_cache. Sans-I/O: on_timer() says what to send. Who does not wait for the answers to probes may still ask:
// hosts that do not mind an announcement (Linux) answer a probe. A conflict is counted and reported, and the
// address is kept (RFC 5227 2.4 (c)): a server that gave its address up at a stranger's word would be easy to silence.
#pragma once

#include <corewire/net/wire/arp.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <optional>

namespace corewire {

enum class claim_phase : std::uint8_t {
    idle,       ///< start() has not been called
    probing,    ///< asking whether anybody has the address; it must not be used yet
    announcing, ///< telling everyone; in use
    owned,      ///< in use
    lost,       ///< a probe was answered: it must not be used
};

class address_claim {
public:
    address_claim(mac_address mac, ipv4 address) noexcept : mac_(mac), address_(address) {}

    /// probe_first: RFC 5227 in full, 4 to 7 s before the address may be used. Without it: announcements, and before them one probe
    /// if we are to `ask`.
    void start(time_point now, bool probe_first, bool ask, random_generator& random) noexcept;
    /// Another address from now on; start() claims it. The counters stay.
    void set_address(ipv4 address) noexcept {
        address_ = address;
        phase_ = claim_phase::idle;
        due_ = never;
    }
    claim_phase phase() const noexcept { return phase_; }
    bool usable() const noexcept { return phase_ == claim_phase::announcing || phase_ == claim_phase::owned; }

    /// An ARP packet has arrived. True if it comes from another machine that claims our address. `count`: no other shard counts it.
    bool on_arp(time_point now, const wire::arp_packet& arp, bool count) noexcept;
    /// When on_timer() has something to say.
    time_point next_timeout() const noexcept { return due_; }
    /// The probe or announcement to broadcast now, if one is due.
    std::optional<wire::arp_packet> on_timer(time_point now, random_generator& random) noexcept;

    std::uint64_t conflicts() const noexcept { return conflicts_; }
    std::uint64_t defences() const noexcept { return defences_; } ///< announcements sent because of a conflict
    mac_address rival() const noexcept { return rival_; }         ///< who claimed our address last; zero if nobody

private:
    bool is_conflict(const wire::arp_packet& arp) const noexcept;
    std::optional<wire::arp_packet> probe(time_point now, random_generator& random) noexcept;
    std::optional<wire::arp_packet> announce(time_point now) noexcept;

    mac_address mac_;
    ipv4 address_;
    claim_phase phase_ = claim_phase::idle;
    std::uint8_t sent_ = 0; ///< probes or announcements in this phase
    bool to_ask_ = false;   ///< the one probe before the announcements is due
    time_point due_ = never;
    time_point last_defence_{};
    mac_address rival_;
    std::uint64_t conflicts_ = 0;
    std::uint64_t defences_ = 0;
};

} // namespace corewire
