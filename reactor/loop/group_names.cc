#include <corewire/reactor/loop/group_names.hh>

#include <algorithm>
#include <fmt/format.h>
#include <stdexcept>

namespace corewire {

unsigned group_names::number_of(const std::string& name) {
    const std::lock_guard lock(mutex_);
    const auto at = std::find(names_.begin(), names_.end(), name);
    const auto number = static_cast<unsigned>(at - names_.begin());
    if (at != names_.end()) return number;
    if (number == most)
        throw std::length_error(fmt::format("scheduling group '{}': the shards of a runtime have {} names of groups at most", name, most));
    names_.push_back(name);
    return number;
}

} // namespace corewire
