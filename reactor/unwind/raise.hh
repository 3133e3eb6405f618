// Exceptions thrown through coroutines are thrown again by each of them, and each throw walks the stack twice. libgcc interprets the
// tables of every function anew each time, which is three quarters of the cost of a throw. raise.cc takes the place of its
// _Unwind_RaiseException and keeps what it has read of this program's functions; all else is left to libgcc.
#pragma once

namespace corewire::unwind {

/// Whether a throw takes the short way: in x86-64 programs with glibc >= 2.35 and a shared libgcc, without sanitizers and shadow stacks.
/// A program that calls it has it.
bool active() noexcept;

} // namespace corewire::unwind
