// Files on a simulated host are the machine's, and take no time of the simulation: what is read and written beside timers and connections
// happens the same way each time.
#include "two_hosts.hh"

#include <tests/support/temporary_directory.hh>

#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/directory.hh>
#include <corewire/reactor/file/file.hh>
#include <corewire/reactor/file/io_engine.hh>
#include <corewire/reactor/file/io_fault.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/spawn.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <fstream>
#include <unistd.h>

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

/// A disk that forgets at a crash what was not synced since, but for a beginning of the oldest write that it forgets: a torn one.
class forgetful_disk final : public io_fault_source {
public:
    io_fault next(const io_arguments& a) noexcept override {
        if (a.opcode == io_opcode::sync) writes_.clear();
        if (a.opcode != io_opcode::write) return {};
        const auto* const from = static_cast<const std::byte*>(a.address);
        write w{unique_fd(::dup(a.fd)), a.offset, {from, from + a.length}};
        writes_.push_back(std::move(w));
        return {};
    }
    void crash(std::size_t torn) {
        if (writes_.empty()) return;
        const write& oldest = writes_.front(); // all of them append
        BOOST_REQUIRE(::ftruncate(oldest.fd.get(), static_cast<off_t>(oldest.offset)) == 0);
        const auto at = static_cast<off_t>(oldest.offset);
        torn = std::min(torn, oldest.bytes.size());
        BOOST_REQUIRE(::pwrite(oldest.fd.get(), oldest.bytes.data(), torn, at) == static_cast<ssize_t>(torn));
        writes_.clear();
    }
    std::size_t unsynced() const noexcept { return writes_.size(); }

private:
    struct write {
        unique_fd fd;
        std::uint64_t offset;
        std::vector<std::byte> bytes;
    };
    std::vector<write> writes_;
};

/// Eight bytes each: a number, and its complement, by which a torn one is known.
struct log_entry {
    std::uint32_t number = 0, check = 0;
};

/// Keeps each entry, and answers with its number when it is on the disk.
task<> keep_log(std::string path) {
    auto listener = tcp_listener::bind({ipv4::any(), 7});
    tcp_stream peer = co_await listener.accept();
    file log = co_await file::create(path);
    std::array<std::byte, sizeof(std::uint32_t)> said;
    for (std::uint64_t at = 0; co_await peer.read_exactly(said) == said.size(); at += sizeof(log_entry)) {
        log_entry e;
        std::memcpy(&e.number, said.data(), sizeof e.number);
        e.check = ~e.number;
        co_await log.write(std::as_bytes(std::span(&e, 1)), at);
        co_await sleep_for(300us); // others may write meanwhile
        co_await log.sync();
        co_await peer.write(byte_span(said));
    }
}

/// Counts up; `acknowledged`: the last number that has come back.
task<> write_log(socket_address to, std::uint32_t& acknowledged) {
    tcp_stream peer = co_await tcp_stream::connect(to);
    std::array<std::byte, sizeof(std::uint32_t)> said;
    for (std::uint32_t n = 1;; ++n) {
        std::memcpy(said.data(), &n, sizeof n);
        co_await peer.write(byte_span(said));
        if (co_await peer.read_exactly(said) != said.size()) co_return;
        std::memcpy(&acknowledged, said.data(), sizeof acknowledged);
    }
}

/// The whole entries from the beginning on; whatever is behind them is dropped.
task<> recover(std::string path, std::uint32_t& last) {
    const file log = co_await file::open(path);
    log_entry e;
    for (last = 0; co_await log.read_exactly(io_piece(std::as_writable_bytes(std::span(&e, 1))), last * sizeof e) == sizeof e; ++last)
        if (e.number != last + 1 || e.check != ~e.number) co_return;
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

BOOST_AUTO_TEST_CASE(what_was_acknowledged_outlives_a_crash_and_a_torn_write_is_known) {
    unsigned forgot = 0, lost = 0;
    for (unsigned i = 0; i < 40; ++i) {
        const testing::temporary_directory folder(testing::in_memory());
        forgetful_disk disk;
        two_hosts w({.latency = 50us});
        w.server.loop().files().inject(&disk);
        std::uint32_t acknowledged = 0, kept = 0;
        w.server.spawn([&] { return keep_log(folder / "log"); });
        w.client.spawn([&] { return write_log(w.at(7), acknowledged); });
        w.world.run_for(20ms + i * 37us);
        BOOST_TEST(acknowledged > 10u);
        w.server.crash();
        forgot += disk.unsynced() != 0;
        disk.crash(i % 9); // all of it was there, and nobody had said so
        w.world.run(w.server, [&] { return recover(folder / "log", kept); });
        BOOST_TEST((kept == acknowledged || kept == acknowledged + 1), kept << " kept, " << acknowledged << " acknowledged");
        lost += kept == acknowledged && std::filesystem::file_size(folder / "log") != kept * sizeof(log_entry);
    }
    BOOST_TEST(forgot > 10u);
    BOOST_TEST(lost > 5u);
}

BOOST_AUTO_TEST_SUITE_END()
