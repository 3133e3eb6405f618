// Whole programs, each in a process of its own: what they print, and how they exit.
// ctest: processors=2
#include <corewire/apps/runtime/app.hh>
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/socket/bind_error.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/reactor/metrics/metrics_page.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/this_shard.hh>
#include <corewire/reactor/task/sleep.hh>
#include <tests/support/socket_suite.hh>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iostream>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace corewire;

namespace {

struct ended {
    int exit_code; ///< -1: killed by a signal
    std::string said;

    bool in_one_line() const { return std::ranges::count(said, '\n') == 1 && said.ends_with('\n'); }
    bool mentions(std::string_view words) const { return said.find(words) != std::string::npos; }
};

/// Runs `program` in a child with stdout and stderr in a pipe.
ended run_program(const std::function<int()>& program) {
    int pipe[2];
    BOOST_REQUIRE(::pipe(pipe) == 0);
    std::cout.flush(); // or the child would print it too
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
        ::dup2(pipe[1], 1);
        ::dup2(pipe[1], 2);
        ::close(pipe[0]);
        ::close(pipe[1]);
        const int code = program();
        std::fflush(nullptr);
        ::_exit(code);
    }
    ::close(pipe[1]);
    ended out{};
    char bytes[4096];
    for (ssize_t n; (n = ::read(pipe[0], bytes, sizeof bytes)) > 0;) out.said.append(bytes, static_cast<std::size_t>(n));
    ::close(pipe[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    ::unlink((std::string(corewire::metrics_page::default_folder) + "/corewire-" + std::to_string(child)).c_str()); // if it was killed
    out.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return out;
}

int run_app(std::vector<std::string> arguments, std::function<task<>()> body) {
    corewire::app program("prog", "A program under test");
    // What it says is read to the last line: a machine that takes the core away is not to add one, nor what io_uring can do here.
    std::vector<char*> argv{const_cast<char*>("prog"), const_cast<char*>("--stall-ms=0"), const_cast<char*>("--log-level=file=warn,info")};
    for (std::string& a : arguments) argv.push_back(a.data());
    return program.run_on_every_core(static_cast<int>(argv.size()), argv.data(), std::move(body));
}

task<> nothing() { co_return; }
task<> until_stopped() { co_await sleep_for(std::chrono::hours{24}, this_shard::stopping()); }

ended with_arguments(std::vector<std::string> arguments, std::function<task<>()> body = nothing) {
    return run_program([&] { return run_app(arguments, body); });
}

/// A peer that begins to read when the program's tasks have ended.
struct late_reader : timer {
    late_reader() : timer([](timer& t) noexcept { static_cast<late_reader&>(t).read(MSG_DONTWAIT); }) { ::listen(host.get(), 1); }
    ssize_t read(int flags) noexcept {
        ssize_t got;
        while ((got = ::recv(peer.get(), bytes.data(), bytes.size(), flags)) > 0) last = bytes[static_cast<std::size_t>(got) - 1];
        return got;
    }
    unique_fd host{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    unique_fd peer;
    std::vector<char> bytes = std::vector<char>(65536);
    char last = 0;
};

task<> write_too_much(late_reader& to) {
    using namespace std::chrono_literals;
    tcp_stream stream = co_await tcp_stream::connect({ipv4::loopback(), local_address_of(to.host.get()).port});
    to.peer = unique_fd{::accept(to.host.get(), nullptr, nullptr)};
    co_await socket_suite::fill(stream);
    buffer last = stream.allocate(16000);
    std::memset(last.append(16000), 'z', 16000);
    co_await stream.write(std::move(last));
    reactor::current().timers().arm(to, reactor::current().now() + 5ms);
}

} // namespace

BOOST_AUTO_TEST_SUITE(app)

BOOST_AUTO_TEST_CASE(what_was_written_gets_out_before_the_program_ends) {
    const ended e = run_program([] {
        late_reader peer;
        if (const int code = run_app({"--net=kernel", "--cores=1"}, [&] { return write_too_much(peer); }); code != 0) return code;
        const ssize_t end = peer.read(0);
        return end == 0 && peer.last == 'z' ? 0 : 9;
    });
    BOOST_TEST(e.exit_code == 0, e.exit_code << " " << e.said);
}

BOOST_AUTO_TEST_CASE(a_body_that_returns_on_every_core_ends_with_0_and_says_nothing) {
    const ended e = with_arguments({"--net=kernel", "--cores=1"});
    BOOST_TEST(e.exit_code == 0);
    BOOST_TEST(e.said == "");
}

BOOST_AUTO_TEST_CASE(auto_says_in_one_line_what_it_chose_and_why) {
    const ended e = with_arguments({"--cores=1"});
    BOOST_TEST(e.exit_code == 0);
    BOOST_TEST(e.in_one_line());
    BOOST_TEST(e.said.ends_with("Z info - runtime: --net=auto chose kernel: there is no --interface and no --address\n"), e.said);
    BOOST_TEST(with_arguments({"--cores=1", "--log-level=runtime=warn,file=warn,info"}).said == "");
}

BOOST_AUTO_TEST_CASE(what_io_uring_can_do_is_said_at_the_start) {
    const ended usual = with_arguments({"--net=kernel", "--cores=1", "--log-level=info", "--io-in-flight=32"}); // as without that
    BOOST_TEST(usual.exit_code == 0);
    BOOST_TEST(usual.in_one_line(), usual.said);
    BOOST_TEST(usual.mentions("info - file: io_uring"), usual.said);
    BOOST_TEST(usual.said.ends_with("at most 32 file operations a shard at a time\n"), usual.said);
    const ended polled = with_arguments({"--net=kernel", "--cores=1", "--log-level=info", "--sqpoll", "--sqpoll-idle-ms=1"});
    BOOST_TEST(polled.exit_code == 0);
    BOOST_TEST(polled.in_one_line(), polled.said);
    BOOST_TEST(polled.mentions("info - file: io_uring with"), polled.said);
    BOOST_TEST(polled.mentions("SQPOLL"), polled.said);
    const ended several = with_arguments({"--net=wire", "--log-level=file=info,warn"});
    BOOST_TEST(several.exit_code == 0);
    BOOST_TEST(several.in_one_line(), several.said); // once, and not once a shard
}

BOOST_AUTO_TEST_CASE(help_ends_with_0_and_lists_the_options) {
    const ended e = with_arguments({"--help"});
    BOOST_TEST(e.exit_code == 0);
    for (const char* option : {"--net", "--interface", "--address", "--gateway", "--host-address", "--cores", "--xdp-mode", "--xdp-pieces",
                               "--xdp-compute-checksums",
                               "--shared", "--spin-us", "--config", "--pcap", "--trace", "--vlan", "--congestion", "--ecn", "--faults",
                               "--low-latency", "--mtu", "--io-in-flight", "--io-helpers", "--sqpoll", "--sqpoll-idle-ms"})
        BOOST_TEST(e.mentions(option), option << " is not in the help");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_set_up_ends_with_2_and_one_line) {
    for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
             {"--no-such-option"},
             {"--net=dpdk"},
             {"--net=tap", "--address=192.0.2.300/24"},
             {"--net=xdp", "--interface=nonesuch0", "--address=198.51.100.2/24", "--cores=1"},
             {"--net=tap", "--address=198.51.100.2/24", "--interface=much-too-long-a-name", "--cores=1"},
             {"--net=tap", "--address=127.0.0.1/8", "--cores=1"}, // the kernel's own
             {"--net=kernel", "--cores=4095-4095"},
             {"--net=kernel", "--cores=0"},
             {"--net=kernel", "--io-in-flight=0"},
             {"--net=kernel", "--sqpoll-idle-ms=0"},
             {"--net=kernel", "--cores=core:4095"},
             {"--config=/nonexistent.toml"},
             {"surplus"}}) {
        const ended e = with_arguments(arguments);
        BOOST_TEST(e.exit_code == 2, arguments.front() << " ended with " << e.exit_code);
        BOOST_TEST(e.in_one_line(), "not one line: " << e.said);
        BOOST_TEST(e.said.starts_with("prog: "), e.said);
    }
    BOOST_TEST(with_arguments({"--no-such-option"}).mentions("--no-such-option"));
    BOOST_TEST(with_arguments({"--net=kernel", "--cores=4095-4095"}).mentions("prog: --cores: CPU 4095 does not exist"));
    BOOST_TEST(with_arguments({"--net=xdp", "--interface=nonesuch0", "--address=198.51.100.2/24"}).mentions("nonesuch0"));
    BOOST_TEST(with_arguments({"--net=tap", "--address=127.0.0.1/8"}).mentions("the kernel has 127.0.0.1 itself, on lo"));
}

