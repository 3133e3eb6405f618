// result<T, E>: a value or an error, with std::expected's interface (which g++ 12 does not have in C++20).
// For outcomes that a data path expects; exceptions are for set-up and for the coroutine API.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

namespace corewire {

/// Wraps an error so that result<T, E> can tell it from a value: `return unexpected{parse_error::truncated};`
template <typename E>
struct unexpected {
    E value;
};
template <typename E>
unexpected(E) -> unexpected<E>;

template <typename T, typename E = std::error_code>
class [[nodiscard]] result {
public:
    using value_type = T;
    using error_type = E;

    result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    template <typename G>
        requires std::is_convertible_v<G, E>
    result(unexpected<G> error) : state_(std::in_place_index<1>, std::move(error.value)) {}

    bool has_value() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return has_value(); }

    T& value() & { return checked(), *std::get_if<0>(&state_); }
    const T& value() const& { return checked(), *std::get_if<0>(&state_); }
    T&& value() && { return checked(), std::move(*std::get_if<0>(&state_)); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    template <typename U>
    T value_or(U&& other) const& {
        return has_value() ? **this : static_cast<T>(std::forward<U>(other));
    }

    const E& error() const {
        CW_ASSERT(!has_value(), "result::error() asked of a value");
        return *std::get_if<1>(&state_);
    }

private:
    void checked() const { CW_ASSERT(has_value(), "result::value() asked of an error"); }
    std::variant<T, E> state_;
};

/// result<void, E>: success, or an error.
template <typename E>
class [[nodiscard]] result<void, E> {
public:
    using value_type = void;
    using error_type = E;

    result() = default;
    template <typename G>
        requires std::is_convertible_v<G, E>
    result(unexpected<G> error) : error_(std::move(error.value)), failed_(true) {}

    bool has_value() const noexcept { return !failed_; }
    explicit operator bool() const noexcept { return !failed_; }
    const E& error() const {
        CW_ASSERT(failed_, "result::error() asked of a success");
        return error_;
    }

private:
    E error_{};
    bool failed_ = false;
};

} // namespace corewire
