// On rdma_rxe: rdma::rc_channel: messages, remote memory, the ends of connections (tests/rdma/channel_cases).
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<rxe_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/rc_channel.hh"
