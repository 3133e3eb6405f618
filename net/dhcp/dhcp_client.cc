#include <corewire/net/dhcp/dhcp_client.hh>

#include <corewire/net/wire/arp.hh>
#include <corewire/reactor/base/assert.hh>

#include <bit>
#include <utility>

namespace corewire {

namespace {

using std::chrono::seconds;
using type = dhcp_message_type;

// RFC 2131 4.1, 4.4.5, 3.1 (5).
constexpr duration first_wait = seconds{4}, longest_wait = seconds{64}, jitter = seconds{1};
constexpr duration least_renewal_wait = seconds{60};
constexpr duration least_rest = seconds{1}; ///< between an answer and the next question, however short the lease
constexpr duration wait_after_decline = seconds{10}, wait_after_many = seconds{60}; ///< RFC 5227 2.1.1: RATE_LIMIT_INTERVAL
constexpr unsigned many_conflicts = 10;                                              ///< MAX_CONFLICTS
constexpr unsigned most_requests = 4;
constexpr std::uint16_t least_mtu = 576; // RFC 1122 3.3.2: every host takes so much
constexpr std::uint32_t for_ever = 0xffffffff;

time_point later(time_point from, std::uint32_t s) noexcept { return s == for_ever ? never : from + seconds{s}; }

/// RFC 950's day: a server that says no mask means the address's class.
std::uint8_t class_length(ipv4 a) noexcept {
    const std::uint32_t top = a.value() >> 30;
    return top < 2 ? 8 : top == 2 ? 16 : 24;
}

/// One beyond the network, as of a lease of a single address, is on the link all the same: nothing else could lead to it.
void take_router(ipv4 router, dhcp_lease& out) noexcept {
    if (!out.address.contains(router)) out.routes.push({ip_prefix(router, 32), ipv4::any()});
    out.routes.push({ip_prefix(ipv4::any(), 0), router});
}

} // namespace

dhcp_client::dhcp_client(mac_address mac, dhcp_options options, std::uint64_t seed)
    : mac_(mac), options_(std::move(options)), id_(dhcp_client_id::of(mac, options_.association)), random_(seed) {}

duration dhcp_client::part_of(duration whole) noexcept {
    return duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(std::max<std::int64_t>(whole.count(), 0)) + 1))};
}

void dhcp_client::start(time_point now, std::optional<ipv4> remembered) noexcept {
    wanted_ = remembered.value_or(ipv4::any());
    began_ = now;
    if (!remembered) return begin(now, part_of(options_.start_delay));
    enter(dhcp_state::rebooting);
    due_ = now + part_of(options_.start_delay);
}

/// INIT, and DISCOVER after `wait`.
void dhcp_client::begin(time_point now, duration wait) noexcept {
    lose();
    enter(dhcp_state::init);
    began_ = now + wait;
    due_ = began_;
}

/// A state in which a new question is asked, under a new number.
void dhcp_client::enter(dhcp_state state) noexcept {
    state_ = state;
    tries_ = 0;
    transaction_ = static_cast<std::uint32_t>(random_.next());
    probe_due_ = false;
}

void dhcp_client::lose() noexcept {
    if (!lease_) return;
    wanted_ = lease_->address.address(); // the next server is asked for it
    lease_.reset();
    ++generation_;
}

void dhcp_client::release(time_point now) noexcept {
    if (state_ == dhcp_state::checking) lease_ = checked_; // the server has given it away
    if (lease_) {
        transaction_ = static_cast<std::uint32_t>(random_.next());
        say(now, type::release);
    }
    lose();
    state_ = dhcp_state::stopped;
    probe_due_ = false;
    due_ = never;
}

// ---- time ----

time_point dhcp_client::next_timeout() const noexcept {
    if (!lease_ || state_ == dhcp_state::bound) return due_;
    return std::min(due_, state_ == dhcp_state::renewing ? lease_->rebind_at : lease_->ends_at);
}

