// A world of two hosts for one second of its time, by nothing but what is installed: a program's own test of its service. Exit status 0:
// the answer came, and twice the same way.
#include <corewire/sim.hh>
#include <corewire/task.hh>
#include <corewire/tcp.hh>

#include <cstdio>
#include <string>

namespace cw = corewire;
using namespace std::chrono_literals;

namespace {

cw::task<> greet(std::uint16_t port) {
    auto listener = cw::tcp_listener::bind({cw::ipv4::any(), port});
    for (;;) {
        cw::tcp_stream peer = co_await listener.accept();
        co_await peer.write("hello");
        co_await peer.close();
    }
}

cw::task<> listen_to(cw::socket_address server, std::string& heard) {
    auto peer = co_await cw::tcp_stream::connect(server);
    while (auto data = co_await peer.read()) heard += data.text();
}

std::uint64_t one_second(std::string& heard) {
    cw::simulation world({.seed = 7});
    cw::sim_host& server = world.add_host("server");
    cw::sim_host& client = world.add_host("client");
    world.connect(server, client, {.latency = 10ms, .loss = 0.01});
    server.spawn([] { return greet(7); });
    const cw::socket_address to{server.address(), 7};
    client.spawn([&] { return listen_to(to, heard); });
    world.run_for(1s);
    return world.digest();
}

} // namespace

int main() {
    std::string once, again;
    const std::uint64_t first = one_second(once), second = one_second(again);
    std::printf("\"%s\", digest %016llx\n", once.c_str(), static_cast<unsigned long long>(first));
    return once == "hello" && again == once && first == second ? 0 : 1;
}
