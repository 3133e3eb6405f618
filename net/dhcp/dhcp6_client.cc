#include <corewire/net/dhcp/dhcp6_client.hh>

#include <corewire/reactor/base/assert.hh>

#include <algorithm>

namespace corewire {

namespace {

using std::chrono::seconds;
using type = dhcp6_message_type;

constexpr std::uint32_t for_ever = 0xffffffff;
constexpr std::uint32_t least_wait = 60; ///< seconds to the next question, where that is ours to choose: a server's answers make no storm
constexpr std::uint8_t best_preference = 255;

time_point later(time_point now, std::uint32_t s) noexcept { return s == for_ever ? never : now + seconds{s}; }

/// The reverse.
std::uint32_t seconds_until(time_point now, time_point end) noexcept {
    if (end == never) return for_ever;
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(std::chrono::duration_cast<seconds>(end - now).count(), 0, for_ever - 1));
}

/// RFC 8415 21.24: what lies outside of its bounds is ignored.
void take_maximum(const std::optional<std::uint32_t>& told, duration& out) noexcept {
    if (told && *told >= 60 && *told <= 86'400) out = seconds{*told};
}

} // namespace

dhcp6_client::dhcp6_client(mac_address mac, dhcp6_options options, std::uint64_t seed) noexcept
    : options_(options), id_(dhcp_client_id::of(mac, options.association)), random_(seed) {}

/// RAND is within a tenth (RFC 8415 15).
duration dhcp6_client::spread(duration about) noexcept {
    const std::int64_t tenth = about.count() / 10;
    return duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(2 * tenth) + 1)) - tenth};
}

/// RFC 8415 7.6.
dhcp6_client::schedule dhcp6_client::schedule_of(dhcp6_state state) const noexcept {
    switch (state) {
    case dhcp6_state::soliciting: return {seconds{1}, solicit_max_};
    case dhcp6_state::requesting: return {seconds{1}, seconds{30}, 10};
    case dhcp6_state::renewing:
    case dhcp6_state::rebinding: return {seconds{10}, seconds{600}};
    case dhcp6_state::declining: return {seconds{1}, duration{0}, 4};
    default: return {seconds{1}, information_max_};
    }
}

duration dhcp6_client::start_delay() noexcept {
    return duration{static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(options_.start_delay.count()) + 1))};
}

constexpr unsigned solicits_in_vain = 4; ///< some ten seconds

void dhcp6_client::on_flags(time_point now, bool managed, bool other) noexcept {
    if (released_) return;
    const bool without_addresses =
        state_ == dhcp6_state::stopped || state_ == dhcp6_state::informing || state_ == dhcp6_state::informed;
    if (managed && without_addresses) enter(now, dhcp6_state::soliciting, start_delay()); // RFC 4861 4.2: O says nothing more then
    else if (other && state_ == dhcp6_state::stopped) enter(now, dhcp6_state::informing, start_delay());
    // Nobody has answered who has addresses, and a router says that there are none: what there is besides is asked for. Where another
    // router says otherwise, both are asked for by turns.
    else if (other && !managed && state_ == dhcp6_state::soliciting && tries_ >= solicits_in_vain)
        enter(now, dhcp6_state::informing, start_delay());
}

/// A new question, which is asked after `wait`.
void dhcp6_client::enter(time_point now, dhcp6_state state, duration wait) noexcept {
    state_ = state;
    tries_ = 0;
    has_best_ = false;
    transaction_ = static_cast<std::uint32_t>(random_.next()) & 0xffffff;
    due_ = now + wait;
    if (wait == duration{0} && state != dhcp6_state::bound && state != dhcp6_state::informed) ask(now);
}

/// More slowly each time, for a server that advertises what it then refuses.
void dhcp6_client::solicit_again(time_point now) noexcept {
    const duration wait = seconds{std::int64_t{1} << std::min<unsigned>(failures_, 7)};
    if (failures_ != UINT8_MAX) ++failures_;
    enter(now, dhcp6_state::soliciting, wait + spread(wait));
}

void dhcp6_client::release(time_point now) noexcept {
    released_ = true;
    if (!lease_.addresses.empty()) {
        bounded_list<dhcp6_address, 4> all;
        for (const dhcp6_leased& each : lease_.addresses.all()) all.push({each.address, 0, 0});
        transaction_ = static_cast<std::uint32_t>(random_.next()) & 0xffffff;
        asked_first_ = now;
        say(now, type::release, all.all()); // once: who goes does not wait for the answer
        ++generation_;
    }
    lease_ = {};
    state_ = dhcp6_state::stopped;
    due_ = never;
}

