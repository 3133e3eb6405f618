// What --pcap and --trace put round a port.
#pragma once

#include <corewire/apps/runtime/network_options.hh>
#include <corewire/net/port/port.hh>

#include <memory>

namespace corewire {

/// The port itself when neither is asked for. `number` tells files and lines of several ports apart. Throws setup_error if
/// the file cannot be written.
std::unique_ptr<port> wrap_port(std::unique_ptr<port> inner, const network_options& options, unsigned number);

} // namespace corewire
