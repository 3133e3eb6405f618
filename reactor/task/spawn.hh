// spawn(): a task that nobody awaits, started in the running reactor's root group, which is joined at shutdown.
// For groups of your own see task_group.hh.
#pragma once

#include <corewire/reactor/task/task.hh>

namespace corewire {

/// Starts `t` now, up to its first wait. An exception that leaves it is reported on stderr and counted.
void spawn(task<> t);

} // namespace corewire
