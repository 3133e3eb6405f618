// <corewire/tcp.hh>: TCP streams and listeners.
#pragma once

#include <corewire/net/socket/address.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
