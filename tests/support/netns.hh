// Network namespaces and veth pairs for tests that need a kernel to talk to. Root only.
//
//     network_namespace ours, peer;
//     veth_pair link(ours, "10.9.0.1/24", peer, "10.9.0.2/24");
//     { network_namespace::scope inside(ours); xdp_device device({.interface = link.first()}); ... }
//     peer.run("ping -c 1 10.9.0.1");
//
// A namespace here has no name: it exists as long as a descriptor of this process does, so it is gone, with its devices,
// however the test ends, and tests that run at the same time never meet.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>

#include <string>

namespace corewire::test {

/// True as root. Otherwise prints `SKIPPED: needs root`, which CTest shows as skipped.
bool have_root();
/// The same of a kernel with IPv6, for what is of IPv6 alone.
bool have_ipv6();

class network_namespace {
public:
    /// With its loopback interface up. Throws std::system_error without CAP_SYS_ADMIN.
    network_namespace();

    /// The calling thread is in the namespace for a scope. Descriptors opened there stay there.
    class scope {
    public:
        explicit scope(const network_namespace& ns);
        ~scope();
        scope(const scope&) = delete;

    private:
        unique_fd previous_;
    };

    int fd() const noexcept { return fd_.get(); }
    /// For `nsenter --net=PATH`, `ip link set DEV netns PATH`: valid while this object lives.
    std::string path() const;
    /// "nsenter --net=/proc/... " to put before a command.
    std::string prefix() const;
    /// Runs a shell command inside; returns its exit status. Its output goes to `output` if given, else to ours.
    int run(const std::string& command, std::string* output = nullptr) const;
    /// The same, and throws std::runtime_error with the output unless the status is 0.
    std::string check(const std::string& command) const;

private:
    unique_fd fd_;
};

struct veth_options {
    unsigned queues = 1;   ///< receive and transmit queues of each end
    unsigned mtu = 1500;
};

/// Two interfaces joined by a cable, one in each namespace, up, without IPv6. They go with the first of the two
/// namespaces, or with this object.
class veth_pair {
public:
    /// Addresses like "10.9.0.1/24"; empty for none (the stack under test owns it).
    veth_pair(const network_namespace& a, const std::string& address_a, const network_namespace& b,
              const std::string& address_b, veth_options options = {});
    ~veth_pair();
    veth_pair(const veth_pair&) = delete;

    const std::string& first() const noexcept { return first_; }
    const std::string& second() const noexcept { return second_; }

private:
    const network_namespace& a_;
    std::string first_ = "cwa0", second_ = "cwb0";
};

} // namespace corewire::test
