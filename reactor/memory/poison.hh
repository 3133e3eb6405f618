// Marks cached memory as not to be touched, for AddressSanitizer; nothing in other builds.
#pragma once

#include <cstddef>

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define CW_ADDRESS_SANITIZER 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define CW_ADDRESS_SANITIZER 1
#endif

#ifdef CW_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#endif

namespace corewire {

inline void poison([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t size) noexcept {
#ifdef CW_ADDRESS_SANITIZER
    __asan_poison_memory_region(p, size);
#endif
}

inline void unpoison([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t size) noexcept {
#ifdef CW_ADDRESS_SANITIZER
    __asan_unpoison_memory_region(p, size);
#endif
}

} // namespace corewire