void dhcp_client::on_timer(time_point now) noexcept {
    if (lease_ && lease_->ends_at <= now) { // RFC 2131 4.4.5: it must stop to use the address, at once
        ++statistics_.expired;
        return begin(now, duration{0});
    }
    if (lease_ && lease_->rebind_at <= now && (state_ == dhcp_state::bound || state_ == dhcp_state::renewing)) {
        enter(dhcp_state::rebinding);
        began_ = now;
        return ask(now);
    }
    if (due_ > now) return;
    switch (state_) {
    case dhcp_state::stopped: due_ = never; return;
    case dhcp_state::init:
        enter(dhcp_state::selecting);
        began_ = now;
        return ask(now);
    case dhcp_state::bound:
        enter(dhcp_state::renewing);
        began_ = now;
        return ask(now);
    case dhcp_state::checking: return check_next(now);
    case dhcp_state::requesting:
    case dhcp_state::rebooting:
        if (tries_ == most_requests) return begin(now, duration{0}); // RFC 2131 3.1 (5), 3.2 (3)
        return ask(now);
    case dhcp_state::selecting:
    case dhcp_state::renewing:
    case dhcp_state::rebinding: return ask(now);
    }
}

/// Asks (again), and waits for an answer.
void dhcp_client::ask(time_point now) noexcept {
    const bool keeps_lease = state_ == dhcp_state::renewing || state_ == dhcp_state::rebinding;
    // Which request an answer is to must be known: a lease counts from there. Who uses an address may wait for hours, and asks under a
    // new number each time (RFC 2131 4.1 allows it); without one, the first of a minute's requests is the safe guess.
    if (keeps_lease && tries_ != 0) transaction_ = static_cast<std::uint32_t>(random_.next());
    if (keeps_lease || tries_ == 0) asked_ = now;
    say(now, state_ == dhcp_state::selecting ? type::discover : type::request);
    if (!keeps_lease) {
        due_ = now + back_off();
        return;
    }
    // RFC 2131 4.4.5: half of what is left until the next state, no less than a minute.
    const time_point until = state_ == dhcp_state::renewing ? lease_->rebind_at : lease_->ends_at;
    due_ = now + std::max<duration>((until - now) / 2, least_renewal_wait);
    tries_ = 1;
}

/// RFC 2131 4.1: 4 s, 8 s, ... 64 s, each a second more or less.
duration dhcp_client::back_off() noexcept {
    const duration wait = std::min<duration>(first_wait * (std::int64_t{1} << std::min<unsigned>(tries_, 5)), longest_wait);
    if (tries_ != UINT8_MAX) ++tries_;
    return wait - jitter + part_of(2 * jitter);
}

// ---- what arrives ----

void dhcp_client::input(time_point now, byte_span message) noexcept {
    ++statistics_.received;
    dhcp_reply reply;
    switch (parse_dhcp_reply(message, mac_, id_, reply)) {
    case dhcp_parse_error::none: break;
    case dhcp_parse_error::not_ours: ++statistics_.ignored; return;
    case dhcp_parse_error::not_a_reply:
    case dhcp_parse_error::bad_option: ++statistics_.malformed; return;
    }
    // RFC 2131 4.4.1, 4.4.5: answers to a question that is out. RFC 6842 3: and to us, by our identifier.
    if (reply.transaction != transaction_ || reply.foreign_client_id) {
        ++statistics_.ignored;
        return;
    }
    statistics_.left_out += reply.routes_left_out + reply.addresses_left_out;
    switch (reply.type) {
    case type::offer: return on_offer(now, reply);
    case type::ack: return on_ack(now, reply);
    case type::nak: return on_nak(now, reply);
    default: ++statistics_.ignored;
    }
}

/// What the reply gives us, if a host can have it; else it is counted.
std::optional<dhcp_lease> dhcp_client::acceptable(const dhcp_reply& reply) noexcept {
    dhcp_lease lease;
    if (make_lease(reply, lease)) return lease;
    ++statistics_.unusable;
    return std::nullopt;
}

bool dhcp_client::make_lease(const dhcp_reply& reply, dhcp_lease& out) const noexcept {
    const ipv4 mine = reply.your_address;
    if (!mine.is_unicast() || mine.is_loopback() || !reply.server || !reply.server->is_unicast() || !reply.lease_seconds) return false;
    const auto length = reply.mask ? static_cast<std::uint8_t>(std::popcount(reply.mask->value())) : class_length(mine);
    out.address = ip_prefix(mine, length);
    if (length < 31 && (mine == out.address.network() || mine == out.address.broadcast())) return false;
    out.server = *reply.server;
    if (*reply.lease_seconds == 0) return false;
    out.routes_left_out = reply.routes_left_out;
    if (reply.routes) out.routes = *reply.routes; // RFC 3442: then the routers do not count
    else if (!reply.routers.empty()) take_router(reply.routers.items[0], out);
    out.name_servers = reply.name_servers;
    out.domain = reply.domain;
    if (reply.mtu && *reply.mtu >= least_mtu) out.mtu = *reply.mtu;
    return true;
}

