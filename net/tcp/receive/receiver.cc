#include <corewire/net/tcp/receive/receiver.hh>

namespace corewire::tcp {

void receiver::check_invariants() const {
    queue.check_invariants();
    ahead.check_invariants(next);
    CW_ASSERT(next <= window.edge(), "data was taken beyond the window");
    CW_ASSERT(!fin_received || ahead.empty(), "data waits beyond the peer's FIN");
}

} // namespace corewire::tcp
