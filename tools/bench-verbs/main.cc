// cw-bench-verbs: frames through the `verbs` port on the fake NIC, in bursts of 32. tools/bench rdma counts its instructions and
// takes away those of the fake; what remains is the port, the frame pool, and the loops below.
//
//     cw-bench-verbs send|receive --count FRAMES --size BYTES [--chain]
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/raw/verbs_port.hh>

#include <array>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>

namespace {

using namespace corewire;

constexpr std::size_t burst_size = 32;
using burst = std::array<packet, burst_size>;

void send_burst(port& out, burst& packets, std::uint32_t size) {
    for (packet& p : packets) {
        frame* const f = out.pool().allocate();
        p.head.fill(*f, f->bytes + frame_headroom, size);
    }
    if (out.transmit(packets) != packets.size()) throw std::runtime_error("the port took less than a burst");
}

void receive_burst(port& in, burst& packets) {
    const std::size_t n = in.receive(packets);
    for (std::size_t i = 0; i < n; ++i) packets[i].head.clear();
    if (n != packets.size()) throw std::runtime_error("the port gave less than a burst");
}

} // namespace

int main(int count, char** arguments) try {
    std::string what;
    std::uint64_t frames = 32'000;
    std::uint32_t size = 64;
    bool chain = false;
    command_line options("cw-bench-verbs", "frames through the verbs port on a fake NIC");
    options.add_option("what", what, "send or receive").required().check_one_of({"send", "receive"});
    options.add_option("--count", frames, "frames, a multiple of 32");
    options.add_option("--size", size, "bytes of each").check_range(60, 1514);
    options.add_flag("--chain", chain, "ibv_post_send() chains instead of ibv_wr_*()");
    if (const auto status = options.parse(count, arguments)) return *status;

    fake::nic nic;
    auto device = std::make_shared<verbs_device>(verbs_device_options{
        .device = "fake0", .steering = verbs_steering::everything, .extended = !chain, .api = &fake::api()});
    verbs_port port(device, 0);
    burst packets;
    const std::vector<std::byte> frame(size);
    for (std::uint64_t done = 0; done < frames; done += burst_size) {
        if (what == "send") {
            send_burst(port, packets, size);
        } else {
            for (std::size_t i = 0; i < burst_size; ++i) nic.deliver(frame);
            receive_burst(port, packets);
        }
    }
    const auto& device_saw = nic.statistics();
    fmt::print("{{\"frames\": {}, \"doorbells\": {}, \"receive_doorbells\": {}, \"signalled\": {}, \"inline\": {}, \"copied\": {}}}\n",
               frames, device_saw.doorbells, device_saw.receive_doorbells, device_saw.signalled, device_saw.inline_sends,
               port.verbs_statistics().copied);
    return nic.violations().empty() ? 0 : 1;
} catch (const std::exception& e) {
    std::fprintf(stderr, "cw-bench-verbs: %s\n", e.what());
    return 2;
}
