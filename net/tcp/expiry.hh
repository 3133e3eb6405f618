// A deadline of timers.hh has passed: what each of them means.
#pragma once

#include <corewire/net/tcp/control_block.hh>

namespace corewire::tcp {

/// Does what is due at `now`, and puts timers.next() right.
event on_expiry(control_block& c, time_point now) noexcept;

} // namespace corewire::tcp
