// file_writer::sync: what the disk said is kept, whoever waited for it, and whatever number it said.
#include "file_fixture.hh"

#include <corewire/reactor/file/file_writer.hh>

namespace corewire::testing {

namespace {

constexpr file_writer_options small{.buffer_size = 4096, .buffers = 3};

/// A writer over "a", and a disk that answers fsync as told.
template <typename Backend>
struct syncing_world : file_world_over<Backend> {
    io_fault next;
    unsigned syncs = 0;
    faults disk{*this, [this](const io_arguments& a) {
                    if (a.opcode != io_opcode::sync) return io_fault{};
                    ++syncs;
                    return std::exchange(next, {});
                }};
    file_writer out{this->run(file::create(this->directory / "a")), small};

    /// Bytes that have gone out: of a sync only the fsync is left.
    void write_out() {
        this->run(out.write("bytes"));
        this->run(out.flush());
    }
    int error(task<> t) { return this->run(error_of(std::move(t))); }
    wait_limits soon() { return {.deadline = this->loop.now() + std::chrono::milliseconds{1}}; }
};

} // namespace

BOOST_AUTO_TEST_SUITE(writer_syncs)

/// A file system may say ETIMEDOUT (a block device's timeout, NFS): no limit of ours.
BOOST_AUTO_TEST_CASE_TEMPLATE(a_sync_that_the_file_system_says_has_timed_out_has_failed, Backend, both_backends) {
    for (const int said : {ETIMEDOUT, ECANCELED}) {
        syncing_world<Backend> world;
        world.run(world.out.write("bytes"));
        world.next.report = said;
        BOOST_TEST(world.error(world.out.sync()) == said);
        BOOST_TEST(world.error(world.out.sync()) == said);
        BOOST_TEST(world.error(world.out.retry()) == said);
        BOOST_TEST(world.error(world.out.close()) == said);
        BOOST_TEST(world.syncs == 1u);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_a_sync_says_whose_task_is_gone_is_kept, Backend, both_backends) {
    for (const bool completed : {false, true}) {
        syncing_world<Backend> world;
        world.write_out();
        world.next.report = EIO;
        if (completed) {
            destroy_completed(world, world.out.sync());
        } else {
            task<> given_up = world.out.sync();
            given_up.handle().resume();
            BOOST_TEST(!given_up.done());
        }
        BOOST_TEST(world.error(world.out.sync()) == EIO);
        BOOST_TEST(world.out.failure() == EIO);
        BOOST_TEST(world.error(world.out.close()) == EIO);
        BOOST_TEST(world.syncs == 1u);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(what_a_sync_says_that_a_limit_has_ended_is_kept, Backend, both_backends) {
    syncing_world<Backend> world;
    world.write_out();
    world.next = {.report = EIO, .hold = true};
    BOOST_TEST(world.error(world.out.sync(world.soon())) == ETIMEDOUT);
    BOOST_TEST(world.out.failure() == 0);
    world.engine().release_held();
    BOOST_TEST(world.error(world.out.sync()) == EIO);
    BOOST_TEST(world.error(world.out.close()) == EIO);
    BOOST_TEST(world.syncs == 1u);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(bytes_that_came_after_a_sync_had_begun_want_one_of_their_own, Backend, both_backends) {
    syncing_world<Backend> world;
    world.write_out();
    world.next.hold = true;
    BOOST_TEST(world.error(world.out.sync(world.soon())) == ETIMEDOUT);
    BOOST_TEST(world.error(world.out.sync(world.soon())) == ETIMEDOUT); // the same one
    BOOST_TEST(world.syncs == 1u);
    world.run(world.out.write(" and more"));
    world.run(world.out.flush());
    BOOST_TEST(world.error(world.out.sync(world.soon())) == ETIMEDOUT);
    BOOST_TEST(world.syncs == 1u);
    world.engine().release_held();
    world.run(world.out.sync());
    BOOST_TEST(world.syncs == 2u);
    world.run(world.out.sync()); // who asks again is given another
    BOOST_TEST(world.syncs == 3u);
    world.run(world.out.close());
    BOOST_TEST(contents(world.directory / "a") == "bytes and more");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_close_waits_for_the_sync_under_way_and_throws_what_it_says, Backend, both_backends) {
    syncing_world<Backend> world;
    world.write_out();
    world.next = {.report = EIO, .hold = true};
    BOOST_TEST(world.error(world.out.sync(world.soon())) == ETIMEDOUT);
    BOOST_TEST(world.error(world.out.close(world.soon())) == ETIMEDOUT); // and the file is open
    world.engine().release_held();
    BOOST_TEST(world.error(world.out.close()) == EIO);
    BOOST_TEST(world.error(world.out.close()) == EBADF);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_writer_that_goes_takes_its_sync_back, Backend, both_backends) {
    for (const bool hold : {false, true}) {
        syncing_world<Backend> world;
        world.write_out();
        world.next.hold = hold;
        task<> given_up = world.out.sync();
        given_up.handle().resume();
        given_up = {};
    }
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire::testing
