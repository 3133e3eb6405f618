// Holds a connection's congestion controller in place: no allocation, movable with its tcb.
#pragma once

#include <corewire/net/tcp/congestion/controller.hh>

#include <cstddef>

namespace corewire::tcp {

class congestion_slot {
public:
    congestion_slot() noexcept = default;
    congestion_slot(congestion_slot&& other) noexcept {
        if (other.controller_ != nullptr) controller_ = other.controller_->move_to(storage_);
    }
    congestion_slot& operator=(congestion_slot&&) = delete;
    ~congestion_slot() {
        if (controller_ != nullptr) controller_->~congestion_controller();
    }

    /// Replaces the controller by a fresh one.
    void make(congestion_factory factory, std::uint32_t mss) noexcept {
        if (controller_ != nullptr) controller_->~congestion_controller();
        controller_ = factory(storage_, mss);
    }
    /// The same, and the fresh one goes on from where the old one was.
    void replace(congestion_factory factory) noexcept {
        const congestion_controller::reached was = controller_->so_far();
        make(factory, controller_->mss());
        controller_->go_on_from(was);
    }
    const congestion_controller& operator*() const noexcept { return *controller_; }
    congestion_controller* operator->() noexcept { return controller_; }
    const congestion_controller* operator->() const noexcept { return controller_; }

private:
    congestion_controller* controller_ = nullptr;
    alignas(std::max_align_t) std::byte storage_[controller_storage];
};

} // namespace corewire::tcp
