// Exceptions thrown through coroutines are thrown again by each of them, and each throw walks the stack twice. libgcc interprets the
// tables of every function anew each time, which is three quarters of the cost of a throw. raise.cc takes the place of its
// _Unwind_RaiseException and keeps what it has read of this program's functions; all else is left to libgcc.
#pragma once

#include <corewire/reactor/unwind/call_frame.hh>

// Sanitizers have unwinders, or views of the stack, of their own.
#if defined(CW_HAS_CALL_FRAMES) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CW_SHORT_UNWIND 1
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(hwaddress_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#undef CW_SHORT_UNWIND
#endif
#endif
#endif

namespace corewire::unwind {

/// Whether a throw takes the short way: in x86-64 programs with glibc >= 2.35 and a shared libgcc that nobody else stands before, without
/// sanitizers and shadow stacks. It does in each program that needs anything of raise.cc, and each that throws does.
bool active() noexcept;

} // namespace corewire::unwind
