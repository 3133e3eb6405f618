// Two shards and a wire. The client's port carries, beside its own frames, SYNs from random addresses behind it: a burst each turn,
// until the wire takes no more; so the server gets as many as it can take off. Answers to those addresses go nowhere.
//
//     shard 0: network_stack, echo   ==wire==   flooding_port: SYN SYN SYN ...   shard 1: network_stack, 100 good clients
//
// The good clients connect while the flood is on, ask and are answered until the time is over, and close in order.
#include "flood.hh"

#include "frames.hh"

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/port/wrap/wrapped_port.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fmt/format.h>
#include <memory>

namespace corewire::bench {

using namespace std::chrono_literals;

namespace {

constexpr ipv4 server_address{10, 0, 0, 1}, client_address{10, 0, 0, 2};
constexpr std::uint16_t server_port = 7;

class flooding_port final : public wrapped_port {
public:
    flooding_port(std::unique_ptr<port> inner, mac_address server)
        : wrapped_port(std::move(inner)), to_{server_address, server_port, server}, random_(1) {}

    void flood(bool on) noexcept { flooding_ = on; }
    std::uint64_t sent() const noexcept { return sent_; }
    std::uint64_t answers() const noexcept { return answers_; }

    std::size_t receive(std::span<packet> out) override {
        if (flooding_) send_burst();
        const std::size_t n = wrapped_port::receive(out);
        std::size_t ours = 0;
        for (std::size_t i = 0; i < n; ++i) {
            if (is_strangers(out[i])) {
                ++answers_;
                out[i] = packet{};
            } else if (i != ours++) {
                out[ours - 1] = std::move(out[i]);
            }
        }
        return ours;
    }

private:
    static constexpr std::size_t burst = 32;

    static bool is_strangers(const packet& p) noexcept {
        const std::byte* f = p.head.data();
        return p.head.size() >= 34 && load_be16(f + 12) == 0x0800 && load_be32(f + 30) != client_address.value();
    }
    /// What the port did not take goes first the next time.
    void send_burst() noexcept {
        for (; made_ < burst; ++made_) {
            const std::uint64_t r = random_.next();
            const peer_segment syn{.from = ipv4(0x0b000001u + static_cast<std::uint32_t>(r >> 40)), // 11.0.0.0/8
                                   .from_port = static_cast<std::uint16_t>(1'024 + r % 60'000),
                                   .seq = static_cast<std::uint32_t>(r >> 8),
                                   .flags = wire::tcp_flags::syn,
                                   .timestamp = static_cast<std::uint32_t>(r)};
            if (!make_frame(*this, to_, syn, burst_[made_])) break;
        }
        const std::size_t taken = inner().transmit({burst_.data(), made_});
        sent_ += taken;
        std::move(burst_.begin() + static_cast<std::ptrdiff_t>(taken), burst_.begin() + static_cast<std::ptrdiff_t>(made_), burst_.begin());
        made_ -= taken;
    }

    server_end to_;
    random_generator random_;
    std::array<packet, burst> burst_;
    std::size_t made_ = 0;
    std::uint64_t sent_ = 0, answers_ = 0;
    bool flooding_ = false;
};

task<> echo(tcp_stream peer) {
    try {
        while (auto data = co_await peer.read()) co_await peer.write(std::move(data));
    } catch (const std::system_error&) { // the client counts it
    }
}

struct flood_bench {
    flood_bench(unsigned n, duration t) : clients(n), time(t) {}

    void set_up(unsigned shard) {
        stack_config config;
        config.address = ip_prefix(shard == 0 ? server_address : client_address, 24);
        if (shard == 0) config.gateway = client_address; // the way to the strangers
        std::unique_ptr<port> end;
        if (shard == 0) {
            end = std::move(ends.first);
        } else {
            auto flooding = std::make_unique<flooding_port>(std::move(ends.second), server_mac);
            strangers = flooding.get();
            end = std::move(flooding);
        }
        stacks[shard] = std::make_unique<network_stack>(reactor::current(), std::move(end), config);
        reactor::current().attached(reactor::attachment::network) = static_cast<socket_provider*>(stacks[shard].get());
    }
    void tear_down(unsigned shard) { stacks[shard].reset(); }

    task<> body() { return this_shard::id() == 0 ? serve() : attack(); }

