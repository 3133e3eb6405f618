// never_freed: what this thread allocates while one exists is no leak for LeakSanitizer. For calls into libraries that
// never give back what they load; nothing in other builds.
#pragma once

#include <corewire/reactor/memory/poison.hh>

#ifdef CW_ADDRESS_SANITIZER
#include <sanitizer/lsan_interface.h>
#endif

namespace corewire {

class never_freed {
public:
#ifdef CW_ADDRESS_SANITIZER
    never_freed() noexcept { __lsan_disable(); }
    ~never_freed() { __lsan_enable(); }
#else
    never_freed() noexcept {}
    ~never_freed() {}
#endif
    never_freed(const never_freed&) = delete;
    never_freed& operator=(const never_freed&) = delete;
};

} // namespace corewire
