// On rdma_rxe: large messages of rdma::rc_channel (tests/rdma/channel_cases).
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<rxe_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/rc_large.hh"