BOOST_AUTO_TEST_CASE(a_body_that_fails_ends_with_1_and_its_message) {
    const ended e = with_arguments({"--net=kernel", "--cores=1"},
                                   []() -> task<> { throw std::runtime_error("the database is gone"); co_return; });
    BOOST_TEST(e.exit_code == 1);
    BOOST_TEST(e.said == "prog: the database is gone\n");
}

BOOST_AUTO_TEST_CASE(a_body_that_may_not_bind_its_port_ends_with_2_and_what_to_do) {
    const ended denied = with_arguments({"--net=kernel", "--cores=1"}, []() -> task<> {
        throw bind_error(std::system_error(EACCES, std::generic_category(), "bind 0.0.0.0:7"));
        co_return;
    });
    BOOST_TEST(denied.exit_code == 2);
    BOOST_TEST(denied.mentions("bind 0.0.0.0:7"));
    BOOST_TEST(denied.mentions("CAP_NET_BIND_SERVICE"));
    BOOST_TEST(denied.in_one_line());
}

task<> fails_to_open(int code) {
    throw std::system_error(code, std::generic_category(), "open /var/lib/orders");
    co_return;
}

BOOST_AUTO_TEST_CASE(an_error_of_a_bodys_work_is_no_error_of_setting_up_whatever_its_code) {
    for (const int code : {EACCES, EPERM, EADDRINUSE, EADDRNOTAVAIL}) {
        const ended e = with_arguments({"--net=kernel", "--cores=1"}, [code] { return fails_to_open(code); });
        BOOST_TEST(e.exit_code == 1);
        BOOST_TEST(e.said == "prog: open /var/lib/orders: " + std::generic_category().message(code) + "\n");
    }
}

