// On two fake NICs and a virtual clock: channels and datagrams between addresses of IPv6; rdma_rxe passes the same cases (tests/vm/guest).
#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<fake_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/over_ipv6.hh"
