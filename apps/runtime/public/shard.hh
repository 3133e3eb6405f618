// <corewire/shard.hh>: many cores: submit_to, sharded, promise and future, the runtime.
#pragma once

#include <corewire/reactor/shard/future.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/sharded.hh>
#include <corewire/reactor/shard/this_shard.hh>
