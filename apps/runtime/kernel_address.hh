// The kernel's addresses and ours: one that the kernel has must not be ours as well, but for --shared, where it has to be.
#pragma once

#include <corewire/net/netlink/route_messages.hh>

#include <optional>
#include <span>
#include <string>

namespace corewire {

/// The interface's name; empty: none has it (or the kernel does not say).
std::string kernel_interface_with(const net_address& address);

/// --shared --address: one of the addresses `known` of `interface`, deprecated or temporary though it be. Throws setup_error where the
/// kernel does not have it, or cannot say yet that nobody else does.
netlink::prefix named_address(std::span<const netlink::address_change> known, const net_address& wanted, const std::string& interface);

/// --shared alone: the first that new connections may have; of IPv6 no link-local and no temporary one.
std::optional<netlink::prefix> first_address(std::span<const netlink::address_change> known, bool of_ipv4) noexcept;

} // namespace corewire
