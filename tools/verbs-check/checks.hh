// The checks of cw-verbs-check: each tries one thing that the verbs port relies on, and says in a sentence how it went. First what the
// device agrees to, then what frames prove that go out and come back (traffic.hh).
// Plain functions over an opened device; they change nothing on the host and leave nothing behind.
#pragma once

#include <corewire/rdma/verbs/device.hh>

#include <string>
#include <vector>

namespace corewire::verbs_check {

enum class verdict {
    works,
    lacking,  ///< the port does without it, slower
    unproved, ///< it can't be told on this host alone
    fails,
};

struct finding {
    std::string what;
    verdict how = verdict::works;
    std::string detail{};
};

struct report {
    std::string device;
    std::vector<std::pair<std::string, std::string>> facts; ///< firmware, limits, link
    std::vector<finding> findings;
    /// Nothing that the port needs fails.
    bool usable() const;
};

/// Everything, in the order in which it builds on each other. `port`: of the device. Throws only if it cannot be opened.
report examine(const std::string& device, std::uint8_t port, const verbs::verbs_api& api = verbs::system_api());

std::string as_text(const report& r);
std::string as_json(const report& r);

} // namespace corewire::verbs_check
