// TCP echo (RFC 862): the server's coroutines. Each belongs to the shard that accepted its connection; nothing is
// allocated and nothing copied for a message.
#pragma once

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>

#include <functional>

namespace corewire::echo {

/// Sends everything back until the peer closes.
task<> serve(tcp_stream peer);
/// Answers sockperf's requests in its own format (sockperf.hh), and nothing else.
task<> serve_sockperf(tcp_stream peer);
/// Reads and drops (RFC 863); at the end of the stream answers with the number of bytes, 8 of them, big-endian.
/// What `cw-pingpong --bulk` talks to.
task<> serve_discard(tcp_stream peer);

/// What to do with a connection; called once for each.
using server = std::function<task<>(tcp_stream)>;

/// Accepts until `stop` fires or the listener is closed; each connection is served by a task of its own. A reset ends one
/// connection only; while descriptors or memory are short it accepts again ten times a second.
task<> accept_all(tcp_listener& listener, server serve_one, stop_token stop);

} // namespace corewire::echo
