// The ARP cache (RFC 826, RFC 1122 2.3.2) with neighbour unreachability detection after RFC 4861 7.3, which neighbor_table.hh
// does. What is added here: what ARP packets say, and our own address (address_claim.hh).
//
//     ARP request, reply --on_arp()--> poll_transmit(): our answer         timer --on_timer()--> poll_transmit(): requests
//
// One interface's, on one shard. Sans-I/O: after any call that may say something, take poll_transmit() and
// poll_released() until they say no; call on_timer() at next_timeout(). An unsolicited reply never makes an entry.
#pragma once

#include <corewire/net/link/address_claim.hh>
#include <corewire/net/link/neighbor_table.hh>
#include <corewire/net/wire/arp.hh>

namespace corewire {

/// A message for the caller to put into an Ethernet frame of type ARP.
struct arp_message {
    mac_address destination;
    wire::arp_packet arp;
};

/// What its receiver knows of an ARP packet.
struct arp_arrival {
    bool on_link = false; ///< a route says that the sender is on the link, in whatever network
    bool answer = true;   ///< false: another shard, which this is a copy of, answers it
};

class neighbor_cache final : public neighbor_table {
public:
    /// `own`: our address and its network. Of others nothing is learnt, unless they are known to be on the link or answer what we asked.
    neighbor_cache(mac_address own_mac, ip_prefix own, neighbor_options options = {}, std::uint64_t seed = random_seed());

    /// Announces our address; and asks first whether it is free, if told to: with the wait that RFC 5227 wants, or once without.
    void start(time_point now, bool probe_first = false, bool ask = false);
    const address_claim& claim() const noexcept { return claim_; }
    ip_prefix own() const noexcept { return own_; }
    /// Another address from now on, which is not announced yet. What was learnt under the former one is forgotten, and what waits is
    /// dropped: it would leave from an address that is not ours, the network may be another, and a question would be a probe (RFC 5227
    /// 1.1, RFC 2131 4.4.5).
    void set_own(ip_prefix own) noexcept {
        if (own.address() != own_.address()) forget_learnt();
        own_ = own;
        claim_.set_address(own.address());
    }

    /// An ARP packet has arrived.
    void on_arp(time_point now, const wire::arp_packet& arp, arp_arrival how = {}) noexcept;

    time_point next_timeout() const noexcept { return std::min(claim_.next_timeout(), next_change()); }
    /// Retransmits, probes, ages. When it returns with next_timeout() <= now, take poll_transmit() and call it again.
    void on_timer(time_point now) noexcept;

    bool poll_transmit(arp_message& out) noexcept { return outbox_.take(out); }

private:
    void ask(const neighbor& n) noexcept override;
    bool outbox_full() const noexcept override { return outbox_.full(); }
    void take_sender(time_point now, const wire::arp_packet& arp) noexcept;
    bool possible(const wire::arp_packet& arp) const noexcept;
    bool answers_us(const wire::arp_packet& arp) noexcept;
    bool asks_for_us(const wire::arp_packet& arp) const noexcept;
    void run_claim(time_point now) noexcept;
    bool say(mac_address destination, const wire::arp_packet& arp) noexcept;

    mac_address mac_;
    ip_prefix own_;
    address_claim claim_;
    outbox<arp_message> outbox_;
};

} // namespace corewire
