// What the programs over RDMA have in common: the options that say which end this is and where, a reactor of its own, exit codes.
//
//     settings s{.port = 7474};  s.add_to(app, load);  if (auto status = app.parse(...)) return *status;
//     return guarded("cw-rdma-x", [&] { s.complete(load); return s.is_server() ? run_server(...) : run_client(s, load); });
#pragma once

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/standard_output.hh>
#include <corewire/net/socket/address.hh>
#include <corewire/rdma/channel/listener.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/spawn.hh>
#include <corewire/reactor/task/task.hh>


#include <chrono>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

namespace corewire::rdma_program {

inline constexpr int errors_in_the_run = 1; ///< exit code: what came back was wrong
inline constexpr int failed = 2;            ///< exit code: no run

/// Throws std::invalid_argument.
inline ip_address parse_address(const std::string& text) {
    if (const auto four = ipv4::parse(text)) return *four;
    if (const auto six = ipv6::parse(text)) return *six;
    throw std::invalid_argument("'" + text + "' is no IP address");
}

inline socket_address at_port(const ip_address& host, std::uint16_t port) noexcept {
    socket_address a;
    a.address = host;
    a.port = port;
    return a;
}

/// A client's own address, at any port; without one, what rdma_cm finds.
inline socket_address from_address(const std::optional<ip_address>& ours) noexcept { return ours ? at_port(*ours, 0) : socket_address{}; }

/// What the user said of both ends.
struct settings {
    std::uint16_t port = 0;
    std::string connect{}, address{}, from{};
    double seconds = 3;
    bool json = false, events = false, once = false;

    bool is_server() const noexcept { return connect.empty(); }

    /// The options that every program has. `load` is the client's: it has count and warmup.
    template <typename Load>
    void add_to(command_line& app, Load& load) {
        app.add_option("--address", address, "server: the address of ours to listen at, on an RDMA device");
        app.add_option("--port", port, "server: the port").capture_default_str();
        app.add_option("--connect", connect, "client: ADDRESS:PORT of the server");
        app.add_option("--from", from, "client: the address of ours to use, and by it the device");
        app.add_option("--duration", seconds, "client: seconds").check_range(0.001, 86400.0).capture_default_str();
        app.add_option("--count", load.count, "client: how many are measured, instead of a time");
        app.add_option("--warmup", load.warmup, "client: how many before those do not count").capture_default_str();
        app.add_flag("--events", events, "sleep when idle, woken by completion events; else spin");
        app.add_flag("--once", once, "server: ends after the first client");
        app.add_flag("--json", json, "client: one JSON object");
    }

    /// Puts what was said into the client's load. Throws std::invalid_argument when it makes no sense.
    template <typename Load>
    void complete(Load& load) const {
        if (connect.empty() == address.empty()) throw std::invalid_argument("give --address (a server) or --connect (a client)");
        load.length = std::chrono::duration_cast<duration>(std::chrono::duration<double>(seconds));
        if (!connect.empty()) load.server = socket_address::parse(connect);
        if (!from.empty()) load.from = parse_address(from);
    }

    /// Listens as --address and --port say, and says so. Throws std::system_error.
    rdma::listener listen(rdma::context& in, const rdma::rc_options& o = {}) const {
        auto at = rdma::listener::bind(in, at_port(parse_address(address), port), o);
        std::fprintf(stderr, "listening at %s\n", at_port(parse_address(address), at.port()).to_string().c_str());
        return at;
    }
};

/// Runs `work(context)`, a task<>, on a reactor of its own with its idle policy, so that --events sleeps. Throws what the task throws.
template <typename Work>
void run(const settings& s, Work work) {
    reactor_options o;
    if (!s.events) o.spin = duration::max();
    reactor r(o);
    const reactor::scope here(r);
    rdma::context in;
    std::exception_ptr thrown;
    const auto body = [](reactor& on, rdma::context& with, Work& w, std::exception_ptr& why) -> task<> {
        try {
            co_await w(with);
        } catch (...) {
            why = std::current_exception();
        }
        on.request_exit();
    };
    spawn(body(r, in, work, thrown));
    r.run();
    if (thrown) std::rethrow_exception(thrown);
}

/// The client: measure(context, load) of the load's namespace, whose outcome is printed. Returns the exit code.
template <typename Load, typename Outcome>
int run_client(const settings& s, const Load& load, Outcome result) {
    const auto body = [](rdma::context& in, const Load& l, Outcome& out) -> task<> { out = co_await measure(in, l); };
    run(s, [&](rdma::context& in) { return body(in, load, result); });
    std::puts(s.json ? to_json(load, result).c_str() : to_table(load, result).c_str());
    return result.errors == 0 ? 0 : errors_in_the_run;
}

/// The exit code of `play()`; an error is one line and `failed`. What was printed and did not get out is an error in the run.
template <typename Play>
int guarded(const char* program, Play play) {
    try {
        return after_output(program, play());
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s: %s\n", program, e.what());
        return failed;
    }
}

} // namespace corewire::rdma_program
