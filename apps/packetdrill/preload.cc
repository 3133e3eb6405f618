#include "preload.hh"

#include "calls.hh"

#include <atomic>
#include <dlfcn.h>
#include <sys/sendfile.h>

namespace corewire::packetdrill {

namespace {

std::atomic<calls*> remembered{nullptr};

/// The library that is there, if the fd is of a socket of its.
calls* owner_of(int fd) {
    calls* const ours = remembered.load();
    return ours != nullptr && ours->owns(fd) ? ours : nullptr;
}

ssize_t send_file(const char* libc_name, int socket, int file, off64_t* offset, std::size_t size) {
    if (calls* const ours = owner_of(socket)) return posix_result<ssize_t>(ours->send_file(socket, file, offset, size));
    using function = ssize_t (*)(int, int, off64_t*, std::size_t);
    return reinterpret_cast<function>(::dlsym(RTLD_NEXT, libc_name))(socket, file, offset, size);
}

} // namespace

void remember_for_preload(calls* current) noexcept { remembered.store(current); }

} // namespace corewire::packetdrill

extern "C" [[gnu::visibility("default")]] int getsockopt(int fd, int level, int name, void* value, socklen_t* size) noexcept {
    using namespace corewire::packetdrill;
    if (calls* const ours = owner_of(fd)) return posix_result<int>(ours->get_option(fd, level, name, value, size));
    using function = int (*)(int, int, int, void*, socklen_t*);
    static const auto libc = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "getsockopt"));
    return libc(fd, level, name, value, size);
}

static_assert(sizeof(off_t) == sizeof(off64_t));

extern "C" [[gnu::visibility("default")]] ssize_t sendfile(int socket, int file, off_t* offset, std::size_t size) noexcept {
    return corewire::packetdrill::send_file("sendfile", socket, file, offset, size);
}

extern "C" [[gnu::visibility("default")]] ssize_t sendfile64(int socket, int file, off64_t* offset, std::size_t size) noexcept {
    return corewire::packetdrill::send_file("sendfile64", socket, file, offset, size);
}
