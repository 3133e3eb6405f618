// cw-rdma-perf: one-sided operations over an RDMA device, many at a time: their rate and bandwidth. Both the server and the client.
#include <corewire/apps/rdma-perf/perf.hh>
#include <corewire/apps/rdma-program/program.hh>

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
    CLI::App app("Measures writes, reads and atomics on memory across an RDMA device. With --connect the client; else the server.");
    program::settings s{.port = 7474};
    pf::workload load;
    std::string operation = "write";
    s.add_to(app, load);
    app.add_option("--operation", operation, "client")->check(CLI::IsMember({"write", "read", "fetch-add"}))->capture_default_str();
    app.add_option("--size", load.size, "client: bytes of a write or read")->check(CLI::Range(1u, pf::largest))->capture_default_str();
    app.add_option("--depth", load.depth, "client: operations at a time")->check(CLI::Range(1u, pf::deepest))->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    return program::guarded("cw-rdma-perf", [&] {
        s.complete(load);
        load.what = operation == "write"  ? pf::operation::write
                    : operation == "read" ? pf::operation::read
                                          : pf::operation::fetch_and_add;
        if (!s.is_server()) return program::run_client(s, load, pf::outcome{});
        program::run(s, [&](cw::rdma::context& in) { return serve(in, s); });
        return 0;
    });
}
