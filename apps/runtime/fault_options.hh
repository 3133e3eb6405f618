// --faults: what a faulty_port (net/port/wrap) is to do to packets, as a user writes it.
#pragma once

#include <corewire/net/port/wrap/faulty_port.hh>

#include <string_view>

namespace corewire {

/// "drop=1/1000,seed=7": names and values with commas between them.
///
///     drop, corrupt, duplicate, reorder   the chance of each packet: 1/1000, or 0.001
///     drop-every                          every n-th packet
///     on                                  receive, transmit or both (both)
///     seed                                the same seed makes the same faults (1)
///
/// Throws setup_error with a sentence.
faulty_port::options parse_faults(std::string_view text);

} // namespace corewire
