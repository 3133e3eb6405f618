#include "other_threads.hh"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

namespace corewire::packetdrill {

namespace {

/// The state letter of a thread (proc(5), /proc/PID/stat): it stands behind the name, which may contain anything.
char state_of(const char* thread_id) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", thread_id);
    const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 'X';
    char text[256];
    const ssize_t size = ::read(fd, text, sizeof text - 1);
    ::close(fd);
    if (size <= 0) return 'X';
    text[size] = 0;
    const char* end = std::strrchr(text, ')');
    return end != nullptr && end[1] == ' ' ? end[2] : 'X';
}

} // namespace

bool other_threads_run() {
    DIR* threads = ::opendir("/proc/self/task");
    if (threads == nullptr) return false;
    const long own = ::gettid();
    bool any = false;
    while (const dirent* each = ::readdir(threads)) {
        if (each->d_name[0] == '.' || std::atol(each->d_name) == own) continue;
        const char state = state_of(each->d_name);
        any |= state == 'R' || state == 'D';
    }
    ::closedir(threads);
    return any;
}

} // namespace corewire::packetdrill
