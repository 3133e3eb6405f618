// <corewire/address.hh>: IP and socket addresses.
#pragma once

#include <corewire/net/socket/address.hh>
