// On two fake NICs and a virtual clock: rdma::rc_channel: messages, remote memory, the ends of connections; rdma_rxe passes the same
// cases (tests/vm/guest).
#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<fake_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/rc_channel.hh"
