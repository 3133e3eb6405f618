#include <corewire/rdma/channel/adapter.hh>

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/channel/rc_connection.hh>
#include <corewire/rdma/channel/ud_endpoint.hh>

#include <array>
#include <fmt/format.h>

namespace corewire::rdma {

adapter::adapter(context& in, verbs::device on, const context_options& options, owned_cm_id held)
    : context_(in), held_(std::move(held)), device_(std::move(on)), domain_(device_),
      memory_(domain_, in.owner(), options.memory), channel_(device_),
      queue_(device_, {.entries = options.completions, .channel = &channel_}),
      news_(device_, in.owner(), [this](const verbs::device_event& e) {
          if (e.device_gone()) fail();
      }) {
    if (held_.get() != nullptr) held_->context = static_cast<cm_handler*>(this);
    in.owner().add_poller(*this); // behind news_, which goes with it
}

adapter::~adapter() { CW_ASSERT(used_ == 0, "an RDMA context is destroyed before its channels"); }

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

void adapter::fail() noexcept {
    if (std::exchange(failed_, true)) return;
    for (std::size_t i = 0; i < places_.size(); ++i) // the list may change on the way
        if (places_[i].source != nullptr) places_[i].source->device_failed();
}

bool adapter::take_burst() noexcept {
    std::array<ibv_wc, burst> done;
    const int n = queue_.poll(done);
    if (n < 0) fail();
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
    if (memory_.any_returned()) return false;
    if (failed_) return true;
    if (queue_.arm() == 0) return !take_burst(); // what came before the queue was armed
    // Only a device that has gone refuses. Nobody else may say so: a driver of a removed device has no completions, and no error.
    fail();
    return false;
}

} // namespace corewire::rdma
