// result<T, E>: a value or an error, with std::expected's interface (which g++ 12 does not have in C++20).
// For outcomes that a data path expects; exceptions are for set-up and for the coroutine API.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <memory>
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

namespace detail {

/// An error_code, or none. Copied member by member: one wide copy of what was just stored in two pieces makes a CPU wait until both have
/// left its store buffer, some fifteen cycles at each coroutine that a result passes through.
class error_or_none {
public:
    constexpr error_or_none() noexcept = default;
    error_or_none(const std::error_code& error) noexcept : value_(error.value()), category_(&error.category()) {}
    error_or_none(const error_or_none& other) noexcept : value_(other.value_), category_(other.category_) {}
    error_or_none& operator=(const error_or_none& other) noexcept {
        value_ = other.value_;
        category_ = other.category_;
        return *this;
    }
    explicit operator bool() const noexcept { return category_ != nullptr; }
    std::error_code code() const noexcept { return {value_, *category_}; }

private:
    int value_ = 0;
    const std::error_category* category_ = nullptr;
};

} // namespace detail

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

/// The usual one: the error tells whether there is a value.
template <typename T>
class [[nodiscard]] result<T, std::error_code> {
    static_assert(std::is_nothrow_move_constructible_v<T>);

public:
    using value_type = T;
    using error_type = std::error_code;

    result(T value) noexcept { std::construct_at(&value_, std::move(value)); }
    template <typename G>
        requires std::is_convertible_v<G, std::error_code>
    result(unexpected<G> error) noexcept : error_(std::error_code(std::move(error.value))) {}
    result(result&& other) noexcept : error_(other.error_) {
        if (!error_) std::construct_at(&value_, std::move(other.value_));
    }
    result(const result& other) requires std::is_copy_constructible_v<T> : error_(other.error_) {
        if (!error_) std::construct_at(&value_, other.value_);
    }
    result& operator=(result&& other) noexcept {
        if (this == &other) return *this;
        std::destroy_at(this);
        return *std::construct_at(this, std::move(other));
    }
    result& operator=(const result& other) requires std::is_copy_constructible_v<T> {
        result copy(other);
        return *this = std::move(copy);
    }
    ~result() requires std::is_trivially_destructible_v<T> = default;
    ~result() {
        if (!error_) std::destroy_at(&value_);
    }

    bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }

    T& value() & { return checked(), value_; }
    const T& value() const& { return checked(), value_; }
    T&& value() && { return checked(), std::move(value_); }
    T& operator*() & { return value(); }
    const T& operator*() const& { return value(); }
    T&& operator*() && { return std::move(*this).value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }
    template <typename U>
    T value_or(U&& other) const& {
        return has_value() ? **this : static_cast<T>(std::forward<U>(other));
    }

    std::error_code error() const {
        CW_ASSERT(!has_value(), "result::error() asked of a value");
        return error_.code();
    }

private:
    void checked() const { CW_ASSERT(has_value(), "result::value() asked of an error"); }
    detail::error_or_none error_;
    union {
        T value_;
    };
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

template <>
class [[nodiscard]] result<void, std::error_code> {
public:
    using value_type = void;
    using error_type = std::error_code;

    result() noexcept = default;
    template <typename G>
        requires std::is_convertible_v<G, std::error_code>
    result(unexpected<G> error) noexcept : error_(std::error_code(std::move(error.value))) {}

    bool has_value() const noexcept { return !error_; }
    explicit operator bool() const noexcept { return has_value(); }
    std::error_code error() const {
        CW_ASSERT(!has_value(), "result::error() asked of a success");
        return error_.code();
    }

private:
    detail::error_or_none error_;
};

} // namespace corewire
