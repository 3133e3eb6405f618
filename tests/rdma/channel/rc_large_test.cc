// On two fake NICs and a virtual clock: large messages of rdma::rc_channel; rdma_rxe passes the same
// cases (tests/vm/guest).
#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<fake_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/rc_large.hh"
