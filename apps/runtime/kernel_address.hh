// Which of this host's interfaces has an address: one that the kernel has must not be ours as well.
#pragma once

#include <corewire/net/wire/net_address.hh>

#include <string>

namespace corewire {

/// Its name; empty: none has it (or the kernel does not say).
std::string kernel_interface_with(const net_address& address);

} // namespace corewire
