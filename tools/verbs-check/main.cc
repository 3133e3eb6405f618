// cw-verbs-check: does everything that --net=verbs relies on work on this NIC? Takes some seconds, changes nothing, sends a few
// frames to itself. Exit status: 0 yes, 1 no, 2 the device can't be opened or an option is wrong.
#include "checks.hh"

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/standard_output.hh>

#include <cstdio>

int main(int count, char** arguments) {
    using namespace corewire;
    std::string device, interface;
    std::uint8_t port = 1;
    bool json = false;
    command_line options("cw-verbs-check", "Does everything that --net=verbs relies on work on this NIC? Run it as root, and send "
                                           "the report in: docs/HARDWARE.md");
    const auto by_name =
        options.add_option("--device", device, "the RDMA device, like mlx5_0 (`ibv_devices` lists them)").type_name("NAME");
    options.add_option("--interface", interface, "or the network interface in front of it").type_name("IFNAME").excludes(by_name);
    options.add_option("--port", port, "port of the device (default 1)").type_name("N");
    options.add_flag("--json", json, "print one JSON object");
    if (const auto status = options.parse(count, arguments)) return *status;
    if (device.empty() && interface.empty()) return options.refuse("name a device: --device NAME or --interface IFNAME");
    try {
        if (device.empty()) {
            const auto found = verbs::device::find_by_interface(interface);
            device = found.name;
            port = found.port;
        }
        const verbs_check::report r = verbs_check::examine(device, port);
        std::fputs((json ? verbs_check::as_json(r) + "\n" : verbs_check::as_text(r)).c_str(), stdout);
        return after_output("cw-verbs-check", r.usable() ? 0 : 1);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-verbs-check: %s\n", e.what());
        return 2;
    }
}
