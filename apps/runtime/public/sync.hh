// <corewire/sync.hh>: how coroutines of one core wait for each other: locks, semaphores, conditions, channels.
#pragma once

#include <corewire/reactor/task/channel.hh>
#include <corewire/reactor/task/condition.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/mutex.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/shared_mutex.hh>
