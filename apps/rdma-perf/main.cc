// cw-rdma-perf: one-sided operations over an RDMA device, many at a time: their rate and bandwidth. Both the server and the client.
#include <corewire/apps/rdma-perf/perf.hh>
#include <corewire/reactor/task/spawn.hh>

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace cw = corewire;
namespace pf = corewire::rdma_perf;

namespace {

constexpr int errors_in_the_run = 1;
constexpr int failed = 2;

struct options {
    pf::workload load;
    std::string operation = "write", connect, address, from;
    std::uint16_t port = 7474;
    double seconds = 3;
    bool json = false, events = false, once = false;
};

cw::ipv4 parse_address(const std::string& text) {
    const auto a = cw::ipv4::parse(text);
    if (!a) throw std::invalid_argument("'" + text + "' is no IPv4 address");
    return *a;
}

cw::task<> work(cw::rdma::context& in, const options& o, pf::outcome& out) {
    if (!o.connect.empty()) {
        out = co_await pf::measure(in, o.load);
        co_return;
    }
    auto at = cw::rdma::listener::bind(in, {parse_address(o.address), o.port});
    std::fprintf(stderr, "listening at %s:%u\n", o.address.c_str(), at.port());
    co_await pf::serve(at, o.once);
}

cw::task<> guarded(cw::reactor& r, cw::rdma::context& in, const options& o, pf::outcome& out, std::exception_ptr& why) {
    try {
        co_await work(in, o, out);
    } catch (...) {
        why = std::current_exception();
    }
    r.request_exit();
}

int play(const options& o) {
    cw::reactor_options settings;
    if (!o.events) settings.spin = cw::duration::max();
    cw::reactor r(settings);
    const cw::reactor::scope here(r);
    cw::rdma::context in;
    pf::outcome result;
    std::exception_ptr why;
    cw::spawn(guarded(r, in, o, result, why));
    r.run();
    if (why) std::rethrow_exception(why);
    if (o.connect.empty()) return 0;
    std::puts(o.json ? pf::to_json(o.load, result).c_str() : pf::to_table(o.load, result).c_str());
    return result.errors == 0 ? 0 : errors_in_the_run;
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app("Measures writes, reads and atomics on memory across an RDMA device. With --connect the client; else the server.");
    options o;
    app.add_option("--address", o.address, "server: the address of ours to listen at, on an RDMA device");
    app.add_option("--port", o.port, "server: the port")->capture_default_str();
    app.add_option("--connect", o.connect, "client: ADDRESS:PORT of the server");
    app.add_option("--from", o.from, "client: the address of ours to use, and by it the device");
    app.add_option("--operation", o.operation, "client")->check(CLI::IsMember({"write", "read", "fetch-add"}))->capture_default_str();
    app.add_option("--size", o.load.size, "client: bytes of a write or read")->check(CLI::Range(1u, pf::largest))->capture_default_str();
    app.add_option("--depth", o.load.depth, "client: operations at a time")->check(CLI::Range(1u, pf::deepest))->capture_default_str();
    app.add_option("--duration", o.seconds, "client: seconds")->check(CLI::Range(0.001, 86400.0))->capture_default_str();
    app.add_option("--count", o.load.count, "client: operations instead of a time");
    app.add_option("--warmup", o.load.warmup, "client: operations that do not count")->capture_default_str();
    app.add_flag("--events", o.events, "sleep when idle, woken by completion events; else spin");
    app.add_flag("--once", o.once, "server: ends after the first client");
    app.add_flag("--json", o.json, "client: one JSON object");
    CLI11_PARSE(app, argc, argv);
    try {
        if (o.connect.empty() == o.address.empty()) throw std::invalid_argument("give --address (a server) or --connect (a client)");
        o.load.what = o.operation == "write"  ? pf::operation::write
                      : o.operation == "read" ? pf::operation::read
                                              : pf::operation::fetch_and_add;
        o.load.length = std::chrono::duration_cast<cw::duration>(std::chrono::duration<double>(o.seconds));
        if (!o.connect.empty()) o.load.server = cw::socket_address::parse(o.connect);
        if (!o.from.empty()) o.load.from = parse_address(o.from);
        return play(o);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-rdma-perf: %s\n", e.what());
        return failed;
    }
}
