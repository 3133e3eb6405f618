// Virtual time for a client of DHCP or DHCPv6 and what stands around it.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <algorithm>

namespace corewire::dhcp_test {

/// Time goes by for a line (`now`, `client`, `drain()`), whose client does what falls due on the way.
template <typename Line>
void pass(Line& on, duration time) {
    const time_point end = on.now + time;
    while (on.client.next_timeout() <= end) {
        on.now = std::max(on.now, on.client.next_timeout());
        on.client.on_timer(on.now);
        on.drain();
    }
    on.now = end;
}

} // namespace corewire::dhcp_test
