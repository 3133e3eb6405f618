// Ports of the kernel's addresses that are ours, held there against the kernel's own sockets.
// ctest: root=yes resource_lock=network_namespaces timeout=60
#include <corewire/net/port/owned_ports.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <tests/support/netns.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <future>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <set>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace corewire;
using corewire::test::have_root;
using corewire::test::network_namespace;
using corewire::test::veth_pair;

namespace {

constexpr auto tcp = wire::ip_protocol::tcp;

struct noted_owner final : flow_owner {
    int own_flow(const steered_flow& f) noexcept override {
        if (on_command) on_command();
        return refusal != 0 ? refusal : owned.insert(f.local_port).second ? 0 : EEXIST;
    }
    void disown_flow(const steered_flow& f) noexcept override {
        if (on_command) on_command();
        owned.erase(f.local_port);
    }
    std::set<std::uint16_t> owned;
    std::function<void()> on_command; ///< which takes its time
    int refusal = 0;
};

struct world {
    network_namespace here, there;
    veth_pair link{here, "10.9.0.1/24", there, "10.9.0.2/24"};
    network_namespace::scope inside{here};
    std::shared_ptr<noted_owner> steering = std::make_shared<noted_owner>();
    owned_ports ports{steering, {query_interface(link.first()).index, link.first()}, {us}};

    static constexpr ipv4 us{10, 9, 0, 1}, silent{10, 9, 0, 99};
};

sockaddr_in at(ipv4 address, std::uint16_t port) {
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = host_to_be(port);
    address.store(reinterpret_cast<std::byte*>(&out.sin_addr));
    return out;
}

/// A socket of the kernel's, bound to the port; invalid when it cannot be.
unique_fd kernels(ipv4 address, std::uint16_t port) {
    unique_fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    const sockaddr_in to = at(address, port);
    return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 ? std::move(fd) : unique_fd();
}

/// The port that the kernel chooses for a connection of its own; 0: none.
std::uint16_t kernel_connects(unique_fd& fd) {
    fd = unique_fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr_in to = at(world::silent, 9);
    sockaddr_in from{};
    socklen_t size = sizeof from;
    if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0 && errno != EINPROGRESS) return 0;
    return ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&from), &size) == 0 ? host_to_be(from.sin_port) : std::uint16_t{0};
}

} // namespace

BOOST_AUTO_TEST_SUITE(owned_ports)

BOOST_AUTO_TEST_CASE(the_local_port_of_our_connections_is_held_until_the_last_one_has_gone) {
    if (!have_root()) return;
    world w;
    BOOST_TEST(w.ports.hold(tcp, w.us, 40000) == 0);
    BOOST_TEST(w.ports.hold(tcp, w.us, 40000) == 0); // to somebody else
    BOOST_TEST(w.steering->owned.empty());
    BOOST_TEST(!kernels(w.us, 40000));
    w.ports.let_go(tcp, w.us, 40000);
    BOOST_TEST(!kernels(w.us, 40000));
    BOOST_TEST(!kernels(ipv4::any(), 40000));
    w.ports.let_go(tcp, w.us, 40000);
    const unique_fd theirs = kernels(w.us, 40000);
    BOOST_TEST(!!theirs);
    BOOST_TEST(w.ports.hold(tcp, w.us, 40000) == EADDRINUSE);
}

BOOST_AUTO_TEST_CASE(a_port_that_the_kernel_connects_from_is_not_ours_and_none_of_ours_is_chosen_by_it) {
    if (!have_root()) return;
    world w;
    w.here.check("ip neighbour replace 10.9.0.99 lladdr 02:00:00:00:00:99 dev cwa0 nud permanent"); // nobody, who refuses nothing
    w.here.check("echo 40000 40003 >/proc/sys/net/ipv4/ip_local_port_range");
    unique_fd first;
    const std::uint16_t theirs = kernel_connects(first);
    BOOST_REQUIRE(theirs != 0);
    int held = 0;
    for (std::uint16_t port = 40000; port <= 40003; ++port) {
        const int error = w.ports.hold(tcp, w.us, port);
        BOOST_TEST(error == (port == theirs ? EADDRINUSE : 0));
        held += error == 0;
    }
    BOOST_TEST(held == 3);
    unique_fd second;
    BOOST_TEST(kernel_connects(second) == 0); // it has no other port to that destination
}

