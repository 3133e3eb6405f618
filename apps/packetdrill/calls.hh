// calls: the system calls of a script, over one drill_host. Arguments and results are those of the POSIX calls, with a
// negated errno in place of -1. Those that would block wait on the script's clock.
//
// fds that are not ours (a pipe of the kernel's, a file) are passed on to libc.
// One a host; each call takes the host's lock. Bounded by the fd table and the sockets in it.
#pragma once

#include "drill_host.hh"

#include <corewire/net/posix/epoll_set.hh>
#include <corewire/net/posix/fd_table.hh>
#include <corewire/net/posix/stream_socket.hh>

#include <span>
#include <sys/socket.h>
#include <sys/uio.h>

namespace corewire::packetdrill {

using posix::outcome;
using posix::posix_result;

class calls {
public:
    explicit calls(std::string_view flags);
    ~calls();

    outcome socket(int domain, int type, int protocol);
    outcome bind(int fd, const sockaddr* name, socklen_t size);
    outcome listen(int fd, int backlog);
    outcome accept(int fd, sockaddr* name, socklen_t* size);
    outcome connect(int fd, const sockaddr* name, socklen_t size);
    outcome read(int fd, std::span<const iovec> into); ///< read(2): nothing is got at once, where recv() waits for something
    outcome receive(int fd, std::span<const iovec> into, int flags);
    outcome receive_message(int fd, msghdr* message, int flags);
    outcome send(int fd, std::span<const iovec> from, int flags);
    outcome send_message(int fd, const msghdr* message, int flags);
    outcome send_to(int fd, std::span<const iovec> from, int flags, const sockaddr* name, socklen_t size);
    outcome fcntl(int fd, int command, long argument);
    outcome ioctl(int fd, unsigned long request, void* argument);
    outcome close(int fd);
    outcome shutdown(int fd, int how);
    outcome get_option(int fd, int level, int name, void* value, socklen_t* size);
    outcome set_option(int fd, int level, int name, const void* value, socklen_t size);
    outcome poll(std::span<pollfd> wanted, int milliseconds);
    outcome epoll_create(int size);
    outcome epoll_control(int set, int operation, int fd, epoll_event* event);
    outcome epoll_wait(int set, std::span<epoll_event> out, int milliseconds);
    outcome splice(int in, off64_t* in_offset, int out, off64_t* out_offset, std::size_t size, unsigned flags);
    /// sendfile(2), from a file of the kernel's.
    outcome send_file(int socket, int file, off64_t* offset, std::size_t size);
    bool owns(int fd);

    /// A packet arrives.
    outcome packet_in(byte_span ip_packet);
    /// The next packet that leaves: the clock moves on until there is one. Its size, and when it left (microseconds); 0 when
    /// none ever will, or `into` is too small for it.
    std::size_t packet_out(mutable_byte_span into, long long& when);
    void sleep(duration d);
    time_point now();

private:
    using access = drill_host::access;
    struct write_control {
        int stamps = -1;  ///< as stream_socket::send() has it
        bool good = true; ///< else it is EINVAL for who may send by then
    };
    template <typename Attempt>
    outcome until(access& a, bool may_wait, time_point deadline, Attempt&& attempt);
    template <typename Attempt>
    outcome on_stream(int fd, Attempt&& attempt);
    /// A connection that may outlive its fd: until it is over, TIME-WAIT included, its port is taken.
    struct port_keeper {
        flow_name flow;
        bool reuse_address, reuse_port;
    };
    bool in_use(posix::stream_socket& s, const socket_address& at);
    void keep_port(posix::stream_socket& s);
    void forget_free_ports();
    void tell_listeners_of_settings();
    std::shared_ptr<posix::stream_socket> stream(int fd) const { return fds_.find_as<posix::stream_socket>(fd); }
    outcome receive_locked(access& a, const std::shared_ptr<posix::stream_socket>& s, std::span<const iovec> into, int flags);
    /// What is left to do when the SYN has taken `went_along`: who blocks waits for the handshake, and sends the rest.
    outcome finish_fast(access& a, const std::shared_ptr<posix::stream_socket>& s, std::span<const iovec> from, int flags,
                        outcome went_along);
    outcome send_fast(access& a, const std::shared_ptr<posix::stream_socket>& s, std::span<const iovec> from, int flags,
                      const sockaddr* name, socklen_t size);
    outcome send_to_locked(access& a, const std::shared_ptr<posix::stream_socket>& s, std::span<const iovec> from, int flags,
                           const sockaddr* name, socklen_t size, write_control control);
    outcome send_locked(access& a, const std::shared_ptr<posix::stream_socket>& s, std::span<const iovec> from, int flags,
                        write_control control);
    time_point deadline_after(std::chrono::microseconds timeout) const {
        constexpr std::chrono::microseconds far = std::chrono::hours{24 * 365 * 100}; // what is further is no time of the clock's
        return timeout > far ? never : host_.now() + timeout;
    }
    outcome no_socket(int fd) const;
    time_point deadline_of(int milliseconds) const;
    outcome from_pipe(int pipe, int socket, std::size_t size, unsigned flags);
    outcome into_pipe(int socket, int pipe, std::size_t size, unsigned flags);

    drill_host host_;
    posix::fd_table fds_;
    std::vector<port_keeper> port_keepers_; ///< no more than there are connections, and one
};

} // namespace corewire::packetdrill
