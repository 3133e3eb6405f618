// What --faults, --pcap and --trace put round a port, in this order from the inside: what is written and printed is what the stack
// sends, and what reached it.
#pragma once

#include <corewire/apps/runtime/network_options.hh>
#include <corewire/net/port/port.hh>

#include <memory>

namespace corewire {

/// The port itself when none is asked for. `number` tells files and lines of several ports apart. Throws setup_error if
/// the file cannot be written.
std::unique_ptr<port> wrap_port(std::unique_ptr<port> inner, const network_options& options, unsigned number);

} // namespace corewire