// ---- time ----

time_point dhcp6_client::next_timeout() const noexcept {
    time_point first = due_;
    for (const dhcp6_leased& each : lease_.addresses.all()) first = std::min(first, each.valid_until);
    if (state_ == dhcp6_state::bound || state_ == dhcp6_state::renewing) first = std::min(first, lease_.rebind_at);
    return first;
}

bool dhcp6_client::drop_expired(time_point now) noexcept {
    bounded_list<dhcp6_leased, 4> left;
    for (const dhcp6_leased& each : lease_.addresses.all())
        if (each.valid_until > now) left.push(each);
    if (left.count == lease_.addresses.count) return false;
    statistics_.expired += lease_.addresses.count - left.count;
    lease_.addresses = left;
    ++generation_;
    return true;
}

void dhcp6_client::on_timer(time_point now) noexcept {
    const bool keeps = state_ == dhcp6_state::bound || state_ == dhcp6_state::renewing || state_ == dhcp6_state::rebinding;
    if (drop_expired(now) && keeps && lease_.addresses.empty()) return enter(now, dhcp6_state::soliciting);
    if (lease_.rebind_at <= now && (state_ == dhcp6_state::bound || state_ == dhcp6_state::renewing))
        return enter(now, dhcp6_state::rebinding);
    if (due_ > now) return;
    switch (state_) {
    case dhcp6_state::stopped: due_ = never; return;
    case dhcp6_state::bound: return enter(now, dhcp6_state::renewing);
    case dhcp6_state::informed: return enter(now, dhcp6_state::informing, start_delay()); // RFC 8415 21.23: others were told when we were
    case dhcp6_state::soliciting:
        if (has_best_) return request_from(now, best_); // RFC 8415 18.2.1: after the first RT, the best of those that came
        return ask(now);
    default: break;
    }
    const schedule how = schedule_of(state_);
    if (how.times != 0 && tries_ >= how.times) return give_up(now);
    ask(now);
}

/// The question has been asked as often as it may.
void dhcp6_client::give_up(time_point now) noexcept {
    if (state_ == dhcp6_state::declining && !lease_.addresses.empty()) {
        enter(now, dhcp6_state::bound);
        due_ = lease_.renew_at;
        return;
    }
    solicit_again(now);
}

void dhcp6_client::ask(time_point now) noexcept {
    if (tries_ == 0) asked_first_ = now;
    bounded_list<dhcp6_address, 4> about = wanted_;
    if (state_ == dhcp6_state::renewing || state_ == dhcp6_state::rebinding) {
        about = {};
        for (const dhcp6_leased& each : lease_.addresses.all()) about.push({each.address, 0, 0});
    }
    switch (state_) {
    case dhcp6_state::soliciting: say(now, type::solicit, {}); break;
    case dhcp6_state::requesting: say(now, type::request, about.all()); break;
    case dhcp6_state::renewing: say(now, type::renew, about.all()); break;
    case dhcp6_state::rebinding: say(now, type::rebind, about.all()); break;
    case dhcp6_state::declining: say(now, type::decline, about.all()); break;
    default: say(now, type::information_request, {}); break;
    }
    const schedule how = schedule_of(state_);
    if (tries_ == 0) {
        const duration by_chance = spread(how.first);
        // RFC 8415 18.2.1: the first wait for advertisements is no shorter than a second.
        wait_ = how.first + (state_ == dhcp6_state::soliciting && by_chance < duration{0} ? -by_chance : by_chance);
    } else {
        wait_ = 2 * wait_ + spread(wait_);
        if (how.longest != duration{0} && wait_ > how.longest) wait_ = how.longest + spread(how.longest);
    }
    if (tries_ != UINT8_MAX) ++tries_;
    due_ = now + wait_;
}

