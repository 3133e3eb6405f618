// On rdma_rxe: channels and datagrams between addresses of IPv6; the fake passes the same cases (tests/rdma/channel).
#include "tests/rdma/channel_world.hh"
#include "tests/vm/guest/rxe_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<rxe_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/over_ipv6.hh"
