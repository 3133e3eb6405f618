// Files on a simulated host are the machine's, and take no time of the simulation: what is read and written beside timers and connections
// happens the same way each time.
#include "two_hosts.hh"

#include <tests/support/temporary_directory.hh>

#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/reactor/file/directory.hh>
#include <corewire/reactor/file/file.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/spawn.hh>

#include <boost/test/unit_test.hpp>

#include <fstream>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

task<> store(tcp_stream peer, std::string path) {
    file to = co_await file::create(path);
    std::uint64_t size = 0;
    while (auto data = co_await peer.read()) {
        co_await to.write(data.bytes(), size);
        size += data.size();
    }
    co_await to.close();
    co_await peer.close();
}

task<> serve_storage(std::string folder) {
    auto listener = tcp_listener::bind({ipv4::any(), 7});
    for (unsigned n = 0;; ++n) {
        tcp_stream peer = co_await listener.accept();
        spawn(store(std::move(peer), folder + "/stored-" + std::to_string(n)));
    }
}

/// Reads it in pieces and sends them: each piece leaves at the time at which it was asked for.
task<> send_file(std::string path, socket_address to) {
    auto peer = co_await tcp_stream::connect(to);
    const file from = co_await file::open(path);
    std::vector<std::byte> piece(5'000);
    for (std::uint64_t at = 0;;) {
        const std::size_t n = co_await from.read(mutable_byte_span(piece), at);
        if (n == 0) break;
        co_await peer.write(byte_span(piece).first(n));
        at += n;
    }
    co_await peer.close();
}

/// Something for time to go on to.
task<> tick(unsigned& ticks) {
    for (;;) {
        co_await sleep_for(50us);
        ++ticks;
    }
}

struct life {
    std::uint64_t digest;
    duration took;
    unsigned ticks = 0;
    friend bool operator==(const life&, const life&) = default;
};

life copies(const std::string& folder, std::uint64_t seed) {
    two_hosts w({.latency = 1ms, .bits_per_second = 100'000'000}, seed);
    life result{};
    w.server.spawn([&] { return serve_storage(folder); });
    w.client.spawn([&] { return tick(result.ticks); });
    const auto three_at_once = [&]() -> task<> {
        task_group senders("senders");
        for (int i = 0; i < 3; ++i) senders.spawn(send_file(folder + "/source", w.at(7)));
        co_await senders.join();
    };
    w.world.run(w.client, three_at_once);
    w.world.run_for(100ms);
    result.took = w.world.elapsed();
    result.digest = w.world.digest();
    BOOST_TEST(w.server.failed() + w.client.failed() == 0u);
    return result;
}

} // namespace

BOOST_AUTO_TEST_SUITE(simulated_files)

BOOST_AUTO_TEST_CASE(what_is_asked_of_a_file_is_done_in_the_same_moment) {
    const testing::temporary_directory folder(testing::in_memory());
    two_hosts w;
    unsigned ticks = 0;
    w.client.spawn([&] { return tick(ticks); });
    const auto use_files = [&]() -> task<> {
        for (int i = 0; i < 20; ++i) {
            file f = co_await file::create(folder / "one");
            co_await f.write(std::string_view("text"), 0);
            co_await f.sync();
            std::array<std::byte, 10> into;
            BOOST_TEST(co_await f.read(mutable_byte_span(into), 0) == 4u);
            co_await f.close();
            const auto names = co_await list_directory(folder.path()); // a helper thread's work
            BOOST_TEST(names.size() == 1u);
        }
    };
    w.world.run_for(1s);
    w.world.run(w.client, use_files);
    BOOST_TEST(w.world.elapsed().count() == duration(1s).count());
    BOOST_TEST((ticks == 19'999u || ticks == 20'000u));
}

BOOST_AUTO_TEST_CASE(a_world_without_timers_waits_for_a_file) {
    const testing::temporary_directory folder(testing::in_memory());
    simulation world;
    sim_host& host = world.add_host("alone");
    world.run_for(10s); // announcements are over
    const auto write = [&]() -> task<> {
        file f = co_await file::create(folder / "one");
        co_await f.write(std::string_view("text"), 0);
        co_await f.close();
    };
    world.run(host, write);
    BOOST_TEST(std::filesystem::file_size(folder / "one") == 4u);
}

BOOST_AUTO_TEST_CASE(what_a_body_begins_with_is_done_in_its_first_turns) {
    const testing::temporary_directory folder(testing::in_memory());
    std::ofstream(folder / "one") << "text";
    simulation world;
    sim_host& host = world.add_host("alone");
    unsigned entries = 0;
    const auto list = [&]() -> task<> { // by a helper thread, which may take its time
        const auto names = co_await list_directory(folder.path());
        entries += static_cast<unsigned>(names.size());
    };
    for (unsigned i = 1; i <= 20; ++i) {
        host.spawn(list);
        for (int turn = 0; turn < 3; ++turn) host.shard().turn(); // it is open; an entry; the end
        BOOST_TEST(entries == i);
    }
}

BOOST_AUTO_TEST_CASE(files_beside_timers_and_connections_give_the_same_packets_each_time) {
    const testing::temporary_directory folder(testing::in_memory());
    std::ofstream(folder / "source") << std::string(200'000, 'x');
    const life once = copies(folder.path(), 3);
    BOOST_TEST(once.ticks > 100u);
    for (int i = 0; i < 4; ++i) BOOST_TEST((copies(folder.path(), 3) == once));
    BOOST_TEST((copies(folder.path(), 4).digest != once.digest));
    for (const char* stored : {"stored-0", "stored-1", "stored-2"}) BOOST_TEST(std::filesystem::file_size(folder / stored) == 200'000u);
}

BOOST_AUTO_TEST_CASE(a_host_that_crashes_over_a_file_leaves_it_and_goes_on) {
    const testing::temporary_directory folder(testing::in_memory());
    two_hosts w;
    std::uint64_t written = 0;
    const auto write_for_ever = [&]() -> task<> {
        file f = co_await file::create(folder / "one");
        for (;; ++written) {
            co_await f.write(std::string_view("text"), 0);
            if (written % 10 == 0) co_await sleep_for(1ms);
        }
    };
    w.client.spawn(write_for_ever);
    w.world.after(100ms, [&] { w.client.crash(); });
    w.world.run_for(1s);
    BOOST_TEST(written > 900u);
    BOOST_TEST(written < 1'100u);
}

BOOST_AUTO_TEST_SUITE_END()
