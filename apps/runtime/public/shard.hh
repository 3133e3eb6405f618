// <corewire/shard.hh>: many cores: submit_to, sharded, promise and future, channels, barriers, foreign_ptr, run_blocking, the runtime.
#pragma once

#include <corewire/reactor/shard/barrier.hh>
#include <corewire/reactor/shard/foreign_ptr.hh>
#include <corewire/reactor/shard/future.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/run_blocking.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/shard_channel.hh>
#include <corewire/reactor/shard/shard_local.hh>
#include <corewire/reactor/shard/sharded.hh>
#include <corewire/reactor/shard/this_shard.hh>