/// The first that we can use is taken.
void dhcp_client::on_offer(time_point now, const dhcp_reply& reply) noexcept {
    if (state_ != dhcp_state::selecting) {
        ++statistics_.ignored;
        return;
    }
    if (!acceptable(reply)) return;
    wanted_ = reply.your_address;
    server_ = *reply.server;
    state_ = dhcp_state::requesting; // under the offer's number (RFC 2131 4.4.1)
    tries_ = 0;
    ask(now);
}

void dhcp_client::on_ack(time_point now, const dhcp_reply& reply) noexcept {
    const bool asks = state_ == dhcp_state::requesting || state_ == dhcp_state::rebooting;
    const bool keeps = state_ == dhcp_state::renewing || state_ == dhcp_state::rebinding;
    const ipv4 expected = keeps ? lease_->address.address() : wanted_;
    const bool other_server = (state_ == dhcp_state::requesting && reply.server != server_) ||
                              (state_ == dhcp_state::renewing && reply.server != lease_->server);
    if ((!asks && !keeps) || reply.your_address != expected || other_server) {
        ++statistics_.ignored;
        return;
    }
    const std::optional<dhcp_lease> given = acceptable(reply);
    if (!given) return;
    dhcp_lease lease = *given;
    // RFC 2131 4.4.1: from when it was asked for. 4.4.5: T1 is half of it, T2 seven eighths, unless the server says otherwise and it
    // makes sense; both a little earlier by chance, so that not all hosts of a network that was without power come at once.
    const std::uint32_t length = *reply.lease_seconds;
    lease.ends_at = later(asked_, length);
    if (length != for_ever) {
        std::uint32_t t2 = reply.rebinding_seconds.value_or(0), t1 = reply.renewal_seconds.value_or(0);
        if (t2 == 0 || t2 >= length) t2 = static_cast<std::uint32_t>(std::uint64_t{length} * 7 / 8);
        if (t1 == 0 || t1 >= t2) t1 = std::min(length / 2, t2);
        const time_point renew_at = asked_ + seconds{t1} - part_of(seconds{t1} / 16);
        const time_point rebind_at = asked_ + seconds{t2} - part_of(seconds{t2 - t1} / 16);
        lease.renew_at = std::min(std::max(renew_at, now + least_rest), lease.ends_at);
        lease.rebind_at = std::min(std::max(rebind_at, lease.renew_at), lease.ends_at);
    }
    naks_ = 0;
    if (keeps) {
        ++statistics_.renewals;
        return bind(now, lease);
    }
    checked_ = lease;
    state_ = dhcp_state::checking;
    probes_sent_ = 0;
    check_next(now);
}

void dhcp_client::on_nak(time_point now, const dhcp_reply& reply) noexcept {
    const bool asks = state_ == dhcp_state::requesting || state_ == dhcp_state::rebooting || state_ == dhcp_state::renewing ||
                      state_ == dhcp_state::rebinding;
    const bool other_server = (state_ == dhcp_state::requesting && reply.server && *reply.server != server_) ||
                              (state_ == dhcp_state::renewing && reply.server && *reply.server != lease_->server);
    if (!asks || other_server) {
        ++statistics_.ignored;
        return;
    }
    ++statistics_.refused;
    // Begin anew; more slowly each time, for a server that offers what it then refuses.
    const duration growing = seconds{std::int64_t{1} << std::min<unsigned>(naks_, 6)};
    const duration wait = naks_ == 0 ? duration{0} : std::min(growing, longest_wait);
    if (naks_ != UINT8_MAX) ++naks_;
    begin(now, wait + part_of(options_.start_delay));
    wanted_ = ipv4::any();
}

// ---- whether somebody has the address ----

void dhcp_client::check_next(time_point now) noexcept {
    if (probes_sent_ == options_.probes) return keep_lease(now);
    ++probes_sent_;
    probe_due_ = true;
    due_ = now + options_.probe_interval;
}

void dhcp_client::keep_lease(time_point now) noexcept {
    if (checked_.ends_at <= now) { // over before it began: as after an address that is taken (RFC 2131 3.1)
        ++statistics_.expired;
        return begin(now, wait_after_decline);
    }
    ++statistics_.leases;
    conflicts_ = 0;
    bind(now, checked_);
}

