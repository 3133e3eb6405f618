// <corewire/resolve.hh>: names to addresses, and connecting by name.
#pragma once

#include <corewire/net/resolve/connect_by_name.hh>
#include <corewire/net/resolve/named_address.hh>
#include <corewire/net/resolve/resolver.hh>
