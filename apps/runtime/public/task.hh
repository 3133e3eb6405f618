// <corewire/task.hh>: coroutines of one core: tasks, groups, sleeping, and how tasks are put together.
#pragma once

#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/for_each.hh>
#include <corewire/reactor/task/generator.hh>
#include <corewire/reactor/task/retry.hh>
#include <corewire/reactor/task/run_in.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/task_group.hh>
#include <corewire/reactor/task/when_all.hh>
#include <corewire/reactor/task/when_any.hh>
#include <corewire/reactor/task/with_deadline.hh>
