// One life of two hosts on a bad network, as a plan of the soak (soak_plan.hh) has it. It says what went wrong, if anything did:
//
//     every byte arrives once and in order, or the connection reports an error;
//     an error has a cause;  everything ends;  nothing is left behind, neither in the stacks nor in what listeners count.
#pragma once

#include "soak_plan.hh"

#include <corewire/net/port/wrap/tracing_port.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/stack/tcp_listen_socket.hh>
#include <corewire/reactor/task/sleep.hh>

#include <cstdio>
#include <cstdlib>

namespace corewire::soaking {

struct outcome {
    std::vector<std::string> problems; ///< empty: all is well
    std::uint64_t digest = 0;
    std::uint64_t bytes = 0; ///< that arrived
    unsigned completed = 0, failed = 0;
    duration longest{}; ///< life of an exchange, at the end that had it for longer
    tcp::counters counted{}; ///< of both hosts
    std::uint64_t no_frame = 0, over_ipv6 = 0, early = 0; ///< pools found empty; bytes by IPv6; connections that a SYN's data opened
    sim_link_statistics cable{};                          ///< of both directions
    std::array<unsigned, mishap::names.size()> struck{};  ///< mishaps of each kind that met an open exchange
};

inline void add(sim_link_statistics& to, const sim_link_statistics& s) {
    to.lost += s.lost, to.duplicated += s.duplicated, to.corrupted += s.corrupted, to.reordered += s.reordered;
    to.marked += s.marked, to.partitioned += s.partitioned, to.filtered += s.filtered, to.queue_full += s.queue_full;
}

/// The byte at `offset` of one direction of one exchange.
inline std::byte pattern(std::uint32_t stream, std::uint64_t offset) noexcept {
    return static_cast<std::byte>((offset * 2654435761u >> 13) ^ offset ^ stream * 0x55u);
}

class world {
public:
    explicit world(const plan& p) : plan_(p), sim_({.seed = p.seed, .frames = 2048}) {}
    outcome live();

private:
    // An exchange begins with its number, four bytes; then each side writes its bytes, closes, and reads the other's.
    static constexpr std::uint16_t service = 7;
    task<> client(exchange& e);
    task<> listen();
    task<> session(tcp_stream peer);
    task<> write_all(tcp_stream& to, std::uint32_t stream, std::uint64_t bytes, std::uint32_t piece);
    task<> read_all(tcp_stream& from, exchange& e, bool is_client);
    task<> both_ways(tcp_stream& s, exchange& e, bool is_client);

    void befall(const mishap& m);
    static task<tcp_stream> dial(socket_address there, const tcp_options_set& options);
    void judge(const exchange& e);
    void check_listeners(sim_host& h);
    void check_nothing_is_left(sim_host& h);
    bool over() const;
    bool open();
    void problem(std::string what) {
        if (result_.problems.size() < 10) result_.problems.push_back(std::move(what));
    }