void dhcp6_client::say(time_point now, dhcp6_message_type what, std::span<const dhcp6_address> about) noexcept {
    if (outbox_.full()) {
        ++statistics_.outbox_full;
        return;
    }
    const auto hundredths = std::chrono::duration_cast<std::chrono::milliseconds>(now - asked_first_).count() / 10;
    dhcp6_request m{.type = what, .transaction = transaction_, .duid = duid(), .association = options_.association, .addresses = about};
    m.elapsed = static_cast<std::uint16_t>(std::clamp<std::int64_t>(hundredths, 0, 0xffff));
    m.wants_addresses = what != type::information_request;
    m.rapid = what == type::solicit && options_.rapid_commit;
    const bool to_one = what == type::request || what == type::renew || what == type::release || what == type::decline;
    if (to_one) m.server = lease_.server.all();
    dhcp6_outgoing& out = outbox_.add();
    out.type = what;
    out.size = static_cast<std::uint16_t>(write_dhcp6_request(m, out.bytes));
}

bool dhcp6_client::poll_transmit(dhcp6_outgoing& out) noexcept {
    const bool any = outbox_.take(out);
    if (any) ++statistics_.sent;
    return any;
}

// ---- what arrives ----

void dhcp6_client::input(time_point now, byte_span message) noexcept {
    ++statistics_.received;
    dhcp6_reply reply;
    if (parse_dhcp6_reply(message, duid(), options_.association, reply) != dhcp6_parse_error::none) {
        ++statistics_.malformed;
        return;
    }
    // RFC 8415 16.3, 16.10: both identifiers, and the number of the question that is out.
    if (reply.transaction != transaction_ || !reply.ours || reply.server.empty() || tries_ == 0) {
        ++statistics_.ignored;
        return;
    }
    statistics_.left_out += reply.left_out;
    take_maximum(reply.solicit_max, solicit_max_); // even of who has no addresses (RFC 8415 18.2.9)
    take_maximum(reply.information_max, information_max_);
    if (reply.type == type::advertise) on_advertise(now, reply);
    else on_reply(now, reply);
}

/// RFC 8415 18.2.9.
void dhcp6_client::on_advertise(time_point now, const dhcp6_reply& reply) noexcept {
    if (state_ != dhcp6_state::soliciting) {
        ++statistics_.ignored;
        return;
    }
    if (reply.status != dhcp6_status::success || reply.association_status != dhcp6_status::success || reply.addresses.empty()) {
        ++statistics_.refused;
        return;
    }
    if (reply.preference == best_preference || tries_ > 1) return request_from(now, reply);
    if (has_best_ && reply.preference <= best_.preference) return;
    best_ = reply;
    has_best_ = true;
}

void dhcp6_client::request_from(time_point now, const dhcp6_reply& advertised) noexcept {
    lease_.server = advertised.server;
    wanted_ = advertised.addresses;
    enter(now, dhcp6_state::requesting);
}

