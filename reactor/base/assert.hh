// Assertions for programmers' errors, in release builds too. They say what they saw and abort.
// An expected outcome (a bad packet, a full queue, a refused connection) is a value, never an assertion.
#pragma once

namespace corewire::detail {

/// Prints `file:line: expression: message` to stderr and aborts. Never returns.
[[noreturn, gnu::cold, gnu::noinline]] void assertion_failed(const char* expression, const char* file, int line,
                                                             const char* message) noexcept;

} // namespace corewire::detail

/// Aborts with a message unless `condition` holds. Evaluated in every build type.
#define CW_ASSERT(condition, message)                                                                                  \
    (__builtin_expect(static_cast<bool>(condition), 1)                                                                 \
         ? static_cast<void>(0)                                                                                        \
         : ::corewire::detail::assertion_failed(#condition, __FILE__, __LINE__, message))

/// For checks too dear for a data path in release: compiled out when NDEBUG is set.
#ifdef NDEBUG
#define CW_DEBUG_ASSERT(condition, message) static_cast<void>(0)
#else
#define CW_DEBUG_ASSERT(condition, message) CW_ASSERT(condition, message)
#endif