void dhcp_client::bind(time_point now, const dhcp_lease& lease) noexcept {
    if (!lease_ || !lease_->same_configuration(lease)) ++generation_;
    lease_ = lease;
    state_ = dhcp_state::bound;
    probe_due_ = false;
    transaction_ = static_cast<std::uint32_t>(random_.next()); // nothing is asked
    due_ = std::max(lease.renew_at, now);
}

void dhcp_client::on_arp(time_point now, const wire::arp_packet& arp) noexcept {
    if (state_ != dhcp_state::checking || arp.sender_mac == mac_) return;
    const ipv4 mine = checked_.address.address();
    // RFC 5227 2.1.1: its owner, or somebody who is about to take it as well.
    const bool asks_too = arp.sender_ip.is_any() && arp.target_ip == mine && arp.operation == wire::arp_operation::request;
    if (arp.sender_ip != mine && !asks_too) return;
    decline(now);
}

/// RFC 2131 3.1 (5), 4.4.1: the server is told, and ten seconds are waited.
void dhcp_client::decline(time_point now) noexcept {
    ++statistics_.conflicts;
    transaction_ = static_cast<std::uint32_t>(random_.next());
    wanted_ = checked_.address.address();
    server_ = checked_.server;
    say(now, type::decline);
    if (conflicts_ < many_conflicts) ++conflicts_;
    begin(now, conflicts_ < many_conflicts ? wait_after_decline : wait_after_many);
    wanted_ = ipv4::any();
}

// ---- what is said ----

/// RFC 2131 4.4.1, table 5.
void dhcp_client::say(time_point now, dhcp_message_type what) noexcept {
    if (outbox_.full()) {
        ++statistics_.outbox_full;
        return;
    }
    dhcp_request m{.type = what, .transaction = transaction_, .mac = mac_, .id = id_};
    m.max_size = options_.max_message;
    m.host_name = options_.host_name;
    dhcp_outgoing& out = outbox_.add();
    out.type = what;
    out.source = ipv4::any();
    out.destination = ipv4::broadcast();
    const auto asking_for = std::chrono::duration_cast<seconds>(now - began_).count();
    m.seconds = static_cast<std::uint16_t>(std::clamp<std::int64_t>(asking_for, 0, 0xffff));
    const bool has_address = lease_ && (what == type::release || state_ == dhcp_state::renewing || state_ == dhcp_state::rebinding);
    if (has_address) {
        m.client_address = out.source = lease_->address.address();
        if (what == type::release) m.server = lease_->server;
        if (what == type::release || state_ == dhcp_state::renewing) out.destination = lease_->server;
    } else {
        m.broadcast = what != type::decline;
        if (!wanted_.is_any()) m.requested = wanted_;
        if (what == type::decline || state_ == dhcp_state::requesting) m.server = server_;
    }
    if (what == type::release || what == type::decline) m.seconds = 0;
    if (what == type::discover) discover_seconds_ = m.seconds;
    if (what == type::request && state_ == dhcp_state::requesting) m.seconds = discover_seconds_; // RFC 2131 3.1 (3) (MUST)
    out.size = static_cast<std::uint16_t>(write_dhcp_request(m, out.bytes));
}

bool dhcp_client::poll_transmit(dhcp_outgoing& out) noexcept {
    const bool any = outbox_.take(out);
    if (any) ++statistics_.sent;
    return any;
}

bool dhcp_client::poll_probe(ipv4& target) noexcept {
    if (!std::exchange(probe_due_, false)) return false;
    target = checked_.address.address();
    return true;
}

void dhcp_client::on_probe_unsent() noexcept {
    if (state_ == dhcp_state::checking && probes_sent_ != 0) --probes_sent_;
}

void dhcp_client::check_invariants() const {
    const bool uses = state_ == dhcp_state::bound || state_ == dhcp_state::renewing || state_ == dhcp_state::rebinding;
    CW_ASSERT(uses == lease_.has_value(), "an address is used while there is a lease, and only then");
    CW_ASSERT(state_ == dhcp_state::stopped || state_ == dhcp_state::bound || due_ != never || (lease_ && lease_->ends_at == never),
              "who waits for an answer has a timer");
    if (!lease_) return;
    CW_ASSERT(lease_->renew_at <= lease_->rebind_at && lease_->rebind_at <= lease_->ends_at, "T1, T2 and the end are in order");
}

} // namespace corewire
