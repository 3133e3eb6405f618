// What this thread takes from the heap, counted, for tests of "allocates nothing". In one source of a test program it replaces
// operator new. AddressSanitizer has its own, and nothing is counted there.
#pragma once

#include <corewire/reactor/memory/poison.hh>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace corewire::testing {

inline thread_local std::uint64_t heap_allocations = 0;

} // namespace corewire::testing

#ifndef CW_ADDRESS_SANITIZER
void* operator new(std::size_t size) {
    ++corewire::testing::heap_allocations;
    if (void* p = std::malloc(size)) return p;
    throw std::bad_alloc();
}
// Not inlined: g++ takes the free() for a mistake where it sees a new beside it.
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }
#endif
