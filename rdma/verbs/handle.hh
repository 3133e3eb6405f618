// One object of a verbs device, destroyed with its handle. Move-only. Objects go in the opposite order of their making, as
// the device insists: an order that it refuses (EBUSY) is a programmer's error and asserts.
//
// In a forked child a handle forgets its object: the child shares the parent's descriptor, and destroying here would pull
// the object from under the parent.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/rdma/verbs/api.hh>

#include <cerrno>
#include <cstdint>
#include <utility>

namespace corewire::verbs {

/// Grows by one in a child of fork(2), from the first call of watch_for_forks() on.
std::uint32_t process_generation() noexcept;
/// Called by everything that opens a device.
void watch_for_forks() noexcept;

template <typename T, int (*verbs_api::*Destroy)(T*)>
class handle {
public:
    handle() noexcept = default;
    handle(const verbs_api& api, T* object) noexcept : api_(&api), object_(object), generation_(process_generation()) {}
    handle(handle&& other) noexcept
        : api_(other.api_), object_(std::exchange(other.object_, nullptr)), generation_(other.generation_) {}
    handle& operator=(handle&& other) noexcept {
        if (this == &other) return *this;
        reset();
        api_ = other.api_;
        object_ = std::exchange(other.object_, nullptr);
        generation_ = other.generation_;
        return *this;
    }
    ~handle() { reset(); }

    void reset() noexcept {
        T* const object = std::exchange(object_, nullptr);
        if (object == nullptr || generation_ != process_generation()) return;
        const int error = (api_->*Destroy)(object);
        CW_ASSERT(error != EBUSY, "a verbs object was destroyed before what stands on it");
        static_cast<void>(error); // a device that has gone answers EIO, and has destroyed everything already
    }
    /// Gives the object up without destroying it.
    T* release() noexcept { return std::exchange(object_, nullptr); }
    T* get() const noexcept { return object_; }
    T* operator->() const noexcept { return object_; }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    const verbs_api& api() const noexcept { return *api_; }

private:
    const verbs_api* api_ = nullptr;
    T* object_ = nullptr;
    std::uint32_t generation_ = 0;
};

} // namespace corewire::verbs
