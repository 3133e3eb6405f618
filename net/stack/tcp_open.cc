// Connections that we open, as part of tcp_layer.
#include <corewire/net/port/flow_owner.hh>
#include <corewire/net/stack/host_share.hh>
#include <corewire/net/stack/ip_output.hh>
#include <corewire/net/stack/tcp_layer.hh>
#include <corewire/net/tcp/open/isn.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <cerrno>
#include <optional>
#include <string>
#include <system_error>

namespace corewire {

namespace {

/// Local ports of one connection that the host may refuse: each costs calls into the kernel, in which the shard waits.
constexpr unsigned max_refusals = 256;

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

/// Sets the flow's local port, unless it has one. What the host says of the flow: 0, or EINPROGRESS.
int tcp_layer::claim_local_port(flow_name& flow) {
    int said = 0;
    const auto claim = [&] {
        if (config_.share != nullptr) said = config_.share->claim_flow(flow);
        return said != EADDRINUSE;
    };
    if (flow.local_port != 0) {
        if (find(flow) != nullptr) fail(std::errc::address_in_use, "connect: this 4-tuple is in use");
        static_cast<void>(claim());
    } else {
        const listeners& listening = flow.is_v4() ? listeners_ : listeners6_;
        unsigned refusals = 0;
        const auto usable = [&](std::uint16_t port) {
            flow.local_port = port;
            if (listening.contains(port) || find(flow) != nullptr || (is_home_ && !is_home_(flow))) return false;
            return claim() || ++refusals == max_refusals;
        };
        const auto lent = config_.share != nullptr ? config_.share->lent() : std::nullopt;
        const auto port = lent ? ports_.select(tuple_of(flow), *lent, usable) : ports_.select(tuple_of(flow), usable);
        const bool gave_up = port && said == EADDRINUSE;
        if (!port || gave_up) {
            if (config_.share != nullptr) config_.share->on_no_port_left();
            fail(std::errc::address_not_available, gave_up ? "connect: the kernel has many local ports in a row in use"
                                                           : "connect: no free local port to this destination");
        }
    }
    if (said != 0 && said != EINPROGRESS)
        throw std::system_error(said, std::generic_category(), std::string("connect: ") + why_not_steered(said));
    return said;
}

tcp_connection& tcp_layer::open(const flow_name& wanted, const tcp_options_set& options, const tcp_tuning& tuning) {
    flow_name flow = wanted;
    if (!flow.remote.is_unicast() || flow.remote_port == 0) fail(std::errc::address_not_available, "connect: not an address of one host");
    if (!out_.reachable(flow.remote)) fail(std::errc::network_unreachable, "connect: no route (is a gateway configured?)");
    const time_point now = reactor_.now();
    const tcp::parameters p = parameters_for(options, flow.remote, tuning);
    const int said = claim_local_port(flow);
    claimed_flow claimed(config_.share, flow);
    tcp::active_open how{.iss = tcp::initial_sequence_number(isn_key_, now, tuple_of(flow))};
    if (options.fast_open) how.fast_open = request_fast_open(now, flow.remote, p);
    tcp_connection* c = add_connection(flow, tcp::tcb(now, how, p));
    if (c == nullptr) fail(std::errc::no_buffer_space, "connect: the limit on connections is reached");
    claimed.keep();
    c->opened_here_ = true;
    if (said == EINPROGRESS) {
        c->claim_ = tcp_connection::claim::in_progress;
        claiming_.push_back(*c);
        return *c;
    }
    if (config_.share != nullptr) c->claim_ = tcp_connection::claim::flow;
    mark_dirty(*c);
    return *c;
}

} // namespace corewire