/// RFC 8415 18.2.10.
void dhcp6_client::on_reply(time_point now, const dhcp6_reply& reply) noexcept {
    const bool to_one = state_ == dhcp6_state::requesting || state_ == dhcp6_state::renewing || state_ == dhcp6_state::declining;
    const bool expected = state_ != dhcp6_state::bound && state_ != dhcp6_state::stopped && state_ != dhcp6_state::informed &&
                          (state_ != dhcp6_state::soliciting || (reply.rapid && options_.rapid_commit));
    if (!expected || (to_one && reply.server != lease_.server)) {
        ++statistics_.ignored;
        return;
    }
    if (state_ == dhcp6_state::declining) return give_up(now); // whatever it says (18.2.10.3)
    if (state_ == dhcp6_state::informing) {
        take_settings(reply);
        enter(now, dhcp6_state::informed);
        // RFC 8415 21.23: a day, and no less than ten minutes.
        const std::uint32_t refresh = std::max<std::uint32_t>(reply.information_refresh.value_or(86'400), 600);
        due_ = later(now, refresh);
        return;
    }
    const dhcp6_status why = reply.status != dhcp6_status::success ? reply.status : reply.association_status;
    if (why != dhcp6_status::success) {
        ++statistics_.refused;
        const bool keeps = state_ == dhcp6_state::renewing || state_ == dhcp6_state::rebinding;
        if (keeps && why == dhcp6_status::no_binding) { // 18.2.10.1: it may make one
            wanted_ = {};
            for (const dhcp6_leased& each : lease_.addresses.all()) wanted_.push({each.address, 0, 0});
            lease_.server = reply.server;
            return enter(now, dhcp6_state::requesting);
        }
        const bool final = why == dhcp6_status::not_on_link || why == dhcp6_status::no_addresses || why == dhcp6_status::no_binding;
        if (!keeps && final) solicit_again(now);
        return; // else the question is repeated
    }
    if (!reply.has_association || reply.addresses.empty()) {
        ++statistics_.ignored;
        return;
    }
    take_lease(now, reply);
}

void dhcp6_client::take_settings(const dhcp6_reply& reply) noexcept {
    if (lease_.name_servers != reply.name_servers || lease_.domain != reply.domain) ++generation_;
    lease_.name_servers = reply.name_servers;
    lease_.domain = reply.domain;
}

void dhcp6_client::take_lease(time_point now, const dhcp6_reply& reply) noexcept {
    const bool renews = state_ == dhcp6_state::renewing || state_ == dhcp6_state::rebinding;
    bounded_list<dhcp6_leased, 4> now_ours;
    for (const dhcp6_address& each : reply.addresses.all()) {
        if (each.valid == 0) continue; // 18.2.10.1: it is taken away
        now_ours.push({each.address, later(now, each.preferred), later(now, each.valid)});
    }
    for (const dhcp6_leased& old : lease_.addresses.all()) { // those that it says nothing of stay as they are
        const auto same = [&](const dhcp6_address& a) { return a.address == old.address; };
        if (!std::ranges::any_of(reply.addresses.all(), same)) now_ours.push(old);
    }
    lease_.addresses = now_ours;
    lease_.server = reply.server;
    ++generation_; // the times are others, at least
    take_settings(reply);
    if (now_ours.empty()) return solicit_again(now);
    // RFC 8415 21.4: ours to choose are half and four fifths of the shortest preferred life time; of the valid one for what is preferred
    // no more. 14.2: never at once.
    std::uint32_t shortest = for_ever, valid = for_ever;
    for (const dhcp6_leased& each : now_ours.all()) {
        shortest = std::min(shortest, seconds_until(now, each.preferred_until > now ? each.preferred_until : each.valid_until));
        valid = std::min(valid, seconds_until(now, each.valid_until));
    }
    const std::uint32_t soonest = std::min(least_wait, valid / 2);
    const auto part = [&](unsigned tenths) {
        return shortest == for_ever ? for_ever : static_cast<std::uint32_t>(std::uint64_t{shortest} * tenths / 10);
    };
    const std::uint32_t t2 = reply.t2 != 0 ? reply.t2 : std::max({part(8), reply.t1, soonest});
    const std::uint32_t t1 = reply.t1 != 0 ? reply.t1 : std::min(std::max(part(5), soonest), t2);
    lease_.renew_at = later(now, std::max<std::uint32_t>(t1, 1));
    lease_.rebind_at = std::max(later(now, std::max<std::uint32_t>(t2, 1)), lease_.renew_at);
    ++(renews ? statistics_.renewals : statistics_.leases);
    if (renews) conflicts_ = 0;
    failures_ = conflicts_; // else a server that offers what is in use would be asked without a pause
    wanted_ = {};
    enter(now, dhcp6_state::bound);
    due_ = lease_.renew_at;
}

/// RFC 8415 18.2.8.
void dhcp6_client::on_duplicate(time_point now, const ipv6& address) noexcept {
    bounded_list<dhcp6_leased, 4> left;
    for (const dhcp6_leased& each : lease_.addresses.all())
        if (each.address != address) left.push(each);
    if (left.count == lease_.addresses.count) return;
    ++statistics_.conflicts;
    ++generation_;
    lease_.addresses = left;
    if (conflicts_ != UINT8_MAX) ++conflicts_;
    if (state_ != dhcp6_state::declining) wanted_ = {}; // else both at once, from the start
    wanted_.push({address, 0, 0});
    enter(now, dhcp6_state::declining);
}

void dhcp6_client::check_invariants() const {
    const bool keeps = state_ == dhcp6_state::bound || state_ == dhcp6_state::renewing || state_ == dhcp6_state::rebinding;
    CW_ASSERT(!keeps || !lease_.addresses.empty(), "what is kept is an address at least");
    CW_ASSERT(lease_.addresses.empty() || lease_.renew_at <= lease_.rebind_at, "T1 and T2 are in order");
    CW_ASSERT(state_ == dhcp6_state::stopped || state_ == dhcp6_state::bound || state_ == dhcp6_state::informed || due_ != never,
              "who waits for an answer has a timer");
}

} // namespace corewire
