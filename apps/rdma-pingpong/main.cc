// cw-rdma-pingpong: round trips over an RDMA device, by RC messages, RC writes or UD datagrams; both the server and the client.
#include <corewire/apps/rdma-pingpong/client.hh>
#include <corewire/apps/rdma-pingpong/server.hh>
#include <corewire/reactor/task/run_until_complete.hh>
#include <corewire/reactor/task/spawn.hh>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace cw = corewire;
namespace pp = corewire::rdma_pingpong;

namespace {

constexpr int errors_in_the_run = 1;
constexpr int failed = 2;

struct options {
    pp::workload load;
    std::string protocol = "rc-send", connect, address, from;
    std::uint16_t port = 7472;
    double seconds = 3;
    bool json = false, events = false, once = false;
};

cw::ipv4 parse_address(const std::string& text) {
    const auto a = cw::ipv4::parse(text);
    if (!a) throw std::invalid_argument("'" + text + "' is no IPv4 address");
    return *a;
}

/// Runs the task on the reactor with its idle policy, so that --events sleeps.
template <typename Work>
void run(cw::reactor& r, Work work) {
    std::exception_ptr thrown;
    const auto body = [](cw::reactor& on, Work& w, std::exception_ptr& why) -> cw::task<> {
        try {
            co_await w();
        } catch (...) {
            why = std::current_exception();
        }
        on.request_exit();
    };
    cw::spawn(body(r, work, thrown));
    r.run();
    if (thrown) std::rethrow_exception(thrown);
}

cw::task<> serve(cw::rdma::context& in, const options& o) {
    const cw::ipv4 ours = parse_address(o.address);
    auto at = cw::rdma::listener::bind(in, {ours, o.port}, pp::options_for(o.load.size));
    std::fprintf(stderr, "listening at %s:%u\n", o.address.c_str(), at.port());
    co_await pp::serve(in, at, ours, o.once);
}

cw::task<> measure(cw::rdma::context& in, const options& o, pp::outcome& out) { out = co_await pp::measure(in, o.load); }

int play(options& o) {
    cw::reactor_options settings;
    if (!o.events) settings.spin = cw::duration::max();
    cw::reactor r(settings);
    const cw::reactor::scope here(r);
    cw::rdma::context in;
    if (o.connect.empty()) {
        run(r, [&] { return serve(in, o); });
        return 0;
    }
    pp::outcome result;
    run(r, [&] { return measure(in, o, result); });
    std::puts(o.json ? pp::to_json(o.load, result).c_str() : pp::to_table(o.load, result).c_str());
    return result.errors == 0 ? 0 : errors_in_the_run;
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app("Measures round trips over an RDMA device, and checks every reply. With --connect the client; else the server.");
    options o;
    app.add_option("--address", o.address, "server: the address of ours to listen at, on an RDMA device");
    app.add_option("--port", o.port, "server: the port")->capture_default_str();
    app.add_option("--connect", o.connect, "client: ADDRESS:PORT of the server");
    app.add_option("--from", o.from, "client: the address of ours to use, and by it the device (needed for ud)");
    app.add_option("--protocol", o.protocol, "client")->check(CLI::IsMember({"rc-send", "rc-write", "ud"}))->capture_default_str();
    app.add_option("--size", o.load.size, "bytes of a message; at the server the longest")
        ->check(CLI::Range(0u, pp::largest))
        ->capture_default_str();
    app.add_option("--duration", o.seconds, "client: seconds")->check(CLI::Range(0.001, 86400.0))->capture_default_str();
    app.add_option("--count", o.load.count, "client: round trips instead of a time");
    app.add_option("--warmup", o.load.warmup, "client: round trips that do not count")->capture_default_str();
    app.add_flag("--events", o.events, "sleep when idle, woken by completion events; else spin");
    app.add_flag("--once", o.once, "server: ends after the first client");
    app.add_flag("--json", o.json, "client: one JSON object, with the keys of cw-pingpong");
    CLI11_PARSE(app, argc, argv);
    try {
        if (o.connect.empty() == o.address.empty()) throw std::invalid_argument("give --address (a server) or --connect (a client)");
        o.load.what = o.protocol == "ud" ? pp::mode::ud : o.protocol == "rc-write" ? pp::mode::rc_write : pp::mode::rc_send;
        o.load.length = std::chrono::duration_cast<cw::duration>(std::chrono::duration<double>(o.seconds));
        if (!o.connect.empty()) o.load.server = cw::socket_address::parse(o.connect);
        if (!o.from.empty()) o.load.from = parse_address(o.from);
        if (o.load.what == pp::mode::ud && o.from.empty() && !o.connect.empty()) throw std::invalid_argument("--protocol ud needs --from");
        return play(o);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-rdma-pingpong: %s\n", e.what());
        return failed;
    }
}
