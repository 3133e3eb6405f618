// The everyday segment in as few words as it needs, in and out: ACK and perhaps PSH, timestamps as its only option, data
// in order that is sent once. What a stack recognises at fixed places of a frame, and writes there, without the general
// forms of segment.hh. Plain values on the stack of one call.
#pragma once

#include <corewire/net/frame/buffer.hh>
#include <corewire/net/tcp/seq.hh>

#include <cstdint>

namespace corewire::tcp {

/// One that arrived.
struct plain_arrival {
    seq_number seq;
    seq_number ack;
    std::uint32_t timestamp_value;
    std::uint32_t payload_size;
    std::uint16_t window; ///< as on the wire, unscaled
    bool stamped;         ///< it carries timestamps, as every segment of its connection must, or none of them
};

/// One to be sent: ACK and PSH, `payload_size` bytes of `chunk` (not null) from `chunk_offset`. See outgoing_segment.
struct plain_output {
    plain_output() noexcept {} // filled by next_plain()
    seq_number seq;
    seq_number ack;
    std::uint32_t timestamp_value;
    std::uint32_t timestamp_echo;
    std::uint32_t payload_size;
    std::uint32_t chunk_offset;
    const buffer* chunk;
    std::uint16_t window; ///< as on the wire
};

} // namespace corewire::tcp
