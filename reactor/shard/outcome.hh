// outcome<T>: what a computation has come to: nothing yet, a value, or an exception. One shard's at a time.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <exception>
#include <type_traits>
#include <utility>
#include <variant>

namespace corewire {

template <typename T>
class outcome {
public:
    /// void has no values; std::monostate stands in for the one it would have.
    using stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

    bool has_come() const noexcept { return state_.index() != 0; }
    void set(stored value) noexcept(std::is_nothrow_move_constructible_v<stored>) {
        state_.template emplace<1>(std::move(value));
    }
    void fail(std::exception_ptr why) noexcept { state_.template emplace<2>(std::move(why)); }

    /// Moves the value out, or throws the exception.
    T take() {
        CW_ASSERT(has_come(), "an outcome is taken before it has come");
        if (auto* why = std::get_if<2>(&state_)) std::rethrow_exception(std::move(*why));
        if constexpr (!std::is_void_v<T>) return std::move(*std::get_if<1>(&state_));
    }

private:
    struct nothing {};
    std::variant<nothing, stored, std::exception_ptr> state_;
};

} // namespace corewire