    // ---- shard 0 ----
    task<> serve() {
        auto listener = tcp_listener::bind({server_address, server_port}, {.stream = {.no_delay = true}});
        task_group accepting{"accept"};
        accepting.spawn(accept(listener));
        accepting.spawn(count_connections(accepting.token()));
        auto ready = submit_to(1, [this] { server_ready.set(); });
        co_await ready;
        co_await over.wait();
        listener.close();
        accepting.request_stop();
        co_await accepting.join();
    }
    task<> accept(tcp_listener& listener) {
        try {
            for (;;) {
                tcp_stream peer = co_await listener.accept();
                spawn(echo(std::move(peer)));
            }
        } catch (const std::system_error&) { // closed
        }
    }
    task<> count_connections(stop_token enough) {
        try {
            for (;;) {
                most_connections = std::max(most_connections, stacks[0]->tcp().connections());
                co_await sleep_for(10ms, enough);
            }
        } catch (const std::system_error&) { // ECANCELED: enough
        }
    }

    // ---- shard 1 ----
    task<> good_client(time_point end) {
        reactor& shard = reactor::current();
        try {
            const time_point begun = shard.read_clock();
            tcp_stream peer = co_await tcp_stream::connect({server_address, server_port}, {.no_delay = true});
            worst_connect = std::max(worst_connect, shard.read_clock() - begun);
            std::array<std::byte, 64> message{}, answer{};
            do {
                message[0] = static_cast<std::byte>(requests);
                co_await peer.write(byte_span{message});
                const std::size_t got = co_await peer.read_exactly(answer);
                if (got != answer.size() || answer != message) throw std::system_error(std::make_error_code(std::errc::bad_message));
                ++requests;
                co_await sleep_for(1ms);
            } while (shard.now() < end);
            co_await peer.close();
            ++completed;
        } catch (const std::system_error& e) {
            ++failed;
            std::fprintf(stderr, "cw-bench-connections: a good client: %s\n", e.what());
        }
    }
    task<> attack() {
        co_await server_ready.wait();
        reactor& shard = reactor::current();
        const time_point begun = shard.read_clock();
        strangers->flood(true);
        co_await sleep_for(time / 10);
        task_group good{"good clients"};
        for (unsigned i = 0; i < clients; ++i) good.spawn(good_client(begun + time));
        co_await sleep_for(time / 5);
        const std::uint64_t before = resident_bytes();
        co_await good.join();
        strangers->flood(false);
        const double took = std::chrono::duration<double>(shard.read_clock() - begun).count();
        const auto growth = (static_cast<double>(resident_bytes()) - static_cast<double>(before)) / 1024;
        syns_per_s = static_cast<double>(strangers->sent()) / took;
        answers_per_s = static_cast<double>(strangers->answers()) / took;
        growth_kib = std::max(growth, 0.0);
        auto done = submit_to(0, [this] { over.set(); });
        co_await done;
    }

    unsigned clients;
    duration time;
    wire_link::ends ends = wire_link::make();
    mac_address server_mac = ends.first->mac();
    std::array<std::unique_ptr<network_stack>, 2> stacks;
    flooding_port* strangers = nullptr; // shard 1's, as all below but what says otherwise
    event server_ready;
    event over;                       // shard 0's
    std::size_t most_connections = 0; // shard 0's
    duration worst_connect{0};
    std::uint64_t completed = 0, requests = 0, failed = 0;
    double syns_per_s = 0, answers_per_s = 0, growth_kib = 0;
};

} // namespace

int measure_flood(std::vector<unsigned> cpus, unsigned clients, duration time) {
    flood_bench b(clients, time);
    runtime_options settings;
    settings.cpus = std::move(cpus);
    settings.loop.spin = duration::max();
    runtime shards(settings);
    shards.run([&] { return b.body(); },
               {.set_up = [&](unsigned shard) { b.set_up(shard); }, .tear_down = [&](unsigned shard) { b.tear_down(shard); }});
    fmt::print("{{\"clients\":{},\"completed\":{},\"requests\":{},\"failed\":{},\"worst_connect_ms\":{:.3f},\"syns_per_s\":{:.0f},"
               "\"answers_per_s\":{:.0f},\"growth_kib\":{:.0f},\"most_connections\":{}}}\n",
               b.clients, b.completed, b.requests, b.failed, static_cast<double>(b.worst_connect.count()) / 1e6, b.syns_per_s,
               b.answers_per_s, b.growth_kib, b.most_connections);
    return 0; // how many complete is what was measured
}

} // namespace corewire::bench
