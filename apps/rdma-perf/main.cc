// cw-rdma-perf: one-sided operations over an RDMA device, many at a time: their rate and bandwidth. Both the server and the client.
#include <corewire/apps/rdma-perf/perf.hh>
#include <corewire/apps/rdma-program/program.hh>
#include <corewire/apps/runtime/command_line.hh>

#include <algorithm>

namespace cw = corewire;
namespace pf = corewire::rdma_perf;
namespace program = corewire::rdma_program;

namespace {

cw::task<> serve(cw::rdma::context& in, const program::settings& s) {
    auto at = s.listen(in);
    co_await pf::serve(at, s.once);
}

} // namespace

int main(int argc, char** argv) {
    cw::command_line app("cw-rdma-perf",
                         "Measures writes, reads and atomics on memory across an RDMA device. With --connect the client; else the server.");
    program::settings s{.port = 7474};
    pf::workload load;
    std::string operation = "write";
    s.add_to(app, load);
    app.add_option("--operation", operation, "client").check_one_of({"write", "read", "fetch-add", "compare-swap"}).capture_default_str();
    app.add_option("--size", load.size, "client: bytes of a write or read").check_range(1u, pf::largest).capture_default_str();
    app.add_option("--depth", load.depth, "client: operations at a time").check_range(1u, pf::deepest).capture_default_str();
    if (const auto status = app.parse(argc, argv)) return *status;
    return program::guarded("cw-rdma-perf", [&] {
        s.complete(load);
        load.what = static_cast<pf::operation>(std::ranges::find(pf::operation_names, operation) - pf::operation_names.begin());
        if (!s.is_server()) return program::run_client(s, load, pf::outcome{});
        program::run(s, [&](cw::rdma::context& in) { return serve(in, s); });
        return 0;
    });
}
