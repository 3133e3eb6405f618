// What rdma_cm tells a shard: addresses resolved, connections asked for, made and ended. One event channel a shard; it looks
// once a millisecond while the shard is busy, and wakes it from sleep. Events are acknowledged before they are handed on,
// since rdma_destroy_id() waits for that.
#pragma once

#include <corewire/rdma/verbs/cm_api.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <cstddef>
#include <span>
#include <utility>

namespace corewire::rdma {

struct cm_event {
    rdma_cm_event_type what{};
    rdma_cm_id* id = nullptr;               ///< of a request: the new one, which belongs to who is told
    int status = 0;                         ///< negative errno, or the reason of a rejection
    unsigned reads_as_responder = 0;        ///< of the peer, for us as the initiator
    unsigned reads_as_initiator = 0;
    unsigned retries = 0;                   ///< of a request: how often we, who accept, would send anew what is not acknowledged
    unsigned not_ready_retries = 0;         ///< the same, where the peer has no receive posted; 7: for ever
    std::span<const std::byte> private_data{}; ///< may be longer than what was sent
};

/// Whom an rdma_cm_id belongs to (its `context`).
class cm_handler {
public:
    virtual void on_cm_event(const cm_event& event) noexcept = 0;

protected:
    ~cm_handler() = default;
};

/// An rdma_cm_id of ours, destroyed with this.
class owned_cm_id {
public:
    owned_cm_id() noexcept = default;
    owned_cm_id(rdma_cm_id* id, const verbs::cm_api& api) noexcept : id_(id), api_(&api) {}
    owned_cm_id(owned_cm_id&& other) noexcept : id_(std::exchange(other.id_, nullptr)), api_(other.api_) {}
    owned_cm_id& operator=(owned_cm_id&&) = delete;
    ~owned_cm_id() {
        if (id_ != nullptr) api_->destroy_id(id_);
    }
    rdma_cm_id* get() const noexcept { return id_; }
    rdma_cm_id* operator->() const noexcept { return id_; }

private:
    rdma_cm_id* id_ = nullptr;
    const verbs::cm_api* api_ = nullptr;
};

class cm_events final : public poller {
public:
    static constexpr duration interval = std::chrono::milliseconds{1};

    /// Throws std::system_error with a sentence when rdma_cm is not there.
    explicit cm_events(reactor& on, const verbs::cm_api& api = verbs::system_cm());
    ~cm_events();
    cm_events(const cm_events&) = delete;

    rdma_event_channel* get() const noexcept { return channel_; }
    bool poll(time_point now) override;
    int wake_fd() const override { return channel_->fd; }

private:
    bool drain() noexcept;
    bool prepare_sleep() override { return !drain(); }
    void finish_sleep() override { woken_ = true; }

    const verbs::cm_api& api_;
    rdma_event_channel* channel_;
    time_point looked_{};
    bool woken_ = false;
};

} // namespace corewire::rdma