BOOST_AUTO_TEST_CASE(a_port_may_be_served_and_connected_from) {
    if (!have_root()) return;
    world w;
    for (const bool served_first : {false, true}) {
        if (served_first) w.ports.claim(tcp, w.us, 7);
        BOOST_TEST(w.ports.hold(tcp, w.us, 7) == 0);
        if (!served_first) w.ports.claim(tcp, w.us, 7);
        BOOST_TEST(w.steering->owned.contains(7));
        if (served_first) w.ports.let_go(tcp, w.us, 7);
        else w.ports.release(tcp, w.us, 7);
        BOOST_TEST(w.steering->owned.contains(7) == served_first);
        BOOST_TEST(!kernels(w.us, 7));
        if (served_first) w.ports.release(tcp, w.us, 7);
        else w.ports.let_go(tcp, w.us, 7);
        BOOST_TEST(w.steering->owned.empty());
        BOOST_TEST(!!kernels(w.us, 7));
    }
}

BOOST_AUTO_TEST_CASE(while_a_port_is_steered_other_ports_are_held_and_let_go) {
    if (!have_root()) return;
    world w;
    int commands = 0;
    std::vector<std::future<bool>> waiting;
    w.steering->on_command = [&] {
        ++commands;
        auto held = std::async(std::launch::async, [&] {
            const network_namespace::scope there(w.here);
            const int other = w.ports.hold(tcp, w.us, 40000), same = w.ports.hold(tcp, w.us, 7);
            w.ports.let_go(tcp, w.us, 40000);
            w.ports.let_go(tcp, w.us, 7);
            return other == 0 && same == 0;
        });
        waiting.push_back(std::move(held));
        BOOST_TEST((waiting.back().wait_for(std::chrono::seconds{5}) == std::future_status::ready)); // they did not wait for this
    };
    w.ports.claim(tcp, w.us, 7);
    BOOST_TEST(!kernels(w.us, 7)); // nobody lost it meanwhile
    w.ports.release(tcp, w.us, 7);
    w.steering->refusal = ENOBUFS;
    BOOST_CHECK_THROW(w.ports.claim(tcp, w.us, 7), std::system_error);
    BOOST_TEST(commands == 3);
    for (auto& each : waiting) BOOST_TEST(each.get());
    for (const std::uint16_t port : {7, 40000}) BOOST_TEST(!!kernels(w.us, port));
    // What comes to be held meanwhile stays.
    w.steering->on_command = [&] { BOOST_TEST(w.ports.hold(tcp, w.us, 7) == 0); };
    BOOST_CHECK_THROW(w.ports.claim(tcp, w.us, 7), std::system_error);
    BOOST_TEST(!kernels(w.us, 7));
    w.ports.let_go(tcp, w.us, 7);
    BOOST_TEST(!!kernels(w.us, 7));
}

BOOST_AUTO_TEST_CASE(of_two_who_claim_a_port_one_has_it_steered) {
    if (!have_root()) return;
    world w;
    std::future<void> second;
    bool asked = false;
    w.steering->on_command = [&] {
        if (std::exchange(asked, true)) return; // the release
        second = std::async(std::launch::async, [&] {
            const network_namespace::scope there(w.here);
            w.ports.claim(tcp, w.us, 7); // waits for the first one
        });
        BOOST_TEST((second.wait_for(std::chrono::milliseconds{100}) == std::future_status::timeout));
    };
    w.ports.claim(tcp, w.us, 7);
    second.get();
    w.ports.release(tcp, w.us, 7);
    BOOST_TEST(w.steering->owned.contains(7));
    w.ports.release(tcp, w.us, 7);
    BOOST_TEST(w.steering->owned.empty());
}