    plan plan_;
    simulation sim_; // its tasks refer to the plan
    sim_host* client_ = nullptr;
    sim_host* server_ = nullptr;
    sim_link* cable_ = nullptr;
    unsigned sessions_ = 0;
    bool server_stopped_ = false;
    outcome result_;
};

inline task<> world::write_all(tcp_stream& to, std::uint32_t stream, std::uint64_t bytes, std::uint32_t piece) {
    std::vector<std::byte> some(piece);
    for (std::uint64_t at = 0; at < bytes;) {
        const std::size_t n = std::min<std::uint64_t>(piece, bytes - at);
        for (std::size_t i = 0; i < n; ++i) some[i] = pattern(stream, at + i);
        co_await to.write(byte_span(some).first(n));
        at += n;
    }
    to.shutdown();
}

inline task<> world::read_all(tcp_stream& from, exchange& e, bool is_client) {
    const std::uint32_t stream = e.number * 2 + (is_client ? 1 : 0);
    const std::uint64_t bytes = is_client ? e.down : e.up;
    const duration pause = is_client ? e.client_pause : e.server_pause;
    std::uint64_t at = 0;
    while (const buffer data = co_await from.read()) {
        for (const std::byte b : data.bytes()) {
            if (b != pattern(stream, at)) problem("stream " + std::to_string(stream) + ": wrong byte at " + std::to_string(at));
            ++at;
        }
        result_.bytes += data.size();
        if (at > bytes) problem("stream " + std::to_string(stream) + ": more than was sent");
        if (is_client && at >= e.abort_after) {
            e.aborted = sim_.elapsed();
            from.abort();
            throw std::system_error(std::make_error_code(std::errc::connection_aborted));
        }
        if (pause != duration{}) co_await sleep_for(pause);
    }
    if (at != bytes && is_client && server_stopped_) // its session was told to end, and did so orderly
        throw std::system_error(std::make_error_code(std::errc::connection_aborted));
    if (at != bytes)
        problem("stream " + std::to_string(stream) + ": ended after " + std::to_string(at) + " of " + std::to_string(bytes));
}

/// A writer beside a reader; what either of them meets is the connection's fate.
inline task<> world::both_ways(tcp_stream& s, exchange& e, bool is_client) {
    std::optional<std::errc> writing;
    task_group writer("writer");
    struct leave {
        task_group& group;
        ~leave() { group.destroy_all(); } // a crash takes the writer too
    } at_the_end{writer};
    const auto write = [](world& w, tcp_stream& to, exchange& x, bool up, std::optional<std::errc>& how) -> task<> {
        how = std::errc{};
        try {
            co_await w.write_all(to, x.number * 2 + (up ? 0 : 1), up ? x.up : x.down, x.write_size);
        } catch (const std::system_error& error) {
            how = static_cast<std::errc>(error.code().value());
        }
    };
    writer.spawn(write(*this, s, e, is_client, writing));
    std::exception_ptr reading;
    try {
        co_await read_all(s, e, is_client);
    } catch (const std::system_error&) {
        reading = std::current_exception();
    }
    co_await writer.join();
    if (reading) std::rethrow_exception(reading);
    if (*writing != std::errc{}) throw std::system_error(std::make_error_code(*writing));
    co_await s.close();
}

/// A cut cable is no cause to give up: while nobody answers for the server's address, it is tried again.
inline task<tcp_stream> world::dial(socket_address there, const tcp_options_set& options) {
    for (;;) {
        try {
            co_return co_await tcp_stream::connect(there, options);
        } catch (const std::system_error& error) {
            if (error.code() != std::errc::host_unreachable) throw;
        }
        co_await sleep_for(std::chrono::seconds{1});
    }
}

inline task<> world::client(exchange& e) {
    co_await sleep_for(e.start);
    std::errc how{};
    try {
        const socket_address there =
            e.over_ipv6 ? socket_address(plan::server_address(), service) : socket_address(server_->address(), service);
        auto peer = co_await dial(there, e.options);
        std::array<std::byte, 4> number{};
        number[0] = static_cast<std::byte>(e.number);
        co_await peer.write(byte_span(number));
        co_await both_ways(peer, e, true);
    } catch (const std::system_error& error) {
        how = static_cast<std::errc>(error.code().value());
    }
    e.client_ended = sim_.elapsed();
    e.client_error = how;
}

inline task<> world::session(tcp_stream peer) {
    struct counted {
        explicit counted(unsigned& n) : count(++n) {}
        ~counted() { --count; }
        unsigned& count;
    } here(sessions_);
    exchange* e = nullptr;
    std::errc how{};
    try {
        std::array<std::byte, 4> number{};
        const std::size_t got = co_await peer.read_exactly(number);
        const auto n = std::to_integer<std::uint32_t>(number[0]);
        if (got != 4 || n >= plan_.exchanges.size()) {
            problem("a session began with " + std::to_string(got) + " bytes: " + std::to_string(n));
            co_return;
        }
        e = &plan_.exchanges[n];
        if (e->server_began) {
            // A late duplicate of a first segment opens again what a SYN cookie opened: the listener remembers nothing
            // (RFC 4987 3.6). Or one of a SYN with data (RFC 7413 2.1). The client knows nothing of it.
            if (plan_.listening.backlog > 1 && !e->options.fast_open) problem("a session began twice");
            peer.abort();
            co_return;
        }
        e->server_began = true;
        co_await both_ways(peer, *e, false);
    } catch (const std::system_error& error) {
        how = static_cast<std::errc>(error.code().value());
    }
    if (e == nullptr) co_return;
    e->server_ended = sim_.elapsed();
    e->server_error = how;
}

inline task<> world::listen() {
    auto listener = tcp_listener::bind({ipv6::any(), service}, plan_.listening); // of both families
    using enum tcp_listen_socket::syn_headers;
    server_->stack().tcp().for_each_listener([](tcp_listen_socket& l) { l.save_syns(from_ip); }); // nobody asks for them
    for (;;) {
        tcp_stream peer = co_await listener.accept();
        spawn(session(std::move(peer)));
    }
}

inline void world::befall(const mishap& m) {
    using enum mishap::kind;
    if (open()) ++result_.struck[static_cast<std::size_t>(m.what)];
    constexpr auto there = sim_link::direction::forward;
    switch (m.what) {
    case partition:
        cable_->cut(true);
        sim_.after(m.lasts, [this] { cable_->cut(false); });
        break;
    case one_way:
        cable_->cut(there, true);
        sim_.after(m.lasts, [this] { cable_->cut(there, false); });
        break;
    case freeze_server: server_->freeze(sim_.now() + m.lasts); break;
    case freeze_client: client_->freeze(sim_.now() + m.lasts); break;
    case jump_server: server_->jump_clock(m.lasts); break;
    case jump_client: client_->jump_clock(m.lasts); break;
    case crash_server:
        server_->crash();
        server_->spawn([this] { return listen(); });
        break;
    case stop_server:
        server_->request_stop();
        server_stopped_ = true;
        break;
    }
}

inline bool world::over() const {
    return sessions_ == 0 && std::ranges::all_of(plan_.exchanges, [](const exchange& e) { return e.client_error.has_value(); });
}

/// Some exchange has begun and not ended.
inline bool world::open() {
    if (sessions_ != 0) return true;
    return std::ranges::any_of(plan_.exchanges, [this](const exchange& e) { return e.start <= sim_.elapsed() && !e.client_error; });
}

inline void world::judge(const exchange& e) {
    const std::string name = "exchange " + std::to_string(e.number) + ": ";
    if (!e.client_error) return problem(name + "has not ended");
    for (const auto& how : {e.client_error, e.server_error})
        if (how && !may_end_with(*how)) problem(name + "ended with what no connection ends with: " + std::make_error_code(*how).message());
    result_.longest = std::max(result_.longest, std::max(e.client_ended, e.server_error ? e.server_ended : duration{}) - e.start);
    const bool client_well = *e.client_error == std::errc{};
    const bool server_well = e.server_error && *e.server_error == std::errc{};
    ++(client_well && server_well ? result_.completed : result_.failed);
    if (e.over_ipv6 && client_well) result_.over_ipv6 += e.up + e.down;
    // With Fast Open connect() may be over before anybody has answered for the server's address, and nobody does: dial() cannot know.
    if (*e.client_error == std::errc::host_unreachable && e.options.fast_open) return;
    const auto text = [](std::errc what) { return std::make_error_code(what).message(); };
    // Who closes first waits for a minute, and a FIN that is lost again and again is repeated once a minute: it may come too late.
    const auto too_late = [](std::errc how, duration ended, bool other_well, duration other_ended) {
        return how == std::errc::connection_reset && other_well && ended - other_ended >= std::chrono::minutes{1};
    };
    if (!client_well && !plan_.excuses_client(e) && !too_late(*e.client_error, e.client_ended, server_well, e.server_ended))
        problem(name + "the client failed without a cause: " + text(*e.client_error));
    if (server_well || plan_.excuses_server(e)) return;
    if (e.server_error && too_late(*e.server_error, e.server_ended, client_well, e.client_ended)) return;
    if (e.server_error) problem(name + "the server failed without a cause: " + text(*e.server_error));
    else if (e.server_began) problem(name + "its session has not ended");
    else if (client_well) problem(name + "the server never heard of it");
}

/// Nobody dials any more, and all that came was accepted.
inline void world::check_listeners(sim_host& h) {
    h.stack().tcp().for_each_listener([&](const tcp_listen_socket& l) {
        if (l.half_open() + l.ready() + l.early() == 0) return;
        problem(h.name() + ": its listener counts " + std::to_string(l.half_open()) + " half-open, " + std::to_string(l.ready()) +
                " ready and " + std::to_string(l.early()) + " early connections");
    });
}

inline void world::check_nothing_is_left(sim_host& h) {
    reactor::scope here(h.loop());
    network_stack& s = h.stack();
    s.check_invariants();
    s.udp().demux().check_invariants();
    frame_pool& pool = s.device().pool();
    const tcp_layer::remains left = s.tcp().what_remains();
    const std::pair<const char*, std::uint64_t> parts[] = {
        {"connections", left.connections}, {"closed connections", left.over}, {"listeners", left.listeners}, {"SYNs", left.saved_syns},
        {"reports", left.reports}, {"waits for frames", left.starved}, {"users of parameters", left.parameter_users}};
    for (const auto& [what, count] : parts)
        if (count != 0) problem(h.name() + ": " + std::to_string(count) + " " + what + " are left");
    if (s.tcp().buffer_growth().used() != 0) problem(h.name() + ": buffers that are gone have grown");
    if (pool.free_count != pool.count()) problem(h.name() + ": " + std::to_string(pool.count() - pool.free_count) + " frames are left");
    if (h.shard().tasks() != 0) problem(h.name() + ": " + std::to_string(h.shard().tasks()) + " tasks are left");
    if (h.shard().failed() != 0) problem(h.name() + ": " + std::to_string(h.shard().failed()) + " tasks failed");
}

inline outcome world::live() {
    using namespace std::chrono_literals;
    if (std::getenv("COREWIRE_SOAK_TRACE") != nullptr) {
        for (sim_host_options* o : {&plan_.client, &plan_.server}) {
            o->wrap = [this, who = o == &plan_.client ? "client " : "server "](std::unique_ptr<port> nic) -> std::unique_ptr<port> {
                return std::make_unique<tracing_port>(std::move(nic), sim_.network(), [who](std::string_view line) {
                    std::fprintf(stderr, "%s%.*s\n", who, static_cast<int>(line.size()), line.data());
                });
            };
        }
    }
    client_ = &sim_.add_host("client", plan_.client);
    server_ = &sim_.add_host("server", plan_.server);
    cable_ = &sim_.connect(*client_, *server_, plan_.forward);
    cable_->configure(sim_link::direction::backward, plan_.backward);
    if (plan_.hole != UINT32_MAX)
        cable_->drop_if(sim_link::direction::forward, [most = plan_.hole](byte_span frame, std::uint64_t) { return frame.size() > most; });
    sim_.on_turn([](sim_host& h) { h.stack().check_invariants(); });
    server_->spawn([this] { return listen(); });
    for (exchange& e : plan_.exchanges) client_->spawn([this, &e] { return client(e); });
    for (const mishap& m : plan_.mishaps) sim_.after(m.at, [this, &m] { befall(m); });

    if (!sim_.run_until([this] { return over(); }, 24h)) problem("it does not end: " + sim_.describe());
    sim_.run_for(30min); // mishaps that are still to come
    check_listeners(*server_);
    server_->request_stop();
    const auto quiet = [](sim_host& h) { return h.stack().tcp().connections() == 0 && h.shard().tasks() == 0; };
    sim_.run_until([&] { return quiet(*client_) && quiet(*server_); }, 1h);
    sim_.run_for(1s);
    for (const exchange& e : plan_.exchanges) judge(e);
    for (sim_host* h : {client_, server_}) {
        check_nothing_is_left(*h);
        result_.counted += h->stack().tcp().closed_counters();
        result_.no_frame += h->stack().statistics().no_frame;
        result_.early += h->stack().statistics().tcp_fast_open_accepted;
    }
    for (const auto direction : {sim_link::direction::forward, sim_link::direction::backward})
        add(result_.cable, cable_->statistics(direction));
    if (sim_.network().in_flight() != 0) problem("packets are on their way still");
    result_.digest = sim_.digest();
    return result_;
}

} // namespace corewire::soaking
