// What one socket asks for beyond tcp_options_set: changes to the parameters of the connections that it opens or accepts.
// Called on the stack's shard, once a connection, after the stack's own settings and the tcp_options_set.
#pragma once

#include <corewire/net/tcp/parameters.hh>

#include <functional>

namespace corewire {

using tcp_tuning = std::function<void(tcp::parameters&)>;

} // namespace corewire
