// Connections that we open, as part of tcp_layer.
#include <corewire/net/port/flow_owner.hh>
#include <corewire/net/stack/host_share.hh>
#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/tcp/open/isn.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <cerrno>
#include <string>
#include <system_error>

namespace corewire {

namespace {

/// Local ports of one connection that the host may refuse: each costs calls into the kernel, in which the shard waits.
constexpr unsigned max_refusals = 256;
/// Local ports that are in use to the destination, which are looked at for a free one if there is another way.
constexpr unsigned max_in_use = 1024;

[[noreturn]] void fail(std::errc code, const char* what) { throw std::system_error(std::make_error_code(code), what); }

/// A flow that the host has left to us: given back, unless a connection has it.
class claimed_flow {
public:
    claimed_flow(host_share* share, const flow_name& flow) noexcept : share_(share), flow_(flow) {}
    ~claimed_flow() {
        if (share_ != nullptr) share_->release_flow(flow_);
    }
    claimed_flow(const claimed_flow&) = delete;
    claimed_flow& operator=(const claimed_flow&) = delete;
    void keep() noexcept { share_ = nullptr; }

private:
    host_share* share_;
    flow_name flow_;
};

} // namespace

int tcp_layer::claim_flow(const flow_name& flow) {
    return config_.share != nullptr ? config_.share->claim_flow(flow) : 0;
}

/// Sets the flow's local port, unless it has one.
tcp_layer::local_claim tcp_layer::claim_local_port(flow_name& flow, bool timestamps) {
    int said = 0;
    if (flow.local_port != 0) {
        if (tcp_connection* const other = find(flow)) {
            // Linux's habit: a port that bind() has chosen is TIME-WAIT's no more, however young that is (__inet_check_established()).
            const bool linux_habits = config_.tcp.like_linux();
            const bool ours = config_.share == nullptr || other->claim_ == tcp_connection::claim::flow;
            if (linux_habits && timestamps && ours && other->tcb.is_told_apart()) return take_place_of(*other);
            fail(linux_habits ? std::errc::address_not_available : std::errc::address_in_use, "connect: this 4-tuple is in use");
        }
        said = claim_flow(flow);
    } else if (tcp_connection* const old = choose_local_port(flow, timestamps, said)) {
        return take_place_of(*old);
    }
    if (said != 0 && said != EINPROGRESS)
        throw std::system_error(said, std::generic_category(), std::string("connect: ") + why_not_steered(said));
    return {.said = said};
}

/// A port that is free, or if there is none (or none soon: each connect would look at thousands) that of a connection which only waits
/// for old segments to die out, and which this one's timestamps tell it from. Then that connection, whose place it is to take.
tcp_connection* tcp_layer::choose_local_port(flow_name& flow, bool timestamps, int& said) {
    const time_point now = reactor_.now();
    tcp_connection* succeeded = nullptr;
    unsigned refusals = 0, in_use = 0;
    bool claimed = false;
    const auto usable = [&](std::uint16_t port) {
        flow.local_port = port;
        if (listener_for(flow) != nullptr) return false;
        if (tcp_connection* const other = find(flow)) {
            const bool ours = config_.share == nullptr || other->claim_ == tcp_connection::claim::flow;
            if (succeeded == nullptr && timestamps && ours && other->tcb.may_be_succeeded(now)) succeeded = other;
            return ++in_use >= max_in_use && succeeded != nullptr;
        }
        if (is_home_ && !is_home_(flow)) return false;
        said = claim_flow(flow);
        claimed = said != EADDRINUSE;
        return claimed || ++refusals == max_refusals;
    };
    const auto lent = config_.share != nullptr ? config_.share->lent() : std::nullopt;
    static_cast<void>(lent ? ports_.select(tuple_of(flow), *lent, usable) : ports_.select(tuple_of(flow), usable));
    if (claimed) return nullptr;
    if (succeeded != nullptr) {
        flow.local_port = succeeded->key.local_port;
        return succeeded;
    }
    const bool gave_up = refusals == max_refusals;
    if (config_.share != nullptr) config_.share->on_no_port_left(gave_up);
    fail(std::errc::address_not_available, gave_up ? "connect: the kernel has many local ports in a row in use"
                                                   : "connect: no free local port to this destination");
}

/// What the host has claimed for it goes on to the connection that takes its place.
tcp_layer::local_claim tcp_layer::take_place_of(tcp_connection& old) noexcept {
    const local_claim last{.floor = old.tcb.time_wait_floor(), .older_timestamp = old.tcb.last_timestamp()};
    ++statistics_.tcp_time_wait_ended;
    old.claim_ = tcp_connection::claim::none;
    old.react(old.tcb.end_time_wait());
    return last;
}

tcp_connection& tcp_layer::open(const flow_name& wanted, const tcp_options_set& options, const tcp_tuning& tuning) {
    flow_name flow = wanted;
    if (!flow.remote.is_unicast() || flow.remote_port == 0) fail(std::errc::address_not_available, "connect: not an address of one host");
    if (!out_.reachable(flow.remote)) fail(std::errc::network_unreachable, "connect: no route (is a gateway configured?)");
    const time_point now = reactor_.now();
    tcp::parameters p = parameters_for(options, flow.remote, tuning);
    if (p.accurate_ecn && !p.like_linux()) p.accurate_ecn = accurate_paths_.lets_through(now, flow.remote);
    const auto [said, floor, older_timestamp] = claim_local_port(flow, p.timestamps);
    claimed_flow claimed(config_.share, flow);
    tcp::active_open how{.iss = tcp::initial_sequence_number(isn_key_, now, tuple_of(flow))};
    if (floor) how.iss = p.like_linux() ? *floor + incarnation_gap : tcp::later(how.iss, *floor + incarnation_gap);
    if (floor && p.like_linux()) how.older_timestamp = older_timestamp;
    if (options.fast_open) how.fast_open = request_fast_open(now, flow.remote, p);
    tcp_connection* c = add_connection(flow, tcp::tcb(now, how, p));
    if (c == nullptr) fail(std::errc::no_buffer_space, "connect: the limit on connections is reached");
    claimed.keep();
    c->opened_here_ = true;
    c->keep_choices(options);
    if (said == EINPROGRESS) {
        c->claim_ = tcp_connection::claim::in_progress;
        claiming_.push_back(*c);
        return *c;
    }
    if (config_.share != nullptr) c->claim_ = tcp_connection::claim::flow;
    mark_dirty(*c);
    return *c;
}

// ---- how an attempt has ended ----

void tcp_layer::keep_report(const tcp_connection& c, std::errc error, const icmp_report& report) {
    try {
        opening_report kept{.error = error, .what = report, .quoted{report.transport.begin(), report.transport.end()}};
        kept.what.transport = {};
        reports_.insert_or_assign(&c, std::move(kept));
    } catch (const std::bad_alloc&) { // SO_ERROR tells what it ended with in any case
    }
}

std::optional<opening_report> tcp_layer::take_report(const tcp_connection& c) {
    if (reports_.empty()) return {};
    const auto found = reports_.find(&c);
    if (found == reports_.end()) return {};
    std::optional<opening_report> report = std::move(found->second);
    reports_.erase(found);
    return report;
}

} // namespace corewire
