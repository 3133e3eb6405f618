// On two fake NICs and a virtual clock: rdma::rc_channel: messages, remote memory, the ends of connections; rdma_rxe passes the same
// cases (tests/vm/guest).
#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

namespace corewire::test {
using channel_world = basic_channel_world<fake_fabric>;
} // namespace corewire::test

#include "tests/rdma/channel_cases/rc_channel.hh"

BOOST_AUTO_TEST_SUITE(rc_channel_on_fakes)

BOOST_AUTO_TEST_CASE(where_there_are_windows_and_no_more_of_them_nothing_wider_is_opened_instead) {
    channel_world w;
    const auto theirs = w.server.allocate(4096);
    const auto before = w.second().live_objects();
    w.second().fail_calls("alloc_mw", ENOMEM);
    BOOST_TEST((w.run(failure_of(w.server.expose(theirs, 0, 4096, everything))) == std::errc::not_enough_memory));
    BOOST_TEST(w.second().live_objects() == before);
    const auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
    const auto ours = w.client.allocate(64);
    BOOST_TEST((w.run(failure_of(w.client.write(ours.all(), window.region()))) == std::errc{}));
}

BOOST_AUTO_TEST_SUITE_END()
