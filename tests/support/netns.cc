#include "tests/support/netns.hh"

#include <array>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <sched.h>
#include <stdexcept>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>

namespace corewire::test {

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

unique_fd current_namespace() {
    unique_fd fd(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    if (!fd) fail("cannot open the current network namespace");
    return fd;
}

/// This thread's idea of its namespace, put back however the scope ends.
class come_back {
public:
    come_back() : from_(current_namespace()) {}
    ~come_back() {
        if (::setns(from_.get(), CLONE_NEWNET) != 0) std::terminate(); // nothing sensible can follow
    }

private:
    unique_fd from_;
};

} // namespace

namespace {

bool said_unless(bool here, const char* why) {
    if (here) return true;
    std::printf("SKIPPED: %s\n", why);
    std::fflush(stdout);
    return false;
}

} // namespace

bool have_root() { return said_unless(::geteuid() == 0, "needs root"); }

bool have_ipv6() { return said_unless(::access("/proc/sys/net/ipv6", F_OK) == 0, "this kernel has no IPv6"); }

network_namespace::network_namespace() {
    {
        const come_back afterwards;
        if (::unshare(CLONE_NEWNET) != 0) fail("cannot make a network namespace (needs CAP_SYS_ADMIN)");
        fd_ = current_namespace();
    }
    check("ip link set lo up");
}

network_namespace::scope::scope(const network_namespace& ns) : previous_(current_namespace()) {
    if (::setns(ns.fd(), CLONE_NEWNET) != 0) fail("cannot enter a network namespace");
}

network_namespace::scope::~scope() {
    if (::setns(previous_.get(), CLONE_NEWNET) != 0) std::terminate();
}

std::string network_namespace::path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(fd_.get());
}

std::string network_namespace::prefix() const { return "nsenter --net=" + path() + " "; }

int network_namespace::run(const std::string& command, std::string* output) const {
    const scope inside(*this);
    std::fflush(stdout);
    const std::string whole = "{ " + command + "\n} 2>&1 </dev/null";
    FILE* pipe = ::popen(whole.c_str(), "r");
    if (pipe == nullptr) fail("cannot start a shell");
    std::array<char, 4096> some;
    while (const std::size_t n = std::fread(some.data(), 1, some.size(), pipe)) {
        if (output != nullptr) output->append(some.data(), n);
        else std::fwrite(some.data(), 1, n, stdout);
    }
    const int status = ::pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string network_namespace::check(const std::string& command) const {
    std::string output;
    if (const int status = run(command, &output); status != 0) {
        throw std::runtime_error("`" + command + "` ended with " + std::to_string(status) + ": " + output);
    }
    return output;
}

veth_pair::veth_pair(const network_namespace& a, const std::string& address_a, const network_namespace& b,
                     const std::string& address_b, veth_options options)
    : a_(a) {
    const std::string queues = std::to_string(options.queues);
    const std::string shape = " mtu " + std::to_string(options.mtu) + " numtxqueues " + queues + " numrxqueues " + queues;
    a.check("ip link add " + first_ + shape + " type veth peer name " + second_ + shape + " netns " + b.path());
    const auto bring_up = [](const network_namespace& ns, const std::string& name, const std::string& address) {
        ns.check("sysctl -eqw net.ipv6.conf." + name + ".disable_ipv6=1"); // -e: the kernel may have none
        if (!address.empty()) ns.check("ip address add " + address + " dev " + name);
        ns.check("ip link set " + name + " up");
    };
    bring_up(a, first_, address_a);
    bring_up(b, second_, address_b);
}

veth_pair::~veth_pair() { a_.run("ip link delete " + first_ + " 2>/dev/null || true"); }

} // namespace corewire::test
