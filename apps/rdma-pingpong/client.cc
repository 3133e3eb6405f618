#include <corewire/apps/rdma-pingpong/client.hh>

#include <corewire/apps/rdma-pingpong/server.hh>
#include <corewire/apps/rdma-program/program.hh>

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace corewire::rdma_pingpong {

namespace {

constexpr duration patience = std::chrono::seconds{5}; ///< for a reply
constexpr duration datagram_patience = std::chrono::milliseconds{200};

/// Counts, times and checks; stamps each message with its number.
class account {
public:
    explicit account(const workload& load) : load_(load), message_(load.size) {
        for (std::size_t i = 0; i < message_.size(); ++i) message_[i] = static_cast<std::byte>(i * 31 + 7);
    }
    bool more() const noexcept {
        if (number_ < load_.warmup) return true;
        if (load_.count != 0) return number_ < load_.warmup + load_.count;
        return last_ - began_ < load_.length;
    }
    byte_span next() noexcept {
        if (number_ == load_.warmup) began_ = last_ = reactor::current().read_clock();
        std::memcpy(message_.data(), &number_, std::min(message_.size(), sizeof number_));
        sent_ = reactor::current().read_clock();
        return message_;
    }
    void came_back(byte_span what) noexcept {
        last_ = reactor::current().read_clock();
        if (number_ >= load_.warmup) result.rtt_ns.record(static_cast<std::uint64_t>((last_ - sent_).count()));
        if (what.size() != message_.size() || !std::equal(what.begin(), what.end(), message_.begin())) ++result.errors;
        ++number_;
    }
    /// A datagram was lost.
    void lost() noexcept {
        last_ = reactor::current().read_clock();
        ++result.errors;
        ++number_;
    }
    outcome close() noexcept {
        result.round_trips = result.rtt_ns.count();
        result.seconds = last_ > began_ ? std::chrono::duration<double>(last_ - began_).count() : 0;
        return result;
    }
    outcome result;

private:
    const workload& load_;
    std::vector<std::byte> message_;
    std::uint64_t number_ = 0;
    time_point began_{}, sent_{}, last_{};
};

/// Tells the server what is wanted; what it answers. Throws std::system_error.
task<opening> open_with(rdma::rc_channel& peer, opening mine) {
    const auto wire = mine.to_wire();
    co_await peer.send(wire);
    const auto m = co_await peer.receive({.deadline = reactor::current().now() + patience});
    const auto theirs = m ? opening::from_wire(m->bytes()) : std::nullopt;
    if (!theirs) throw std::system_error(EPROTO, std::generic_category(), "the server's first message");
    co_return *theirs;
}

/// A server that says goodbye in the middle is an error: throws std::system_error(EPIPE).
void require(bool came) {
    if (!came) throw std::system_error(EPIPE, std::generic_category(), "the server has left");
}

task<> by_messages(rdma::rc_channel& peer, opening mine, account& a) {
    static_cast<void>(co_await open_with(peer, mine));
    while (a.more()) {
        const byte_span message = a.next();
        co_await peer.send(message);
        const auto m = co_await peer.receive();
        require(m.has_value());
        a.came_back(m->bytes());
    }
}

task<> by_writes(rdma::rc_channel& peer, opening mine, account& a) {
    const std::size_t room = std::max(mine.size, 1u);
    auto memory = peer.allocate(2 * room); // what we send; what comes back
    const auto window = co_await peer.expose(memory, room, room, verbs::access::remote_write);
    mine.memory = window.region();
    const opening theirs = co_await open_with(peer, mine);
    while (a.more()) {
        const byte_span message = a.next();
        if (!message.empty()) std::memcpy(memory.data(), message.data(), message.size());
        const rdma::local_region what = memory.at(0, mine.size);
        co_await peer.write_with_immediate(what, theirs.memory, 0, 1);
        const auto told = co_await peer.receive();
        require(told.has_value());
        a.came_back(byte_span(memory.data() + room, mine.size));
    }
}

task<> by_datagrams(rdma::context& in, rdma::rc_channel& peer, ip_address from, opening mine, account& a) {
    auto socket = rdma::ud_socket::bind(in, from);
    mine.datagrams = socket.local_address();
    const opening theirs = co_await open_with(peer, mine);
    while (a.more()) {
        const byte_span message = a.next();
        co_await socket.send_to(message, theirs.datagrams);
        bool came = false;
        try {
            const auto d = co_await socket.receive_from({.deadline = reactor::current().now() + datagram_patience});
            a.came_back(d.bytes());
            came = true;
        } catch (const std::system_error& e) {
            if (e.code() != std::errc::timed_out) throw;
        }
        if (!came) a.lost();
    }
}

} // namespace

task<outcome> measure(rdma::context& in, workload load) {
    rdma::connector out(in, options_for(load.size));
    const socket_address from = rdma_program::from_address(load.from);
    const wait_limits soon{.deadline = reactor::current().now() + patience};
    auto peer = co_await out.connect(load.server, soon, from);
    account a(load);
    opening mine;
    mine.what = load.what;
    mine.size = load.size;
    if (load.what == mode::rc_send) co_await by_messages(peer, mine, a);
    else if (load.what == mode::rc_write) co_await by_writes(peer, mine, a);
    else co_await by_datagrams(in, peer, load.from.value(), mine, a);
    co_await peer.close({.deadline = reactor::current().now() + patience});
    co_return a.close();
}

std::string to_json(const workload& load, const outcome& o) {
    nlohmann::ordered_json out;
    out["net"] = "rdma";
    out["protocol"] = name_of(load.what);
    out["size"] = load.size;
    out["connections"] = 1;
    out["pipeline"] = 1;
    out["round_trips"] = o.round_trips;
    out["seconds"] = o.seconds;
    out["rate"] = o.seconds > 0 ? static_cast<double>(o.round_trips) / o.seconds : 0;
    out["errors"] = o.errors;
    const histogram& h = o.rtt_ns;
    out["rtt_ns"] = {{"min", h.min()}, {"p50", h.quantile(0.5)}, {"p90", h.quantile(0.9)},
                     {"p99", h.quantile(0.99)}, {"p999", h.quantile(0.999)}, {"max", h.max()}};
    return out.dump();
}

std::string to_table(const workload& load, const outcome& o) {
    std::string out = fmt::format("{} over RDMA, {} bytes\n\n  round trips  {:>16}\n  seconds      {:>16.3f}\n  errors       {:>16}\n\n"
                                  "  round trip, microseconds\n", name_of(load.what), load.size, o.round_trips, o.seconds, o.errors);
    const auto line = [&](const char* name, std::uint64_t ns) {
        out += fmt::format("  {:<13}{:>16.3f}\n", name, static_cast<double>(ns) / 1e3);
    };
    line("min", o.rtt_ns.min());
    line("p50", o.rtt_ns.quantile(0.5));
    line("p90", o.rtt_ns.quantile(0.9));
    line("p99", o.rtt_ns.quantile(0.99));
    line("p999", o.rtt_ns.quantile(0.999));
    line("max", o.rtt_ns.max());
    return out;
}

} // namespace corewire::rdma_pingpong
