// <corewire/udp.hh>: UDP sockets.
#pragma once

#include <corewire/net/socket/address.hh>
#include <corewire/net/socket/udp_socket.hh>
