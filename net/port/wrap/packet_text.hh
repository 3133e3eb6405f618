// One line about a frame, for people: who, to whom, what. Any bytes are allowed in.
//
//     10.0.0.1:7777 > 10.0.0.2:40312 tcp PSH ACK seq 17 ack 4711 win 502 len 64
//     [2001:db8::1]:7777 > [2001:db8::2]:40312 udp len 12
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <string>

namespace corewire {

/// Allocates: for tracing and failing tests, not for a data path.
std::string describe_frame(byte_span frame);

} // namespace corewire
