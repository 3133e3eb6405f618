// What tcp_listener::bind() and udp_socket::bind() throw: the address cannot be had. A program that serves cannot go on without
// it, which is another matter than an error of its work; corewire::app ends with exit code 2 and says what to do.
#pragma once

#include <system_error>

namespace corewire {

struct bind_error : std::system_error {
    /// With that error's code and message.
    explicit bind_error(const std::system_error& why) : std::system_error(why) {}
};

} // namespace corewire
