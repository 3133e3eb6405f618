// cw-echo: TCP and UDP echo on every core, over whatever carries packets here.
#include <corewire/apps/echo/raw_echo.hh>
#include <corewire/apps/echo/raw_sink.hh>
#include <corewire/apps/echo/tcp_echo.hh>
#include <corewire/apps/echo/udp_echo.hh>
#include <corewire/apps/runtime/app.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/task_group.hh>

#include <atomic>
#include <cstdio>
#include <string>

namespace cw = corewire;

namespace {

struct echo_options {
    std::uint16_t port = 7;
    bool sockperf = false;
    bool discard = false;
    bool raw = false;
    bool fast_open = false;
};

/// Returns when a stop is asked for.
cw::task<> until_stopped() {
    cw::event never_set;
    try {
        co_await never_set.wait({.stop = cw::this_shard::stopping()});
    } catch (const std::system_error&) { // ECANCELED: this is what we wait for
    }
}

/// Called by each core when it serves; the last one says what is served: who has read this line is refused by none of them.
void announce(const cw::app& app, const std::string& what) {
    static std::atomic<unsigned> serving{0};
    if (++serving != cw::this_shard::count()) return;
    std::printf("cw-echo: %s over %s\n", what.c_str(), std::string(cw::name_of(app.chosen())).c_str());
    std::fflush(stdout);
}

/// Of the device that all cores share: a port's name without its queue.
std::string shared_name(const cw::port& port) { return port.name().substr(0, port.name().rfind('/')); }

cw::task<> bounce_frames(cw::app& app) {
    cw::raw::echo echo(*app.device());
    cw::reactor::current().add_poller(echo);
    announce(app, "raw frames on " + shared_name(*app.device()));
    co_await until_stopped();
}

cw::task<> swallow_frames(cw::app& app) {
    cw::raw::sink sink(*app.device());
    cw::reactor::current().add_poller(sink);
    announce(app, "raw frames, counted, on " + shared_name(*app.device()));
    co_await until_stopped();
}

/// With --raw.
cw::task<> serve_frames(cw::app& app, const echo_options& options) {
    return options.discard ? swallow_frames(app) : bounce_frames(app);
}

cw::task<> serve_sockets(cw::app& app, const echo_options& options) {
    // At `::` for both families.
    const cw::net_address any = app.network().has_ipv6() ? cw::net_address(cw::ipv6::any()) : cw::net_address(cw::ipv4::any());
    auto listener = cw::tcp_listener::bind({any, options.port}, {.stream = {.no_delay = true}, .fast_open = options.fast_open ? 64u : 0u});
    auto datagrams = cw::udp_socket::bind({any, options.port});
    cw::task_group udp("udp echo");
    udp.spawn(cw::echo::serve_datagrams(datagrams, options.sockperf ? cw::echo::udp_format::sockperf
                                                                    : cw::echo::udp_format::plain));
    announce(app, "TCP and UDP port " + std::to_string(options.port));
    const auto serve = options.sockperf ? cw::echo::serve_sockperf
                       : options.discard ? cw::echo::serve_discard
                                         : cw::echo::serve;
    co_await cw::echo::accept_all(listener, serve, cw::this_shard::stopping());
    datagrams.close();
    co_await udp.join();
}

void add_options(cw::command_line& to, echo_options& options) {
    to.add_option("--port", options.port, "TCP and UDP port to serve").check_range(1, 65535).capture_default_str();
    to.add_flag("--fast-open", options.fast_open, "Data that comes in a SYN is taken, from who shows a cookie of ours (RFC 7413)");
    const auto sockperf = to.add_flag("--sockperf", options.sockperf, "Answer in sockperf's wire format");
    const auto discard = to.add_flag("--discard", options.discard,
                                "Read and drop, and say how much (for cw-pingpong --bulk); frames with --raw");
    const auto raw = to.add_flag("--raw", options.raw, "Bounce bare Ethernet frames (EtherType 0x88b5), with no stack");
    sockperf.excludes(discard).excludes(raw);
}

} // namespace

int main(int argc, char** argv) {
    cw::app app("cw-echo", "TCP and UDP echo server, on every core.");
    echo_options options;
    add_options(app.options(), options);
    app.on_parsed([&] {
        if (options.raw && app.network().net == cw::network_kind::kernel)
            throw cw::setup_error("--raw needs a port of ours: --net=xdp or --net=tap");
        if (app.network().net == cw::network_kind::wire)
            throw cw::setup_error("--net=wire joins the two ends of one process: cw-pingpong --net=wire");
        app.ports_only(options.raw);
    });
    if (auto status = app.parse(argc, argv)) return *status;
    return app.run([&]() -> cw::task<> { return options.raw ? serve_frames(app, options) : serve_sockets(app, options); });
}
