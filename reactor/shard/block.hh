// How a callable or a result fits into the 40 bytes of a message: itself, or a pointer to a block that holds it.
//
//     sender: carrier<T> c(value);  c.emplace(payload)       receiver: carried<T> c(payload);  use *c
//
// A block is made on the sending shard and freed on the receiving one; the frame allocator sends it home.
#pragma once

#include <corewire/reactor/shard/message.hh>

#include <memory>
#include <new>
#include <utility>

namespace corewire::detail {

/// Holds a T on its way into a message. Making one may throw (T's move, memory); emplace() cannot.
template <typename T>
class carrier {
public:
    template <typename U>
    explicit carrier(U&& value) : loaded_(load(std::forward<U>(value))) {}
    void emplace(std::byte* payload) noexcept { ::new (payload) carriage(std::move(loaded_)); }

private:
    using carriage = std::conditional_t<travels_inline<T>, T, std::unique_ptr<T>>;
    template <typename U>
    static carriage load(U&& value) {
        if constexpr (travels_inline<T>)
            return T(std::forward<U>(value));
        else
            return std::make_unique<T>(std::forward<U>(value));
    }
    carriage loaded_;
};

/// The T that arrived in a message; destroyed with this object.
template <typename T>
class carried {
public:
    explicit carried(std::byte* payload) noexcept : arrived_(std::launder(reinterpret_cast<carriage*>(payload))) {}
    carried(const carried&) = delete;
    carried& operator=(const carried&) = delete;
    ~carried() { reset(); }
    T& operator*() noexcept {
        if constexpr (travels_inline<T>)
            return *arrived_;
        else
            return **arrived_;
    }
    void reset() noexcept {
        if (arrived_ != nullptr) std::exchange(arrived_, nullptr)->~carriage();
    }

private:
    using carriage = std::conditional_t<travels_inline<T>, T, std::unique_ptr<T>>;
    carriage* arrived_;
};

} // namespace corewire::detail
