// One shard: a stack with a listener at one end of a wire, at the other simulated peers, who shake hands and then say nothing.
//
//     network_stack (accepts, keeps the streams) ==wire== crowd: SYN ... ACK of SYN-ACK, nothing more; the first one plays 64 bytes
//
// Memory is the process's, resident: connections, table, streams and everything else that comes with them.
#include "idle.hh"

#include "frames.hh"

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>

#include <algorithm>
#include <array>
#include <exception>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

namespace corewire::bench {

using namespace std::chrono_literals;
using wire::tcp_flags;

std::uint64_t resident_bytes() {
    std::uint64_t whole = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> whole >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

namespace {

constexpr ipv4 server_address{10, 0, 0, 1}, gateway{10, 0, 0, 2};
constexpr std::uint16_t server_port = 7;
constexpr std::uint32_t peer_isn = 1'000;
constexpr std::size_t handshakes_at_once = 256;
constexpr std::uint32_t ports_each = 60'000; ///< connections of one simulated host
constexpr std::uint32_t first_host = 0x0b000000; ///< 11.0.0.0, behind the gateway
constexpr std::uint16_t first_port = 1'024;

/// The far end of the wire: everybody behind the gateway.
class crowd final : public poller {
public:
    crowd(port& through, mac_address server) : port_(through), to_{server_address, server_port, server} { message_.fill(std::byte{0x42}); }

    /// So many connections shall there be, the active one included.
    void open(std::size_t goal) noexcept { goal_ = goal; }
    std::size_t established() const noexcept { return established_; }
    std::uint64_t errors() const noexcept { return errors_; }
    /// Round trips of the active connection, since the beginning.
    std::uint64_t round_trips() const noexcept { return round_trips_; }
    void play(bool on) noexcept {
        playing_ = on;
        if (on) send_message();
    }

    bool poll(time_point now) override {
        clock_ = static_cast<std::uint32_t>(now.time_since_epoch() / 1ms);
        const std::size_t n = port_.receive(received_);
        for (std::size_t i = 0; i < n; ++i) {
            server_segment s;
            if (server_segment::read(received_[i], s)) take(s);
            received_[i] = packet{};
        }
        bool any = n != 0;
        while (asked_ < goal_ && asked_ - established_ < handshakes_at_once) {
            if (!send({.from = host(asked_), .from_port = port_of(asked_), .seq = peer_isn, .flags = tcp_flags::syn, .timestamp = clock_}))
                break;
            ++asked_;
            any = true;
        }
        return any;
    }
    bool prepare_sleep() override { return asked_ == goal_ && port_.prepare_sleep(); }
    void finish_sleep() override { port_.finish_sleep(); }
    int wake_fd() const override { return port_.wake_fd(); }

private:
    static ipv4 host(std::size_t i) noexcept { return ipv4(first_host + 1 + static_cast<std::uint32_t>(i / ports_each)); }
    static std::uint16_t port_of(std::size_t i) noexcept { return static_cast<std::uint16_t>(first_port + i % ports_each); }
    bool is_active(const server_segment& s) const noexcept { return s.to == host(0) && s.to_port == port_of(0); }

    void take(const server_segment& s) noexcept {
        if (wire::has(s.flags, tcp_flags::rst)) {
            ++errors_;
        } else if (wire::has(s.flags, tcp_flags::syn)) {
            if (!send({.from = s.to, .from_port = s.to_port, .seq = s.ack, .ack = s.seq + 1, .timestamp = clock_, .echo = s.timestamp})) {
                return; // it says so again
            }
            ++established_;
            if (is_active(s)) {
                seq_ = s.ack;
                ack_ = s.seq + 1;
            }
        } else if (s.payload != 0 && is_active(s) && s.seq == ack_) {
            ack_ += s.payload;
            echo_ = s.timestamp;
            answered_ += s.payload;
            if (answered_ < message_.size()) return;
            answered_ = 0;
            ++round_trips_;
            if (playing_) send_message();
        }
    }
    void send_message() noexcept {
        const peer_segment s{.from = host(0),
                             .from_port = port_of(0),
                             .seq = seq_,
                             .ack = ack_,
                             .flags = tcp_flags::ack | tcp_flags::psh,
                             .timestamp = clock_,
                             .echo = echo_,
                             .payload = message_};
        if (!send(s)) ++errors_;
        seq_ += static_cast<std::uint32_t>(message_.size());
    }
    bool send(const peer_segment& s) noexcept {
        packet p;
        return make_frame(port_, to_, s, p) && port_.transmit({&p, 1}) == 1;
    }

    port& port_;
    server_end to_;
    std::array<packet, 32> received_;
    std::array<std::byte, 64> message_;
    std::size_t goal_ = 0, asked_ = 0, established_ = 0;
    std::uint64_t errors_ = 0, round_trips_ = 0;
    std::uint32_t clock_ = 0, seq_ = 0, ack_ = 0, echo_ = 0, answered_ = 0;
    bool playing_ = false;
};

stack_config config_for(std::size_t count) {
    stack_config config;
    config.address = ip_prefix(server_address, 24);
    config.gateway = gateway;
    config.max_connections = count * 3 / 2 + 1'024; // from three quarters on SYNs are answered with cookies
    config.announce = false;
    return config;
}

struct bench {
    explicit bench(std::size_t n)
        : count(n), near(loop, std::move(ends.first), config_for(n)), far(std::move(ends.second)), peers(*far, near.device().mac()) {
        near.follow_permanent_neighbor(gateway, far->mac());
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(&near);
        loop.add_poller(peers);
        streams.reserve(n);
    }

    task<> echo(tcp_stream peer) {
        while (auto data = co_await peer.read()) co_await peer.write(std::move(data));
    }
    task<> accept(stop_token stop) {
        auto listener = tcp_listener::bind({ipv4::any(), server_port}, {.stream = {.no_delay = true}});
        try {
            tcp_stream first = co_await listener.accept({.stop = stop});
            active.spawn(echo(std::move(first)));
            for (;;) {
                tcp_stream next = co_await listener.accept({.stop = stop});
                streams.push_back(std::move(next));
            }
        } catch (const std::system_error&) { // ECANCELED: enough
        }
    }
    task<> until_established(std::size_t n) {
        for (time_point last = loop.now(); peers.established() < n || near.tcp().connections() < n; co_await sleep_for(1ms)) {
            if (loop.now() - last > 300s) throw std::runtime_error("the connections are not established");
        }
    }
    /// Round trips a second, the best of three.
    task<double> rate(duration time) {
        double best = 0;
        for (int i = 0; i < 3; ++i) {
            const std::uint64_t before = peers.round_trips();
            const time_point begun = loop.read_clock();
            peers.play(true);
            co_await sleep_for(time / 3);
            peers.play(false);
            const auto took = std::chrono::duration<double>(loop.read_clock() - begun).count();
            best = std::max(best, static_cast<double>(peers.round_trips() - before) / took);
            co_await sleep_for(10ms); // the last message comes home
        }
        co_return best;
    }
    task<> measure(duration time) {
        task_group accepting{"accept"};
        accepting.spawn(accept(accepting.token()));
        co_await yield();
        peers.open(1);
        co_await until_established(1);
        static_cast<void>(co_await rate(time));
        const double alone = co_await rate(time);
        const std::uint64_t before = resident_bytes();
        const time_point begun = loop.read_clock();
        peers.open(1 + count);
        co_await until_established(1 + count);
        const double took = std::chrono::duration<double>(loop.read_clock() - begun).count();
        co_await sleep_for(2s); // timers of the handshakes have fired
        const std::uint64_t after = resident_bytes();
        const double beside = co_await rate(time);
        const bool all = streams.size() == count && near.tcp().connections() == count + 1;
        errors = peers.errors() + (all ? 0 : 1);
        fmt::print("{{\"idle\":{},\"bytes_each\":{:.1f},\"rate_alone\":{:.0f},\"rate_beside\":{:.0f},\"kept\":{:.4f},"
                   "\"opened_per_s\":{:.0f},\"errors\":{}}}\n",
                   count, static_cast<double>(after - before) / static_cast<double>(count), alone, beside, beside / alone,
                   static_cast<double>(count) / took, errors);
        accepting.request_stop();
        co_await accepting.join();
    }
    /// The loop ends with it in any case.
    task<> conduct(duration time) {
        try {
            co_await measure(time);
        } catch (...) {
            failure = std::current_exception();
        }
        loop.request_exit();
    }

    std::size_t count;
    reactor loop{};
    reactor::scope here{loop};
    wire_link::ends ends = wire_link::make();
    network_stack near;
    std::unique_ptr<port> far;
    crowd peers;
    std::vector<tcp_stream> streams;
    task_group active{"active"};
    std::uint64_t errors = 0;
    std::exception_ptr failure;
};

} // namespace

int measure_idle(std::size_t count, duration time) {
    bench b(count);
    b.loop.root_group().spawn(b.conduct(time));
    b.loop.run();
    b.active.destroy_all();
    if (b.failure) std::rethrow_exception(b.failure);
    return b.errors == 0 ? 0 : 1;
}

} // namespace corewire::bench
