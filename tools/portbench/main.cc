// cw-portbench: how fast bare frames go through two ports, both ends spinning in this process on two cores. The floor
// under every protocol's figures. Makes its own namespaces and veth pair (as root), and leaves nothing. A frame that is not back within
// a tenth of a second is lost, and counted.
//
//     cw-portbench [generic|native] [frame size] [in flight] [seconds]
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/standard_output.hh>
#include <corewire/net/port/xdp/xdp_port.hh>

#include "tests/support/netns.hh"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <sched.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace corewire;
using clock_type = std::chrono::steady_clock;

void pin_to(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    ::sched_setaffinity(0, sizeof set, &set);
}

std::shared_ptr<xdp_device> open_device(const test::network_namespace& ns, const std::string& name, xdp_mode mode) {
    const test::network_namespace::scope inside(ns);
    return std::make_shared<xdp_device>(
        xdp_device_options{.interface = name, .mode = mode, .steering = xdp_steering::everything});
}

std::unique_ptr<xdp_port> open_port(const test::network_namespace& ns, std::shared_ptr<xdp_device> device) {
    const test::network_namespace::scope inside(ns);
    return std::make_unique<xdp_port>(std::move(device));
}

packet make_frame(port& from, mac_address to, std::uint32_t size) {
    packet p;
    p.head = from.pool().allocate_buffer();
    std::byte* at = p.head.append(size);
    std::memset(at, 0, size);
    to.store(at);
    from.mac().store(at + 6);
    store_be16(at + 12, 0x88b5);
    return p;
}

/// Sends back whatever comes, with the addresses exchanged.
void bounce(port& p, const std::atomic<bool>& stop) {
    pin_to(1);
    std::array<packet, 32> burst;
    while (!stop.load(std::memory_order_relaxed)) {
        const std::size_t n = p.receive(burst);
        for (std::size_t i = 0; i < n; ++i) {
            std::byte* at = burst[i].head.mutable_data();
            const mac_address sender = mac_address::load(at + 6);
            std::memcpy(at + 6, at, 6);
            sender.store(at);
        }
        for (std::size_t sent = 0; sent < n;) sent += p.transmit(std::span(burst).subspan(sent, n - sent));
    }
}

struct figures {
    std::vector<std::int64_t> round_trips_ns;
    double seconds = 0;
    std::uint64_t frames = 0;
    std::uint64_t lost = 0;
};

/// None when nothing has come for a while: what was sent is lost. The clock is read seldom: its time would be the frames'.
std::size_t receive_in_time(port& p, std::span<packet> burst) {
    for (const auto begin = clock_type::now(); clock_type::now() - begin < std::chrono::milliseconds{100};)
        for (int i = 0; i < 1'000; ++i)
            if (const std::size_t n = p.receive(burst)) return n;
    return 0;
}

figures ping(port& p, mac_address to, std::uint32_t size, unsigned in_flight, double seconds) {
    pin_to(0);
    figures f;
    f.round_trips_ns.reserve(8'000'000);
    std::array<packet, 32> burst;
    unsigned out = 0;
    const auto begin = clock_type::now();
    auto sent_at = begin;
    for (;;) {
        const std::size_t room = std::min<std::size_t>(in_flight - out, burst.size());
        for (std::size_t i = 0; i < room; ++i) burst[i] = make_frame(p, to, size);
        if (room != 0) {
            sent_at = clock_type::now();
            out += static_cast<unsigned>(p.transmit(std::span(burst).first(room)));
            for (auto& b : burst) b.head = buffer{};
        }
        const std::size_t n = receive_in_time(p, burst);
        const auto now = clock_type::now();
        for (std::size_t i = 0; i < n; ++i) burst[i].head = buffer{};
        if (n == 0) f.lost += out;
        out -= n == 0 ? out : std::min(out, static_cast<unsigned>(n)); // one that was given up may come after all
        f.frames += n;
        if (n != 0 && f.round_trips_ns.size() < f.round_trips_ns.capacity()) f.round_trips_ns.push_back((now - sent_at).count());
        f.seconds = std::chrono::duration<double>(now - begin).count();
        if (f.seconds > seconds) return f;
    }
}

} // namespace

int main(int count, char** arguments) try {
    command_line line("cw-portbench", "Bare frames through two AF_XDP ports on a veth pair of its own, as root: how fast.");
    std::string mode = "generic";
    std::uint32_t size = 64, in_flight = 1;
    double seconds = 2;
    line.add_option("mode", mode, "generic or native").check_one_of({"generic", "native"}).capture_default_str();
    line.add_option("size", size, "Bytes of a frame").check_range(14, 1'514).capture_default_str();
    line.add_option("in-flight", in_flight, "Frames on their way at a time").check_range(1, 512).capture_default_str();
    line.add_option("seconds", seconds, "Seconds").check_range(0.01, 3600.0).capture_default_str();
    if (const auto status = line.parse(count, arguments)) return *status;
    if (!test::have_root()) return 2;
    test::network_namespace a, b;
    const test::veth_pair link(a, "", b, "");
    const xdp_mode how = mode == "native" ? xdp_mode::native : xdp_mode::generic;
    auto first = open_port(a, open_device(a, link.first(), how));
    auto second = open_port(b, open_device(b, link.second(), how));
    std::atomic<bool> stop = false;
    std::thread other([&] { bounce(*second, stop); });
    figures f = ping(*first, second->mac(), size, in_flight, seconds);
    stop = true;
    other.join();
    if (f.frames == 0) throw std::runtime_error("no frame came back");
    auto& times = f.round_trips_ns;
    std::sort(times.begin(), times.end());
    const auto at = [&](double part) { return times[static_cast<std::size_t>(part * double(times.size() - 1))] / 1e3; };
    std::printf("%s %u B, %u in flight: p50 %.2f us, p99 %.2f us, p99.9 %.2f us, %.0f frames/s each way", mode.c_str(), size, in_flight,
                at(.5), at(.99), at(.999), double(f.frames) / f.seconds);
    if (f.lost != 0) std::printf(", %llu lost", static_cast<unsigned long long>(f.lost));
    std::printf("\n");
    for (const auto* p : {first.get(), second.get()}) {
        const auto& s = p->statistics();
        std::printf("%s: %.4f system calls a sent frame, %.4f a frame; kernel dropped %llu\n", p->name().c_str(),
                    double(s.system_calls) / double(s.transmitted_packets),
                    double(s.system_calls) / double(s.transmitted_packets + s.received_packets),
                    static_cast<unsigned long long>(p->kernel_drops()));
    }
    return after_output("cw-portbench", 0);
} catch (const std::exception& e) {
    std::fprintf(stderr, "cw-portbench: %s\n", e.what());
    return 2;
}
