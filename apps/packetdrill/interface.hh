// The interface through which packetdrill drives a stack that comes as a shared library: a table of functions, each like
// the POSIX call of its name with `userdata` in front. The order of the members is the interface.
#pragma once

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

extern "C" {

struct packetdrill_interface {
    void* userdata;
    void (*free)(void* userdata);
    int (*socket)(void* userdata, int domain, int type, int protocol);
    int (*bind)(void* userdata, int fd, const sockaddr* address, socklen_t size);
    int (*listen)(void* userdata, int fd, int backlog);
    int (*accept)(void* userdata, int fd, sockaddr* address, socklen_t* size);
    int (*connect)(void* userdata, int fd, const sockaddr* address, socklen_t size);
    ssize_t (*read)(void* userdata, int fd, void* bytes, size_t size);
    ssize_t (*readv)(void* userdata, int fd, const iovec* parts, int count);
    ssize_t (*recv)(void* userdata, int fd, void* bytes, size_t size, int flags);
    ssize_t (*recvfrom)(void* userdata, int fd, void* bytes, size_t size, int flags, sockaddr* address, socklen_t* address_size);
    ssize_t (*recvmsg)(void* userdata, int fd, msghdr* message, int flags);
    ssize_t (*write)(void* userdata, int fd, const void* bytes, size_t size);
    ssize_t (*writev)(void* userdata, int fd, const iovec* parts, int count);
    ssize_t (*send)(void* userdata, int fd, const void* bytes, size_t size, int flags);
    ssize_t (*sendto)(void* userdata, int fd, const void* bytes, size_t size, int flags, const sockaddr* address,
                      socklen_t address_size);
    ssize_t (*sendmsg)(void* userdata, int fd, const msghdr* message, int flags);
    int (*fcntl)(void* userdata, int fd, int command, ...);
    int (*ioctl)(void* userdata, int fd, unsigned long request, ...);
    int (*close)(void* userdata, int fd);
    int (*shutdown)(void* userdata, int fd, int how);
    int (*getsockopt)(void* userdata, int fd, int level, int name, void* value, socklen_t* size);
    int (*setsockopt)(void* userdata, int fd, int level, int name, const void* value, socklen_t size);
    int (*poll)(void* userdata, pollfd* fds, nfds_t count, int timeout);
    int (*netdev_send)(void* userdata, const void* packet, size_t count);
    int (*netdev_receive)(void* userdata, void* buffer, size_t* count, long long* time_usecs);
    int (*usleep)(void* userdata, useconds_t microseconds);
    int (*gettimeofday)(void* userdata, timeval* tv, struct timezone* tz);
    int (*epoll_create)(void* userdata, int size);
    int (*epoll_ctl)(void* userdata, int epfd, int operation, int fd, epoll_event* event);
    int (*epoll_wait)(void* userdata, int epfd, epoll_event* events, int count, int timeout);
    int (*pipe)(void* userdata, int fds[2]);
    int (*splice)(void* userdata, int in, off64_t* in_offset, int out, off64_t* out_offset, size_t size, unsigned flags);
};

void packetdrill_interface_init(const char* flags, struct packetdrill_interface* out);

} // extern "C"
