// A timer: an intrusive node of the reactor's timer wheel. It lives inside whoever waits, so arming one never allocates.
// Owned by one reactor's wheel; destroying an armed timer cancels it.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/base/time.hh>

namespace corewire {

class timer : public list_hook {
public:
    using callback = void (*)(timer&) noexcept;
    explicit timer(callback on_expiry) noexcept : on_expiry_(on_expiry) {}

    bool armed() const noexcept { return linked(); }
    /// When it fires; meaningful while armed.
    time_point expiry() const noexcept { return expiry_; }
    /// Forget it. Harmless when it is not armed.
    void cancel() noexcept { unlink(); }

private:
    friend class timer_wheel;
    time_point expiry_{};
    callback on_expiry_;
};

} // namespace corewire
