// The requests of streams: those that wait for somebody else. Internal to reactor/file/process.
#pragma once

#include <corewire/reactor/file/io_wait.hh>

namespace corewire {

inline io_arguments stream_bytes(io_opcode opcode, int fd, void* address, std::size_t length) noexcept {
    io_arguments a;
    a.opcode = opcode;
    a.waits = true;
    a.fd = fd;
    a.address = address;
    a.length = length;
    a.offset = io_arguments::no_offset;
    return a;
}

/// POLLIN, POLLOUT.
inline io_arguments until_ready(int fd, unsigned events) noexcept {
    io_arguments a;
    a.opcode = io_opcode::poll;
    a.waits = true;
    a.fd = fd;
    a.flags = events;
    return a;
}

} // namespace corewire
