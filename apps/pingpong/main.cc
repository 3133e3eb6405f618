// cw-pingpong: round trips and bulk, measured and checked; the client of cw-echo, or both ends in one process.
#include <corewire/apps/pingpong/in_process.hh>
#include <corewire/apps/pingpong/options.hh>
#include <corewire/apps/pingpong/remote.hh>
#include <corewire/apps/pingpong/report.hh>
#include <corewire/apps/pingpong/terminal.hh>
#include <corewire/apps/runtime/app.hh>
#include <corewire/apps/runtime/standard_output.hh>
#include <corewire/net/port/wrap/faulty_port.hh>

#include <cstdio>
#include <memory>

namespace cw = corewire;
namespace pp = corewire::pingpong;

namespace {

constexpr int errors_in_the_run = 1;

/// Prints the report. The exit code.
int conclude(const pp::options& o, const pp::run_report& report) {
    const std::string text = o.json ? pp::to_json(report, o.statistics) + "\n" : pp::to_table(report);
    std::fputs(text.c_str(), stdout);
    if (report.result.errors == 0 && report.result.round_trips == 0)
        std::fputs("cw-pingpong: nothing was measured: the run ended before the first message that counts\n", stderr);
    const bool good = report.result.errors == 0 && report.result.round_trips != 0;
    return cw::after_output("cw-pingpong", good ? 0 : errors_in_the_run);
}

/// The client's end of the wire: shard 1, or the far end when there is one shard.
void lose_frames(cw::app& app, std::uint32_t every) {
    app.wrap_ports([every](std::unique_ptr<cw::port> inner, unsigned shard, bool far) -> std::unique_ptr<cw::port> {
        if (shard == 0 && !far) return inner;
        return std::make_unique<cw::faulty_port>(std::move(inner), cw::faulty_port::options{.on_transmit = {.drop_every = every}});
    });
}

int play_in_process(cw::app& app, const pp::options& o) {
    if (o.drop_every != 0) lose_frames(app, o.drop_every);
    std::vector<pp::progress_board> boards(1);
    pp::in_process both(app, o.load, boards.front());
    pp::progress_display display(boards, !o.json);
    const int status = app.run([&] { return both.body(); });
    display.stop();
    if (status != 0) return status;
    return conclude(o, {std::string(cw::name_of(app.chosen())), o.load, both.result(), both.statistics()});
}

int play_remote(cw::app& app, const pp::options& o) {
    const std::size_t shards = app.runtime_settings().cpus.size();
    std::vector<pp::progress_board> boards(shards);
    pp::remote clients(app, o.load, o.server, shards, boards);
    pp::progress_display display(boards, !o.json);
    const int status = app.run([&] { return clients.body(); });
    display.stop();
    if (status != 0) return status;
    return conclude(o, {std::string(cw::name_of(app.chosen())), o.load, clients.result(), clients.statistics()});
}

} // namespace

int main(int argc, char** argv) {
    cw::app app("cw-pingpong", "Measures round trips (or bulk) over TCP, UDP or bare frames, and checks every reply.");
    pp::options options;
    pp::add_options(app.options(), options);
    app.on_parsed([&] {
        pp::check(options, app.network(), app.options().given("--cores"));
        app.ports_only(options.load.what == pp::protocol::raw);
    });
    if (auto status = app.parse(argc, argv)) return *status;
    return pp::in_one_process(app.network()) ? play_in_process(app, options) : play_remote(app, options);
}
