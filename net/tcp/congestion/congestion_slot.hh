// A connection's congestion controller. As long as nothing has been told to it, it is one that all fresh connections look at
// (commons.hh); with the first event that may change it the connection gets one of its own, of the size that its kind has. An idle
// connection, or one whose window never was the limit, never needs that.
#pragma once

#include <corewire/net/tcp/commons.hh>

#include <utility>

namespace corewire::tcp {

class congestion_slot {
public:
    congestion_slot() noexcept = default;
    congestion_slot(congestion_slot&& other) noexcept : at_(std::exchange(other.at_, nullptr)) {}
    congestion_slot& operator=(congestion_slot&&) = delete;
    ~congestion_slot() { drop(); }

    /// A fresh one, as the parameters say, in place of any other.
    void make(const parameters& p, std::uint32_t mss) {
        drop();
        at_ = p.common != nullptr ? p.common->find_controller(p.controller(), mss) : nullptr;
        if (at_ == nullptr) at_ = p.controller()(mss);
    }
    /// One of another kind, which goes on from where this one was.
    void replace(congestion_factory how) {
        congestion_controller* const next = how(at_->mss());
        next->go_on_from(at_->so_far());
        drop();
        at_ = next;
    }

    // ---- to look at ----
    const congestion_controller& operator*() const noexcept { return *at_; }
    const congestion_controller* operator->() const noexcept { return at_; }
    /// Nothing has been told to it yet: it is as it was made.
    bool untouched() const noexcept { return at_->shared(); }

    // ---- to tell it something: from now on it is this connection's ----
    congestion_controller& own() {
        if (at_->shared()) [[unlikely]] at_ = at_->part();
        return *at_;
    }

private:
    void drop() noexcept {
        congestion_controller* const was = std::exchange(at_, nullptr);
        if (was == nullptr) return;
        if (was->shared()) was->leave();
        else delete was;
    }
    congestion_controller* at_ = nullptr;
};

} // namespace corewire::tcp
