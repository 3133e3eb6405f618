// <corewire/app.hh>: a program from main() to exit.
#pragma once

#include <corewire/apps/runtime/app.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/task_group.hh>
