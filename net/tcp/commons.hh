// What the connections of one shard have in common, held once: there may be a million of them, and nearly all were told the same.
//
//     control_block::options --> set of parameters, each different one once; who changes something gets another set
//     sender::congestion ------> a controller that nobody has used yet; who tells it something gets one of its own
//
// One per shard, owned by the stack and outliving its connections, which know it by parameters::common. Bounded: set_limit and
// controller_limit; a connection that finds no room has its own copy, which is counted.
#pragma once

#include <corewire/net/tcp/parameters.hh>

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace corewire::tcp {

/// One set, and how many connections hold it.
struct parameter_set {
    parameters value;
    std::uint32_t users = 0;
    bool listed = false; ///< commons owns it; else its only user does
};

class commons {
public:
    static constexpr std::size_t set_limit = 64;
    static constexpr std::size_t controller_limit = 16;

    commons() = default;
    commons(const commons&) = delete;
    ~commons();

    /// The set that equals `p`, for one user more. Null: there is no room for another. O(set_limit), once a connection.
    parameter_set* find_set(const parameters& p);
    /// A controller as `how` makes it for segments of `mss` bytes, to look at, for one user more, which says leave() or part() in the end.
    /// Null: there is no room for another.
    congestion_controller* find_controller(congestion_factory how, std::uint32_t mss);

    std::size_t sets() const noexcept { return sets_.size(); }
    std::size_t controllers() const noexcept { return controllers_.size(); }
    std::uint64_t users() const noexcept; ///< of both, together
    const std::uint64_t& refused() const noexcept { return refused_; } ///< times that there was no room

private:
    struct fresh_controller {
        congestion_factory how;
        std::uint32_t mss;
        std::unique_ptr<congestion_controller> made;
    };
    std::vector<std::unique_ptr<parameter_set>> sets_; ///< the one found last first; those without users give way to others
    std::vector<fresh_controller> controllers_; ///< those without users give way, for peers may choose odd sizes
    std::uint64_t refused_ = 0;
};

/// A connection's hold on its parameters: to be read like a pointer, and written to like a value of its own.
class shared_parameters {
public:
    explicit shared_parameters(const parameters& p) : set_(take(p)) {}
    shared_parameters(shared_parameters&& other) noexcept : set_(std::exchange(other.set_, nullptr)) {}
    shared_parameters& operator=(shared_parameters&&) = delete;
    ~shared_parameters() {
        if (set_ != nullptr) let_go(set_);
    }

    const parameters& operator*() const noexcept { return set_->value; }
    const parameters* operator->() const noexcept { return &set_->value; }

    /// Nobody else sees it.
    template <typename T>
    void set(T parameters::*which, std::type_identity_t<T> value) {
        if (set_->value.*which == value) return;
        parameters p = set_->value;
        p.*which = value;
        let_go(std::exchange(set_, take(p)));
    }

private:
    static parameter_set* take(const parameters& p);
    static void let_go(parameter_set* set) noexcept;
    parameter_set* set_;
};

} // namespace corewire::tcp
