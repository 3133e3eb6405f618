// The tutorial: its text holds the very code that is compiled and run here, step by step, over the kernel's sockets on loopback.
// ctest: processors=2
#include "docs/tutorial/echo.hh"
#include "docs/tutorial/program.hh"
#include "docs/tutorial/protocol.hh"
#include "docs/tutorial/server.hh"
#include "docs/tutorial/snapshot.hh"
#include "docs/tutorial/store.hh"

#include <corewire/app.hh>

#include "tests/support/temporary_directory.hh"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tutorial;

namespace {

std::string contents(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream all;
    all << file.rdbuf();
    return all.str();
}

void expect(bool holds, const std::string& what) {
    if (!holds) throw std::runtime_error("the tutorial's step does not hold: " + what);
}

/// Runs `step` as shard 0's body of a program of two cores. In a process of its own, as programs are. 0: it ended well.
int run_program(std::function<cw::task<>()> step) {
    const pid_t child = ::fork();
    if (child == 0) {
        cw::app program("tutorial");
        char* argv[] = {const_cast<char*>("tutorial"), const_cast<char*>("--net=kernel"), const_cast<char*>("--cores=2"), nullptr};
        const auto idle = []() -> cw::task<> { co_return; };
        ::_exit(program.run_on_every_core(3, argv, [&] { return cw::this_shard::id() == 0 ? step() : idle(); }));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

cw::tcp_listener listen_here() { return cw::tcp_listener::bind({cw::ipv4{127, 0, 0, 1}, 0}); }

cw::task<> one_echo(cw::tcp_listener& listener) {
    cw::tcp_stream peer = co_await listener.accept();
    co_await echo(std::move(peer));
}
cw::task<> step_echo() {
    auto listener = listen_here();
    cw::task_group serving("echo");
    serving.spawn(one_echo(listener));
    auto peer = co_await cw::tcp_stream::connect(listener.local_address());
    co_await write_frame(peer, "hello");
    auto back = co_await read_frame(peer);
    expect(back && *back == "hello", "what is echoed comes back, framed");
    peer.shutdown();
    co_await serving.join();
}

cw::task<std::string> ask(cw::tcp_stream& peer, std::string what) {
    co_await write_frame(peer, std::move(what));
    auto reply = co_await read_frame(peer);
    co_return reply ? *reply : "(the end)";
}
cw::task<> step_too_long() {
    store data;
    co_await data.start();
    server serving(data, 4);
    cw::stop_source stop;
    cw::task_group group("server");
    auto listener = listen_here();
    const auto address = listener.local_address();
    group.spawn(serving.run(std::move(listener), stop.token()));
    auto peer = co_await cw::tcp_stream::connect(address);
    const std::string boast("\xff\xff\xff\xff", 4);
    co_await peer.write(std::string_view(boast));
    auto reply = co_await cw::as_result(read_frame(peer));
    expect(!reply || !*reply, "a frame that is too long ends its session");
    auto other = co_await cw::tcp_stream::connect(address);
    const std::string good = co_await ask(other, "GET x");
    expect(good == "NONE", "and no other");
    stop.request_stop();
    co_await group.join();
    co_await data.stop();
}
/// A port that was free a moment ago, of those that no connection is given by itself.
std::uint16_t a_free_port() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool bound = false;
    for (int tries = 0; tries < 100 && !bound; ++tries) {
        at.sin_port = htons(static_cast<std::uint16_t>(20'000 + (::getpid() * 7 + tries * 61) % 10'000));
        bound = ::bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    }
    ::close(fd);
    expect(bound, "a free port");
    return ntohs(at.sin_port);
}
/// Connected to what listens there, once it does; -1: it never did. `buffer`: bytes for what is received, 0: as usual.
int connected(std::uint16_t port, int buffer = 0) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int tries = 0; tries < 3000; ++tries) {
        const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
        if (buffer != 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
        if (::connect(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0) return fd;
        ::close(fd);
        ::usleep(10'000); // until it listens
    }
    return -1;
}
std::string framed(const std::string& text) {
    std::string all(4, '\0');
    cw::store_be32(reinterpret_cast<std::byte*>(all.data()), static_cast<std::uint32_t>(text.size()));
    return all + text;
}
bool say(int fd, const std::string& bytes) {
    return ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}
/// The reply to a request from outside of the program.
std::string ask_from_outside(int fd, const std::string& request) {
    std::string head(4, '\0');
    if (!say(fd, framed(request)) || ::recv(fd, head.data(), 4, MSG_WAITALL) != 4) return "(nothing)";
    std::string text(cw::load_be32(reinterpret_cast<const std::byte*>(head.data())), '\0');
    return ::recv(fd, text.data(), text.size(), MSG_WAITALL) == static_cast<ssize_t>(text.size()) ? text : "(cut off)";
}
pid_t start(const settings& options) {
    const pid_t child = ::fork();
    expect(child >= 0, "a process");
    if (child == 0) {
        ::alarm(60); // it does not outlive its test
        char* argv[] = {const_cast<char*>("store"), const_cast<char*>("--net=kernel"), const_cast<char*>("--cores=2"), nullptr};
        ::_exit(run(3, argv, options));
    }
    return child;
}
/// What it ends with; -1: by a signal.
int status_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
/// Asked to stop, it ended well.
bool stops(pid_t child) {
    ::kill(child, SIGTERM);
    return status_of(child) == 0;
}

std::string snapshot_path;
cw::task<> step_service() {
    store data;
    co_await data.start();
    server serving(data, 4);
    cw::stop_source stop;
    cw::task_group group("server");
    auto listener = listen_here();
    const auto address = listener.local_address();
    group.spawn(serving.run(std::move(listener), stop.token()));

    auto peer = co_await cw::tcp_stream::connect(address);
    for (int i = 0; i < 20; ++i) {
        const std::string number = std::to_string(i);
        const std::string said = co_await ask(peer, "SET key" + number + " value " + number);
        expect(said == "OK", "SET says " + said);
    }
    const std::string value = co_await ask(peer, "GET key7");
    const std::string none = co_await ask(peer, "GET nothing");
    const std::string error = co_await ask(peer, "FORGET key7");
    expect(value == "VALUE value 7" && none == "NONE" && error.starts_with("ERROR"), "GET: " + value + ", " + none + ", " + error);
    auto sizes = [](part& p) { return p.entries.size(); };
    const std::size_t total = co_await data.parts().map_reduce(sizes, std::size_t{0}, std::plus<>{});
    expect(total == 20 && data.parts().local().entries.size() < 20, "keys are spread over the shards");
    expect(serving.requests() == 23, "requests are counted");

    const std::string odd = co_await ask(peer, "SET odd\tkey two\nlines");
    expect(odd == "OK", "any bytes may be stored");
    snapshots saved(data, snapshot_path);
    co_await saved.save();
    store again;
    co_await again.start();
    snapshots read(again, snapshot_path);
    co_await read.load();
    const auto lines = co_await again.get("odd\tkey"), seventh = co_await again.get("key7");
    expect(lines == "two\nlines" && seventh == "value 7", "what was saved is loaded");
    const std::size_t loaded = co_await again.parts().map_reduce(sizes, std::size_t{0}, std::plus<>{});
    expect(loaded == 21, "all of it");
    co_await again.stop();

    stop.request_stop(); // an idle session ends at once
    co_await group.join();
    co_await data.stop();
}

cw::task<> step_bad_snapshot() {
    store data;
    co_await data.start();
    snapshots bad(data, snapshot_path);
    std::error_code failure;
    try {
        co_await bad.load();
    } catch (const std::system_error& e) {
        failure = e.code();
    }
    expect(failure == std::errc::bad_message, "a file that is no snapshot is refused");
    co_await data.stop();
}

} // namespace

BOOST_AUTO_TEST_SUITE(tutorial)

BOOST_AUTO_TEST_CASE(the_text_holds_the_code_that_is_compiled) {
    const std::filesystem::path source = std::getenv("COREWIRE_SOURCE_DIR");
    const std::string text = contents(source / "docs/TUTORIAL.md");
    std::set<std::string> shown;
    for (std::size_t at = 0; (at = text.find("```cpp\n// docs/tutorial/", at)) != std::string::npos;) {
        const std::size_t begin = at + 7, end = text.find("```", begin);
        const std::string block = text.substr(begin, end - begin);
        const std::string name = block.substr(3, block.find('\n') - 3);
        BOOST_CHECK_MESSAGE(block == contents(source / name), name << " is not what the tutorial shows");
        shown.insert(std::filesystem::path(name).filename());
        at = end;
    }
    for (const auto& file : std::filesystem::directory_iterator(source / "docs/tutorial"))
        if (file.path().extension() == ".hh")
            BOOST_CHECK_MESSAGE(shown.contains(file.path().filename()), file.path().filename() << " is not in the tutorial");
    BOOST_CHECK_EQUAL(shown.size(), 6u);
}

BOOST_AUTO_TEST_CASE(the_first_step_echoes_frames) { BOOST_CHECK_EQUAL(run_program(step_echo), 0); }

BOOST_AUTO_TEST_CASE(a_frame_that_is_too_long_ends_its_session_only) { BOOST_CHECK_EQUAL(run_program(step_too_long), 0); }

BOOST_AUTO_TEST_CASE(the_service_stores_counts_saves_and_stops) {
    const corewire::testing::temporary_directory folder;
    snapshot_path = folder / "store";
    BOOST_CHECK_EQUAL(run_program(step_service), 0);
}

BOOST_AUTO_TEST_CASE(what_is_no_snapshot_is_refused) {
    const corewire::testing::temporary_directory folder;
    snapshot_path = folder / "store";
    const std::string breaks_off("\0\0\0\1\0\0\0\3abc", 11), boasts("\xff\xff\xff\xff\0\0\0\1abc", 11);
    for (const std::string& bytes : {std::string("half"), breaks_off, boasts}) {
        std::ofstream(snapshot_path) << bytes;
        BOOST_CHECK_EQUAL(run_program(step_bad_snapshot), 0);
    }
}

BOOST_AUTO_TEST_CASE(the_program_serves_until_SIGTERM_and_goes_on_where_it_was) {
    const corewire::testing::temporary_directory folder(corewire::testing::in_memory()); // the stop has five seconds to save
    const settings options{.port = a_free_port(), .snapshot = folder / "store"};
    const pid_t first = start(options);
    int fd = connected(options.port);
    BOOST_CHECK_EQUAL(ask_from_outside(fd, "SET a bcd"), "OK");
    ::close(fd);
    BOOST_CHECK(stops(first));
    BOOST_CHECK_EQUAL(contents(options.snapshot), std::string("\0\0\0\1\0\0\0\3abcd", 12));

    const settings anew{.port = a_free_port(), .snapshot = options.snapshot};
    const pid_t second = start(anew);
    fd = connected(anew.port);
    BOOST_CHECK_EQUAL(ask_from_outside(fd, "GET a"), "VALUE bcd");
    ::close(fd);
    BOOST_CHECK(stops(second));

    std::ofstream(options.snapshot) << "half";
    BOOST_CHECK_EQUAL(status_of(start({.port = a_free_port(), .snapshot = options.snapshot})), 1); // refused, in order
    BOOST_CHECK_EQUAL(contents(options.snapshot), "half");
}

BOOST_AUTO_TEST_CASE(a_client_that_reads_nothing_does_not_keep_a_stop_from_saving) {
    const corewire::testing::temporary_directory folder(corewire::testing::in_memory()); // the stop has five seconds to save
    const settings options{.port = a_free_port(), .snapshot = folder / "store"};
    const pid_t child = start(options);
    const int fd = connected(options.port, 4096);
    BOOST_CHECK_EQUAL(ask_from_outside(fd, "SET a " + std::string(60'000, 'x')), "OK");
    std::string requests;
    for (int i = 0; i < 1000; ++i) requests += framed("GET a"); // 60 MB: more than buffers hold
    BOOST_CHECK(say(fd, requests));
    char first = 0;
    BOOST_CHECK(::recv(fd, &first, 1, MSG_PEEK) == 1); // the replies come
    BOOST_CHECK(stops(child));
    BOOST_CHECK_EQUAL(contents(options.snapshot).size(), 8u + 1 + 60'000);
    ::close(fd);
}

BOOST_AUTO_TEST_SUITE_END()
