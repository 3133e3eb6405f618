// On two fake NICs and a virtual clock: the cases of rdma::rc_channel and of its hostile peers once more, over channels that two stacks of
// ours have made by an exchange over TCP.
#include "tests/rdma/ends.hh"
#include "tests/rdma/fake_fabric.hh"
#include "tests/rdma/raw_peer.hh"

namespace corewire::test {
using channel_world = basic_channel_world<fake_fabric, over_streams>;
} // namespace corewire::test

BOOST_AUTO_TEST_SUITE(rc_over_stream)
// What they include has been included: here they are suites within this one.
#include "tests/rdma/channel_cases/rc_channel.hh"
#include "tests/rdma/channel_cases/rc_hostile.hh"
BOOST_AUTO_TEST_SUITE_END()
