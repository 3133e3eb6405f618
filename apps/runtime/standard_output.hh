// What a program prints is its result: it has failed when that did not get out (a full disk, a reader who went away).
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace corewire {

/// At the end of main(). The exit code: `status`, when standard output took all that was printed; otherwise, after one line on stderr, 1
/// in place of 0.
inline int after_output(const char* program, int status) {
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
    std::fprintf(stderr, "%s: standard output cannot be written: %s\n", program, std::strerror(errno));
    return status == 0 ? 1 : status;
}

} // namespace corewire