BOOST_AUTO_TEST_CASE(the_soft_limit_on_descriptors_is_none) {
    if (!have_root()) return;
    world w;
    rlimit usual{};
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
    const unique_fd next(::dup(0));
    const rlimit none{static_cast<rlim_t>(next.get() + 1), usual.rlim_max};
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    const int error = w.ports.hold(tcp, w.us, 40000);
    ::setrlimit(RLIMIT_NOFILE, &usual);
    BOOST_TEST(error == (usual.rlim_max > none.rlim_cur ? 0 : EMFILE));
}

BOOST_AUTO_TEST_CASE(the_last_descriptors_are_left_for_other_things) {
    if (!have_root()) return;
    world w;
    const unique_fd next(::dup(0));
    const pid_t child = ::fork(); // whose limit alone is lowered
    if (child == 0) {
        const rlim_t most = static_cast<rlim_t>(next.get()) + 64;
        const rlimit few{most, most};
        if (::setrlimit(RLIMIT_NOFILE, &few) != 0) ::_exit(1);
        std::uint16_t port = 40'000;
        int error = 0;
        while (error == 0 && port < 40'100) error = w.ports.hold(tcp, w.us, port++);
        ::_exit(error != EMFILE ? 2 : port < 40'032 ? 3 : ::dup(0) < 0 || ::dup(0) < 0 ? 4 : 0);
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(a_limit_on_descriptors_that_may_not_be_raised_is_told_as_what_it_is) {
    if (!have_root()) return;
    world w;
    rlimit usual{};
    BOOST_REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
    const unique_fd next(::dup(0));
    const rlimit none{static_cast<rlim_t>(next.get() + 1), usual.rlim_max};
    BOOST_REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    int error = 0;
    bool forbidden = false;
    std::thread([&] { // of which alone the filter is
        std::array<sock_filter, 8> program{
            sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 5),
            sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])), // the new limit: getrlimit() has none
            sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2),
            sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2]) + 4),
            sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
            sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
            sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog filter{program.size(), program.data()};
        forbidden = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
        if (!forbidden) return;
        rlimit known{};
        error = w.ports.hold(tcp, w.us, 40000);
        if (::getrlimit(RLIMIT_NOFILE, &known) != 0 || ::setrlimit(RLIMIT_NOFILE, &known) == 0) error = -1; // not what the filter is for
    }).join();
    ::setrlimit(RLIMIT_NOFILE, &usual);
    if (forbidden) BOOST_TEST(error == EMFILE);
}

BOOST_AUTO_TEST_CASE(what_is_lent_follows_the_range_that_the_kernel_of_the_namespace_chooses_from) {
    if (!have_root()) return;
    world w;
    w.here.check("echo 40000 40003 >/proc/sys/net/ipv4/ip_local_port_range");
    const corewire::owned_ports narrow(w.steering, w.ports.on(), {w.us});
    BOOST_TEST(narrow.lent().count() == 32768u - 4);
    BOOST_TEST((!narrow.lent().contains(40000) && !narrow.lent().contains(40003) && narrow.lent().contains(40004)));
    std::string every_other = "50000";
    for (unsigned port = 50'002; port < 65'536; port += 2) every_other += ',' + std::to_string(port);
    w.here.check("echo " + every_other + " >/proc/sys/net/ipv4/ip_local_reserved_ports"); // of services
    const corewire::owned_ports without(w.steering, w.ports.on(), {w.us});
    BOOST_TEST(without.lent().count() == 32768u - 4 - 7768);
    BOOST_TEST((!without.lent().contains(65534) && without.lent().contains(65535)));
}

BOOST_AUTO_TEST_SUITE_END()
