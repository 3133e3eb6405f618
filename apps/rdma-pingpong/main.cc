// cw-rdma-pingpong: round trips over an RDMA device, by RC messages, RC writes or UD datagrams; both the server and the client.
#include <corewire/apps/rdma-pingpong/client.hh>
#include <corewire/apps/rdma-pingpong/server.hh>
#include <corewire/apps/rdma-program/program.hh>
#include <corewire/apps/runtime/command_line.hh>

namespace cw = corewire;
namespace pp = corewire::rdma_pingpong;
namespace program = corewire::rdma_program;

namespace {

cw::task<> serve(cw::rdma::context& in, const program::settings& s, std::uint32_t size) {
    auto at = s.listen(in, pp::options_for(size));
    co_await pp::serve(in, at, program::parse_address(s.address), s.once);
}

} // namespace

int main(int argc, char** argv) {
    cw::command_line app("cw-rdma-pingpong",
                         "Measures round trips over an RDMA device, and checks every reply. With --connect the client; else the server.");
    program::settings s{.port = 7472};
    pp::workload load;
    std::string protocol = "rc-send";
    s.add_to(app, load);
    app.add_option("--protocol", protocol, "client; ud needs --from").check_one_of({"rc-send", "rc-write", "ud"})
        .capture_default_str();
    app.add_option("--size", load.size, "bytes of a message; at the server the longest").check_range(0u, pp::largest)
        .capture_default_str();
    if (const auto status = app.parse(argc, argv)) return *status;
    return program::guarded("cw-rdma-pingpong", [&] {
        s.complete(load);
        load.what = protocol == "ud" ? pp::mode::ud : protocol == "rc-write" ? pp::mode::rc_write : pp::mode::rc_send;
        if (load.what == pp::mode::ud && s.from.empty() && !s.is_server()) throw std::invalid_argument("--protocol ud needs --from");
        if (!s.is_server()) return program::run_client(s, load, pp::outcome{});
        program::run(s, [&](cw::rdma::context& in) { return serve(in, s, load.size); });
        return 0;
    });
}