task<> binds_elsewhere(bool datagrams) {
    const socket_address nowhere(ipv4(198, 51, 100, 77), 4007);
    if (datagrams) static_cast<void>(udp_socket::bind(nowhere));
    else static_cast<void>(tcp_listener::bind(nowhere));
    co_return;
}

BOOST_AUTO_TEST_CASE(an_address_that_the_host_does_not_have_is_one_line_and_2) {
    for (const bool datagrams : {false, true}) {
        const ended e = with_arguments({"--net=kernel", "--cores=1"}, [datagrams] { return binds_elsewhere(datagrams); });
        BOOST_TEST(e.exit_code == 2);
        BOOST_TEST(e.mentions("198.51.100.77:4007"));
        BOOST_TEST(e.mentions("`ip address`"));
        BOOST_TEST(e.in_one_line(), e.said);
    }
}

BOOST_AUTO_TEST_CASE(a_port_that_another_program_has_is_one_line_and_2) {
    const ended e = with_arguments({"--net=kernel", "--cores=1"}, []() -> task<> {
        // Two listeners on one address in one shard: the second is refused by whatever provider.
        const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        socklen_t size = sizeof at;
        if (::bind(taken, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::listen(taken, 1) != 0) co_return;
        ::getsockname(taken, reinterpret_cast<sockaddr*>(&at), &size);
        auto listener = tcp_listener::bind({ipv4::any(), ntohs(at.sin_port)});
        co_await listener.accept();
    });
    BOOST_TEST(e.exit_code == 2);
    BOOST_TEST(e.in_one_line(), e.said);
}

BOOST_AUTO_TEST_CASE(sigint_and_sigterm_end_with_0) {
    for (const int signal : {SIGINT, SIGTERM}) {
        const ended e = run_program([signal] {
            return run_app({"--net=kernel", "--cores=1"}, [signal]() -> task<> {
                ::kill(::getpid(), signal);
                return until_stopped();
            });
        });
        BOOST_TEST(e.exit_code == 0);
        BOOST_TEST(e.said == "");
    }
}

BOOST_AUTO_TEST_CASE(a_signal_ends_a_server_that_waits_in_accept) {
    const ended e = run_program([] {
        return run_app({"--net=kernel", "--cores=1"}, []() -> task<> {
            auto listener = tcp_listener::bind({ipv4(127, 0, 0, 1), 0});
            ::kill(::getpid(), SIGTERM);
            for (;;) co_await listener.accept(); // as in the README: no token is given
        });
    });
    BOOST_TEST(e.exit_code == 0);
    BOOST_TEST(e.said == "");
}

task<> binds_after_the_stop() {
    ::kill(::getpid(), SIGTERM);
    while (!this_shard::stopping().stop_requested()) co_await sleep_for(std::chrono::milliseconds{1});
    co_await sleep_for(std::chrono::milliseconds{2}); // the listeners that were there have been closed
    auto listener = tcp_listener::bind({ipv4::loopback(), 0});
    for (;;) co_await listener.accept();
}

BOOST_AUTO_TEST_CASE(a_listener_that_is_bound_after_the_stop_ends_as_well) {
    const ended e = with_arguments({"--net=kernel", "--cores=1"}, binds_after_the_stop);
    BOOST_TEST(e.exit_code == 0);
    BOOST_TEST(e.said == ""); // nothing is abandoned
}

/// As a program does whose addresses have not come when it is stopped.
task<> waits_for_addresses_until_the_stop(network_setup& setup, bool& begun) {
    ::kill(::getpid(), SIGTERM);
    while (!this_shard::stopping().stop_requested()) co_await sleep_for(std::chrono::milliseconds{1});
    auto waiting = setup.when_addresses_are_there(0, [&begun] {
        begun = true;
        return nothing();
    });
    co_await waiting;
}

BOOST_AUTO_TEST_CASE(a_stop_before_there_is_an_address_starts_no_body) {
    const ended e = run_program([] {
        network_options options;
        options.dhcp = true;
        network_setup setup(options, {.kind = network_kind::kernel});
        bool begun = false;
        runtime shards({.cpus = {0}, .pin = false});
        shards.run([&] { return waits_for_addresses_until_the_stop(setup, begun); });
        return begun ? 3 : 0;
    });
    BOOST_TEST(e.exit_code == 0, e.exit_code << " " << e.said);
}

BOOST_AUTO_TEST_CASE(a_second_signal_ends_with_130) {
    const ended e = run_program([] {
        return run_app({"--net=kernel", "--cores=1"}, []() -> task<> {
            ::kill(::getpid(), SIGINT);
            while (!this_shard::stopping().stop_requested()) co_await sleep_for(std::chrono::milliseconds{1});
            for (;;) {
                ::kill(::getpid(), SIGTERM);
                co_await sleep_for(std::chrono::milliseconds{1});
            }
        });
    });
    BOOST_TEST(e.exit_code == 130);
}

BOOST_AUTO_TEST_CASE(programs_add_their_own_options_and_checks) {
    const auto program = [](std::vector<std::string> arguments) {
        return run_program([&] {
            corewire::app a("prog");
            int port = 7;
            a.options().add_option("--port", port, "A port").check_range(1, 65535);
            a.on_parsed([&] {
                if (port == 13) throw setup_error("port 13 brings bad luck: choose another --port");
            });
            std::vector<char*> argv{const_cast<char*>("prog")};
            for (std::string& each : arguments) argv.push_back(each.data());
            if (const auto status = a.parse(static_cast<int>(argv.size()), argv.data())) return *status;
            return port == 80 ? 42 : 43;
        });
    };
    BOOST_TEST(program({"--port=80"}).exit_code == 42);
    BOOST_TEST(program({}).exit_code == 43);
    BOOST_TEST(program({"--port=0"}).exit_code == 2);
    const ended unlucky = program({"--port=13"});
    BOOST_TEST(unlucky.exit_code == 2);
    BOOST_TEST(unlucky.said == "prog: port 13 brings bad luck: choose another --port\n");
}

BOOST_AUTO_TEST_SUITE_END()
