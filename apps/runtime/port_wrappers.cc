#include <corewire/apps/runtime/port_wrappers.hh>

#include <corewire/apps/runtime/setup_error.hh>

namespace corewire {

std::unique_ptr<port> wrap_port(std::unique_ptr<port> inner, const network_options& options, unsigned) {
    if (!options.pcap.empty()) throw setup_error("--pcap is not available yet");
    if (options.trace) throw setup_error("--trace is not available yet");
    return inner;
}

} // namespace corewire
