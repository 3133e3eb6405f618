// <corewire/task.hh>: coroutines of one core: tasks, groups, events, sleeping.
#pragma once

#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/task_group.hh>
