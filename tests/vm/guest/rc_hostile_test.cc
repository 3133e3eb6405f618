// On rdma_rxe: peers of an rc_channel that send garbage, flood, or die in the middle (tests/rdma/channel_cases).
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<rxe_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/rc_hostile.hh"
