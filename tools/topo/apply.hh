// Does what advice says, and undoes it. What was there before goes into a state file first, so that a process that is killed half-way
// can be undone as well. The state is data, not commands: each entry is checked before anything is done with it.
#pragma once

#include "advice.hh"

#include <functional>

namespace corewire::topo {

/// A line about each step, as it is done.
using report = std::function<void(const std::string& line)>;

/// Applies, with a second look after queues were made. On a failure everything that was done is undone, and it throws
/// std::invalid_argument with one sentence. Refuses when `state` exists (apply twice), or when the NIC's hash was set by hand
/// (it could not be put back). Returns the number of steps.
std::size_t apply(const host& on, const machine& cpus, const placement& placed, const std::string& state, const report& say);

/// Undoes what the state file says, the last step first, and removes it. Steps that fail stay in it, and it throws then. An interrupt
/// whose number belongs to another name by now is left alone, with a line. Returns the number of steps undone.
std::size_t restore(const host& on, const std::string& state, const report& say);

} // namespace corewire::topo
