// call_frame: how a function is left, read from the tables that the compiler writes for it (System V ABI for x86-64, section 3.7;
// DWARF 5, section 6.4; Linux Standard Base, "Exception Frames").
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#if defined(__x86_64__) && defined(__LP64__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 35) // _dl_find_object
#define CW_HAS_CALL_FRAMES 1
#endif
#endif

#ifdef CW_HAS_CALL_FRAMES

namespace corewire::unwind {

/// The registers that a call preserves, and the two that say where the caller goes on.
enum reg : std::uint8_t { rbx, rbp, r12, r13, r14, r15, rsp, rip };
inline constexpr std::size_t preserved = 6;  ///< the first ones are found on the stack, where the function uses them
inline constexpr std::size_t registers = 8;

/// The function at one place in it. The canonical frame address (CFA) is rsp as it was before the call; the return address is below it.
struct call_frame {
    std::uintptr_t function = 0;    ///< its first byte
    std::uintptr_t personality = 0; ///< null: nothing to do when an exception passes
    std::uintptr_t language_data = 0;
    std::uint32_t pushed_arguments = 0; ///< bytes that a landing pad takes for given back
    std::int32_t cfa_offset = 0;
    reg cfa_base{};
    std::array<std::int32_t, preserved> saved{}; ///< where the caller's is, from the CFA; 0: still in the register
};

/// One function's entry of .eh_frame, and the entry it shares with others.
struct call_frame_entries {
    std::span<const std::byte> common; ///< CIE, from its length on
    std::span<const std::byte> own;    ///< FDE, from its length on
};

/// Nothing where `pc` is in no function with tables, or they say what is said seldom: expressions, signal frames, registers in registers.
std::optional<call_frame> describe(std::uintptr_t pc) noexcept;

/// The same of entries at hand.
std::optional<call_frame> describe(std::uintptr_t pc, const call_frame_entries& entries) noexcept;

} // namespace corewire::unwind

#endif
