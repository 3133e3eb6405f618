#include <corewire/reactor/base/assert.hh>

#include <cstdio>
#include <cstdlib>

namespace corewire::detail {

void assertion_failed(const char* expression, const char* file, int line, const char* message) noexcept {
    std::fprintf(stderr, "%s:%d: assertion failed: %s (%s)\n", file, line, message, expression);
    std::abort();
}

} // namespace corewire::detail
