// One RDMA device as one shard uses it: a protection domain, registered memory, and one completion queue for all of the shard's channels.
//
//     channel --work requests, linked--> flush(): one doorbell a channel and turn
//     completion queue --poll(): a burst--> wr_id names the channel --> its completed()
//
// Belongs to its shard; outlives what is made on it. Bounds: the entries of the queue, of which every channel reserves what
// it may use, so that the queue can't overrun; and 65536 channels.
//
// A device that goes says so in one of three ways: by its events, by rdma_cm's, or by refusing to wake us. Then everything on it ends
// with ENODEV, the shard sleeps without it, and the adapter goes when nothing stands on it any more. A completion queue that overruns all
// the same ends them with EIO, and what is made from then on gets another adapter. A queue pair that fails ends its connection with EIO.
//
// Of adapters on one ibv_context (rdma_cm opens one for the whole process) any may hear an event that is about another's queues, on
// another shard: it is passed on, and told in its owner's next turn.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/rdma/channel/cm_events.hh>
#include <corewire/rdma/channel/memory_pool.hh>
#include <corewire/rdma/verbs/async_events.hh>
#include <corewire/rdma/verbs/completion_queue.hh>
#include <corewire/rdma/verbs/protection_domain.hh>

#include <atomic>
#include <cstdint>
#include <system_error>
#include <vector>

namespace corewire::rdma {

class context;
class rc_connection;
class ud_endpoint;
struct context_options;

/// What has work requests that wait for the end of the turn.
class work_source : public list_hook {
public:
    virtual void post_work() noexcept = 0;
    /// Nothing completes any more: the device has gone (ENODEV), or the completion queue has failed (EIO).
    virtual void device_failed(std::errc why) noexcept = 0;
    virtual bool stands_on(std::uint32_t pair) const noexcept = 0;
    /// Its queue pair is in error, says the device.
    virtual void pair_failed() noexcept = 0;

protected:
    ~work_source() = default;
};

/// How work requests are told apart: whose, and which.
///     bits 63..48 place in the table, 47..33 how often the place was used, 32 receive, 31..0 the owner's own
struct work_id {
    static constexpr std::uint64_t receive = std::uint64_t{1} << 32;
    static std::uint64_t base(std::uint32_t place, std::uint32_t use) noexcept {
        return std::uint64_t{place} << 48 | std::uint64_t{use & 0x7fff} << 33;
    }
    static std::uint32_t place(std::uint64_t id) noexcept { return static_cast<std::uint32_t>(id >> 48); }
    static std::uint32_t use(std::uint64_t id) noexcept { return static_cast<std::uint32_t>(id >> 33) & 0x7fff; }
};

struct adapter_statistics {
    std::uint64_t completions = 0;
    std::uint64_t stale = 0;  ///< of channels that are gone: a driver may keep them in its queue
    std::uint64_t bursts = 0; ///< polls that found something
};

class adapter final : public poller, public cm_handler {
public:
    static constexpr unsigned burst = 32;

    /// `held`: of a borrowed device an id of rdma_cm that stands on it: as long as there is one, librdmacm keeps it open, though it be
    /// removed.
    adapter(context& in, verbs::device on, const context_options& options, owned_cm_id held);
    ~adapter();
    adapter(const adapter&) = delete;

    /// Nothing can be made on it any more,
    bool failed() const noexcept { return failed_; }
    /// nor on another one of this device: it has gone.
    bool gone() const noexcept { return gone_; }
    /// For who sees its work flushed: has the device gone, or the queue pair failed? What has been said is heard at once.
    [[gnu::cold]] void look_for_trouble() noexcept;

    context& owner() const noexcept { return context_; }
    const verbs::device& device() const noexcept { return device_; }
    verbs::protection_domain& domain() noexcept { return domain_; }
    verbs::completion_queue& queue() noexcept { return queue_; }
    memory_pool& memory() noexcept { return memory_; }
    const adapter_statistics& statistics() const noexcept { return counts_; }

    /// A place for one of these, which has at most `completions` work requests outstanding. Returns the base of its work
    /// ids. Throws std::system_error ENOBUFS when the queue has no room for them.
    std::uint64_t enter(rc_connection* rc, ud_endpoint* ud, work_source& source, unsigned completions);
    void leave(std::uint64_t base) noexcept;
    /// post_work() is called before the turn ends.
    void has_work(work_source& source) noexcept {
        if (!source.linked()) working_.push_back(source);
    }

    bool poll(time_point now) override;
    bool flush(time_point now) override;
    int wake_fd() const override { return failed_ ? -1 : channel_.fd(); }
    void on_cm_event(const cm_event& e) noexcept override {
        if (e.what == RDMA_CM_EVENT_DEVICE_REMOVAL) fail(std::errc::no_such_device);
    }

private:
    struct place {
        rc_connection* rc = nullptr;
        ud_endpoint* ud = nullptr;
        work_source* source = nullptr;
        std::uint32_t use = 0;
        unsigned completions = 0;
    };
    bool prepare_sleep() override;
    void finish_sleep() override { channel_.drain(); }
    bool take_burst() noexcept;
    [[gnu::cold]] void fail(std::errc why) noexcept;
    [[gnu::cold]] void hear(const verbs::device_event& e);
    [[gnu::cold]] void take_word() noexcept;
    /// Of an event, by the shard that has heard it.
    struct word {
        std::vector<std::uint32_t> failed_pairs{}; ///< by their numbers
        bool overrun = false;
    };

    context& context_;
    owned_cm_id held_; ///< goes last
    verbs::device device_;
    verbs::protection_domain domain_;
    memory_pool memory_;
    verbs::completion_channel channel_;
    verbs::completion_queue queue_;
    verbs::async_events news_;
    std::vector<place> places_;
    intrusive_list<work_source> working_;
    unsigned reserved_ = 0;
    unsigned used_ = 0;
    bool failed_ = false, gone_ = false;
    adapter_statistics counts_;
    word word_;                       ///< under the lock of all_adapters (adapter.cc)
    std::atomic<bool> told_{false};   ///< there is a word
};

} // namespace corewire::rdma
