// Does a placement fit a machine: what makes it impossible, and what is possible but unwise. Plain functions; no state.
#pragma once

#include <corewire/reactor/topology/machine.hh>
#include <corewire/reactor/topology/placement.hh>

#include <string>
#include <vector>

namespace corewire {

struct fit_finding {
    bool impossible; ///< cannot be started so; otherwise only a remark
    std::string text; ///< one sentence: what is wrong and what to do
};

/// What is impossible first, each in the order of the shards. Empty: it fits. The interface and its queues are looked at only
/// if the machine was read with its devices.
std::vector<fit_finding> check_fit(const machine& on, const placement& placement);

/// Throws std::invalid_argument with the first impossibility.
void require_fit(const machine& on, const placement& placement);

} // namespace corewire
