// One RDMA device as one shard uses it: a protection domain, registered memory, and one completion queue for all of the shard's channels.
//
//     channel --work requests, linked--> flush(): one doorbell a channel and turn
//     completion queue --poll(): a burst--> wr_id names the channel --> its completed()
//
// Belongs to its shard; outlives what is made on it. Bounds: the entries of the queue, of which every channel reserves what
// it may use, so that the queue can't overrun; and 65536 channels.
//
// A device that goes says so in one of three ways: by its events, by rdma_cm's, or by refusing to wake us. Then everything on it ends
// with ENODEV, the shard sleeps without it, and the adapter goes when nothing stands on it any more.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/rdma/channel/cm_events.hh>
#include <corewire/rdma/channel/memory_pool.hh>
#include <corewire/rdma/verbs/async_events.hh>
#include <corewire/rdma/verbs/completion_queue.hh>
#include <corewire/rdma/verbs/protection_domain.hh>

#include <cstdint>
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
    /// The device has gone.
    virtual void device_failed() noexcept = 0;

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

    /// The device has gone: nothing can be made on it any more.
    bool failed() const noexcept { return failed_; }
    /// For who sees its work flushed: has the device gone? What it has said is heard at once.
    [[gnu::cold]] void look_for_trouble() noexcept { news_.drain(); }

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
        if (e.what == RDMA_CM_EVENT_DEVICE_REMOVAL) fail();
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
    [[gnu::cold]] void fail() noexcept;

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
    bool failed_ = false;
    adapter_statistics counts_;
};

} // namespace corewire::rdma
