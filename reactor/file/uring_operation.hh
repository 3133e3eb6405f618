// One request in a reactor's io_uring: a node inside whoever asks, so that asking never allocates.
// Its address is the kernel's name for it, so it neither moves nor dies while in_kernel(); cancel it and wait.
#pragma once

#include <corewire/reactor/base/assert.hh>

namespace corewire {

class uring_operation {
public:
    /// `result` as the system call would return it, or -errno. `flags` are IORING_CQE_F_*: with IORING_CQE_F_MORE the
    /// operation goes on and will complete again. May destroy the operation when it does not go on.
    using completion = void (*)(uring_operation&, int result, unsigned flags) noexcept;

    explicit uring_operation(completion on_complete) noexcept : on_complete_(on_complete) {}
    ~uring_operation() { CW_ASSERT(!in_kernel_, "an io_uring operation was destroyed while the kernel had it"); }
    uring_operation(const uring_operation&) = delete;
    uring_operation& operator=(const uring_operation&) = delete;

    /// Started and not yet completed for the last time.
    bool in_kernel() const noexcept { return in_kernel_; }

private:
    friend class uring;
    completion on_complete_;
    bool in_kernel_ = false;
    mutable bool cancel_waits_ = false;             ///< in the ring's list of those
    mutable const uring_operation* next_ = nullptr; ///< in either of the ring's lists
};

/// An operation that completes into a member function of its owner:
///     void on_sent(int result, unsigned flags) noexcept;
///     bound_operation<sender, &sender::on_sent> send_{*this};
template <typename Owner, void (Owner::*handler)(int, unsigned) noexcept>
class bound_operation final : public uring_operation {
public:
    explicit bound_operation(Owner& owner) noexcept
        : uring_operation([](uring_operation& self, int result, unsigned flags) noexcept {
              (static_cast<bound_operation&>(self).owner_.*handler)(result, flags);
          }),
          owner_(owner) {}

private:
    Owner& owner_;
};

} // namespace corewire
