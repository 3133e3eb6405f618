#include <corewire/rdma/channel/adapter.hh>

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/channel/rc_connection.hh>
#include <corewire/rdma/channel/ud_endpoint.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <mutex>

namespace corewire::rdma {

namespace {

constexpr log_event<log_text<64>, unsigned> device_lost{"rdma", "device_gone", log_level::error,
                                                        "{} has failed or was removed: {} channels on it end"};
constexpr log_event<log_text<64>, unsigned> queue_lost{"rdma", "completion_queue_failed", log_level::error,
                                                       "the completion queue of {} overran or failed: {} channels on it end"};
// Peers may cause these.
constexpr log_event<std::uint32_t, log_text<64>> pair_lost{"rdma", "queue_pair_failed", log_level::warn,
                                                           "queue pair {:#x} on {} has failed",
                                                           {.burst = 10, .each = std::chrono::minutes{1}}};
constexpr log_event<log_text<200>> device_said{"rdma", "device_event", log_level::warn, "{}",
                                               {.burst = 10, .each = std::chrono::minutes{1}}};

struct all_adapters {
    std::mutex mutex;
    std::vector<adapter*> list;
};

all_adapters& everybody() noexcept {
    static all_adapters& all = *new all_adapters; // outlives every adapter
    return all;
}

} // namespace

adapter::adapter(context& in, verbs::device on, const context_options& options, owned_cm_id held)
    : context_(in), held_(std::move(held)), device_(std::move(on)), domain_(device_),
      memory_(domain_, in.owner(), options.memory), channel_(device_),
      queue_(device_, {.entries = options.completions, .channel = &channel_}),
      news_(device_, in.owner(), [this](const verbs::device_event& e) {
          try {
              hear(e);
          } catch (const std::bad_alloc&) { // flushed completions end what has failed, too; the event must be acknowledged
          }
      }) {
    if (held_.get() != nullptr) held_->context = static_cast<cm_handler*>(this);
    const std::lock_guard guard(everybody().mutex);
    everybody().list.push_back(this);
    in.owner().add_poller(*this); // behind news_, which goes with it
}

adapter::~adapter() {
    CW_ASSERT(used_ == 0, "an RDMA context is destroyed before its channels");
    const std::lock_guard guard(everybody().mutex);
    std::erase(everybody().list, this);
}

std::uint64_t adapter::enter(rc_connection* rc, ud_endpoint* ud, work_source& source, unsigned completions) {
    if (completions > queue_.entries() - reserved_)
        throw std::system_error(ENOBUFS, std::generic_category(),
                                fmt::format("no room for {} completions beside {} of {} on {}: raise context_options::completions",
                                            completions, reserved_, queue_.entries(), device_.name()));
    std::size_t at = 0;
    while (at < places_.size() && places_[at].source != nullptr) ++at;
    if (at == places_.size()) {
        if (at == 65536) throw std::system_error(ENOBUFS, std::generic_category(), "65536 channels on " + device_.name());
        places_.emplace_back();
    }
    place& p = places_[at];
    p = {rc, ud, &source, p.use + 1, completions};
    reserved_ += completions;
    ++used_;
    return work_id::base(static_cast<std::uint32_t>(at), p.use);
}

void adapter::leave(std::uint64_t base) noexcept {
    place& p = places_[work_id::place(base)];
    reserved_ -= p.completions;
    --used_;
    p.source->unlink();
    p = {nullptr, nullptr, nullptr, p.use, 0};
}

void adapter::fail(std::errc why) noexcept {
    gone_ |= why == std::errc::no_such_device;
    if (std::exchange(failed_, true)) return;
    log_message(why == std::errc::no_such_device ? device_lost : queue_lost, device_.name(), used_);
    for (std::size_t i = 0; i < places_.size(); ++i) // the list may change on the way
        if (places_[i].source != nullptr) places_[i].source->device_failed(why);
}

/// What it is about may be another adapter's, and must not be touched before the event is acknowledged: its owner takes it from here.
void adapter::hear(const verbs::device_event& e) {
    switch (e.what) {
    case IBV_EVENT_DEVICE_FATAL: return fail(std::errc::no_such_device);
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_QP_FATAL: break;
    // The connection ends by its flushed receives; here is why. A port that is down ends none by itself: it may be up before the retries
    // of what is under way are used up.
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_PORT_ACTIVE: log_message(device_said, verbs::to_string(e, device_.name())); return;
    default: return; // of changed addresses, of shared receive queues: nothing here depends on them
    }
    const bool queue = e.what == IBV_EVENT_CQ_ERR;
    const std::lock_guard guard(everybody().mutex);
    for (adapter* const each : everybody().list) {
        if (queue ? each->queue_.get() != e.completions : each->device_.context() != e.pair->context) continue;
        if (queue) each->word_.overrun = true;
        else each->word_.failed_pairs.push_back(e.pair->qp_num); // whose of this device's it is they find out
        each->told_.store(true, std::memory_order_relaxed);
        if (each != this) each->context_.owner().wake_if_asleep();
    }
}

void adapter::take_word() noexcept {
    word said;
    {
        const std::lock_guard guard(everybody().mutex);
        said = std::exchange(word_, {});
        told_.store(false, std::memory_order_relaxed);
    }
    for (const std::uint32_t pair : said.failed_pairs)
        for (std::size_t i = 0; i < places_.size(); ++i) {
            if (places_[i].source == nullptr || !places_[i].source->stands_on(pair)) continue;
            log_message(pair_lost, pair, device_.name());
            places_[i].source->pair_failed();
        }
    if (said.overrun) fail(std::errc::io_error);
}

void adapter::look_for_trouble() noexcept {
    news_.drain();
    if (told_.load(std::memory_order_relaxed)) take_word();
}

bool adapter::take_burst() noexcept {
    std::array<ibv_wc, burst> done;
    const int n = queue_.poll(done);
    if (n < 0 && !failed_) [[unlikely]] {
        look_for_trouble(); // has the device gone?
        fail(std::errc::io_error);
    }
    if (n <= 0) return false;
    ++counts_.bursts;
    counts_.completions += static_cast<unsigned>(n);
    for (int i = 0; i < n; ++i) {
        const ibv_wc& wc = done[static_cast<std::size_t>(i)];
        const std::uint32_t at = work_id::place(wc.wr_id);
        const place* const p = at < places_.size() ? &places_[at] : nullptr;
        if (p == nullptr || p->source == nullptr || (p->use & 0x7fff) != work_id::use(wc.wr_id)) {
            ++counts_.stale;
        } else if (p->rc != nullptr) {
            p->rc->completed(wc);
        } else {
            p->ud->completed(wc);
        }
    }
    return true;
}

bool adapter::poll(time_point) {
    if (told_.load(std::memory_order_relaxed)) [[unlikely]] take_word();
    const bool returned = memory_.take_returned();
    if (take_burst()) return true;
    if (failed_ && used_ == 0 && memory_.statistics().blocks == 0) [[unlikely]] context_.drop(*this); // a poller may go in its own turn
    return returned;
}

bool adapter::flush(time_point) {
    if (working_.empty()) return false;
    while (!working_.empty()) working_.pop_front().post_work();
    return true;
}

bool adapter::prepare_sleep() {
    if (memory_.any_returned() || told_.load(std::memory_order_relaxed)) return false;
    if (failed_) return true;
    if (queue_.arm() == 0) return !take_burst(); // what came before the queue was armed
    // Only a device that has gone refuses. Nobody else may say so: a driver of a removed device has no completions, and no error.
    fail(std::errc::no_such_device);
    return false;
}

} // namespace corewire::rdma
