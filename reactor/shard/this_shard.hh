// What code on a shard may ask about its surroundings. Valid while a runtime runs; found through the current reactor.
#pragma once

#include <corewire/reactor/loop/reactor.hh>

namespace corewire {

class mailbox;
class runtime;

namespace this_shard {

/// This shard's number, 0 to count() - 1.
inline unsigned id() noexcept { return reactor::current().shard(); }
/// How many shards the runtime has.
unsigned count() noexcept;
/// This shard's end of the rings to all others. Asserts that the current reactor belongs to a runtime.
mailbox& mail() noexcept;

} // namespace this_shard

} // namespace corewire
