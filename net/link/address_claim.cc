#include <corewire/net/link/address_claim.hh>

#include <chrono>
#include <utility>

namespace corewire {

namespace {

// RFC 5227 1.1.
constexpr duration probe_wait = std::chrono::seconds{1};
constexpr duration probe_min = std::chrono::seconds{1};
constexpr duration probe_max = std::chrono::seconds{2};
constexpr duration announce_wait = std::chrono::seconds{2};
constexpr duration announce_interval = std::chrono::seconds{2};
constexpr duration defend_interval = std::chrono::seconds{10};
constexpr unsigned probe_count = 3;
constexpr unsigned announce_count = 2;

duration between(duration low, duration high, random_generator& random) noexcept {
    return low + duration{static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>((high - low).count()) + 1))};
}

} // namespace

void address_claim::start(time_point now, bool probe_first, bool ask, random_generator& random) noexcept {
    sent_ = 0;
    phase_ = probe_first ? claim_phase::probing : claim_phase::announcing;
    to_ask_ = ask && !probe_first;
    due_ = probe_first ? now + between(duration{0}, probe_wait, random) : now;
}

bool address_claim::is_conflict(const wire::arp_packet& arp) const noexcept {
    if (address_.is_any() || arp.sender_mac == mac_) return false; // our own, reflected
    if (arp.sender_ip == address_) return true;
    // RFC 5227 2.1.1: while we probe, somebody else's probe for the same address counts too.
    return phase_ == claim_phase::probing && arp.sender_ip.is_any() && arp.target_ip == address_ &&
           arp.operation == wire::arp_operation::request;
}

bool address_claim::on_arp(time_point now, const wire::arp_packet& arp, bool count) noexcept {
    if (!is_conflict(arp)) return false;
    if (count) ++conflicts_;
    rival_ = arp.sender_mac;
    if (phase_ == claim_phase::probing) {
        phase_ = claim_phase::lost;
        due_ = never;
        return true;
    }
    // RFC 5227 2.4 (b), (c): one announcement in defence, and no more for a while, or two hosts would shout forever.
    const bool defended_lately = defences_ != 0 && now - last_defence_ < defend_interval;
    if (phase_ == claim_phase::owned && !defended_lately) {
        ++defences_;
        last_defence_ = now;
        due_ = now;
    }
    return true;
}

std::optional<wire::arp_packet> address_claim::on_timer(time_point now, random_generator& random) noexcept {
    if (now < due_) return std::nullopt;
    switch (phase_) {
    case claim_phase::probing: return probe(now, random);
    case claim_phase::announcing:
        if (std::exchange(to_ask_, false)) return wire::arp_packet::request(mac_, ipv4::any(), address_);
        return announce(now);
    case claim_phase::owned: due_ = never; return wire::arp_packet::announcement(mac_, address_); // in defence
    case claim_phase::idle:
    case claim_phase::lost: due_ = never; break;
    }
    return std::nullopt;
}

std::optional<wire::arp_packet> address_claim::probe(time_point now, random_generator& random) noexcept {
    if (sent_ == probe_count) { // nobody answered
        phase_ = claim_phase::announcing;
        sent_ = 0;
        return announce(now);
    }
    ++sent_;
    due_ = now + (sent_ == probe_count ? announce_wait : between(probe_min, probe_max, random));
    return wire::arp_packet::request(mac_, ipv4::any(), address_);
}

std::optional<wire::arp_packet> address_claim::announce(time_point now) noexcept {
    ++sent_;
    due_ = now + announce_interval;
    if (sent_ == announce_count) {
        phase_ = claim_phase::owned;
        due_ = never;
    }
    return wire::arp_packet::announcement(mac_, address_);
}

} // namespace corewire
