// group_names: the numbers by which shards that call each other know each other's scheduling groups: one name, one number.
//
// A call carries its caller's number, so that it costs the same in every group. Made by whoever makes the reactors (the runtime), and
// outlives them. Used by all of them: a mutex, taken when a group is made and never by a call. Bounds: `most` names, never forgotten.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace corewire {

class group_names {
public:
    static constexpr unsigned most = 64; ///< "main", which is 0, included

    /// The same for the same name ever after. Throws std::length_error when there are `most` others.
    unsigned number_of(const std::string& name);

private:
    std::mutex mutex_;
    std::vector<std::string> names_{"main"};
};

} // namespace corewire
