// <corewire/log.hh>: messages of a program's own, as typed events (docs/OPERATIONS.md).
#pragma once

#include <corewire/reactor/log/log_event.hh>
#include <corewire/reactor/log/log_level.hh>
#include <corewire/reactor/log/shard_log.hh>
