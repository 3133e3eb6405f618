// The TCP connection over 127.0.0.1 by which programs that measure RDMA tell each other where they are.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>

#include "tests/vm/guest/rxe_pair.hh"

#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace corewire::test {

/// To a program that may not listen yet: again, for ten seconds.
inline unique_fd connection_to(std::uint16_t port) {
    const sockaddr_in there = name_of(ipv4(127, 0, 0, 1), port);
    for (int tries = 0;; ++tries) {
        unique_fd line(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(line.get(), reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0) return line;
        BOOST_REQUIRE_MESSAGE(tries < 200, "the program does not listen");
        ::usleep(50'000);
    }
}

/// Where a program may connect to us; the socket listens.
inline unique_fd door_at(std::uint16_t port) {
    unique_fd door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_in here = name_of(ipv4(127, 0, 0, 1), port);
    BOOST_REQUIRE(::bind(door.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0);
    BOOST_REQUIRE(::listen(door.get(), 1) == 0);
    return door;
}

inline unique_fd who_comes_in(const unique_fd& door) { return unique_fd(::accept(door.get(), nullptr, nullptr)); }

inline void say(const unique_fd& to, const std::string& what) {
    BOOST_REQUIRE(::send(to.get(), what.data(), what.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(what.size()));
}

inline std::string hear(const unique_fd& from, std::size_t count) {
    std::string text(count, '\0');
    BOOST_REQUIRE(::recv(from.get(), text.data(), count, MSG_WAITALL) == static_cast<ssize_t>(count));
    return text;
}

} // namespace corewire::test
