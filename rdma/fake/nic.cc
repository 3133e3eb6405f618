#include <corewire/rdma/fake/nic.hh>

#include <corewire/rdma/fake/setup.hh>

#include <cerrno>
#include <sys/eventfd.h>
#include <unistd.h>

namespace corewire::fake {

std::recursive_mutex& lock() noexcept {
    static std::recursive_mutex one;
    return one;
}

namespace detail {
std::vector<state*>& all_nics() noexcept {
    static std::vector<state*> all;
    return all;
}
} // namespace detail

state::state(nic_options o, std::unique_ptr<port> w) : options(std::move(o)), wire(std::move(w)), regions(1) {
    options.name.copy(device.name, sizeof device.name - 1);
    device.node_type = IBV_NODE_CA;
    device.transport_type = IBV_TRANSPORT_IB;
    static std::uint16_t last_lid = 0;
    lid = ++last_lid;
}

int state::fault(std::string_view call) {
    if (removed) return EIO;
    const auto found = failing.find(call);
    if (found == failing.end()) return 0;
    failing_call& f = found->second;
    if (f.after != 0) return --f.after, 0;
    const int error = f.error;
    if (--f.times == 0) failing.erase(found);
    return error;
}

bool state::holds_way(const ibv_gid& to) const {
    const std::lock_guard guard(ways_mutex);
    return held_ways.contains(std::to_array(to.raw));
}

int state::await_way(const ibv_gid& to) {
    std::unique_lock guard(ways_mutex);
    const auto way = std::to_array(to.raw);
    if (!held_ways.contains(way)) return 0;
    ++ways_awaited;
    ways_changed.wait(guard, [&] { return !held_ways.contains(way); });
    --ways_awaited;
    ways_changed.notify_all();
    return way_error;
}

region* state::region_of(std::uint32_t key) noexcept {
    const std::size_t index = key >> 8;
    if (index >= regions.size() || regions[index] == nullptr || regions[index]->base.lkey != key) return nullptr;
    return regions[index];
}

std::byte* state::reach(const ibv_sge& piece, const domain* in, unsigned access) noexcept {
    auto* const at = reinterpret_cast<std::byte*>(piece.addr);
    if (piece.length == 0) return at;
    region* const r = region_of(piece.lkey);
    if (r == nullptr || r->in != in->plain || (r->access & access) != access) return nullptr;
    const auto begin = reinterpret_cast<std::uintptr_t>(r->base.addr);
    if (piece.addr < begin || piece.length > r->base.length || piece.addr - begin > r->base.length - piece.length) return nullptr;
    return at;
}

void state::raise(const ibv_async_event& event) {
    const std::uint64_t one = 1;
    for (context* each : open) {
        each->async.push_back(event);
        static_cast<void>(!::write(each->base.async_fd, &one, sizeof one));
    }
}

nic::nic(nic_options options, std::unique_ptr<port> wire) : state_(std::make_unique<state>(std::move(options), std::move(wire))) {
    const std::lock_guard guard(lock());
    detail::all_nics().push_back(state_.get());
}

nic::~nic() {
    const std::lock_guard guard(lock());
    CW_ASSERT(state_->open.empty(), "a fake NIC outlives those who have opened it");
    std::erase(detail::all_nics(), state_.get());
}

const nic_options& nic::options() const noexcept { return state_->options; }
const nic_statistics& nic::statistics() const noexcept { return state_->counts; }
port* nic::wire() const noexcept { return state_->wire.get(); }
const std::vector<std::string>& nic::violations() const noexcept { return state_->violations; }

unsigned nic::live_objects() const noexcept {
    const state& s = *state_;
    std::size_t regions = 0;
    for (const region* r : s.regions) regions += r != nullptr;
    return static_cast<unsigned>(regions + s.domains.size() + s.queues.size() + s.channels.size() + s.pairs.size() +
                                 s.work_queues.size() + s.shared.size() + s.flows.size() + s.handles.size() + s.windows.size() + s.others);
}

void nic::on_kernel_frame(std::function<void(byte_span)> tell) { state_->kernel = std::move(tell); }
void nic::on_sent_frame(std::function<void(byte_span)> tell) { state_->sent = std::move(tell); }

void nic::deliver(byte_span frame) {
    const std::lock_guard guard(lock());
    state_->take_in(frame);
}

void nic::pump() {
    const std::lock_guard guard(lock());
    state_->pump();
}

void nic::fail_calls(std::string_view call, int error, unsigned times, unsigned after) {
    state_->failing.insert_or_assign(std::string(call), failing_call{error, times, after});
}

void nic::fail_sends(ibv_wc_status status, unsigned count) { state_->bad_sends = {status, count}; }
void nic::fail_receives(ibv_wc_status status, unsigned count) { state_->bad_receives = {status, count}; }
void nic::hold_completions() { state_->hold = true; }

void nic::release_completions() {
    const std::lock_guard guard(lock());
    state_->hold = false;
    for (queue_pair* pair : state_->pairs) {
        for (const accepted_send& send : pair->held) state_->complete_send(*pair, send);
        pair->held.clear();
    }
}

void nic::lose_events(unsigned count) { state_->lost_events = count; }
void nic::lose_datagrams(unsigned count) { state_->lost_datagrams = count; }
void nic::spoil_headers(unsigned count, bool told) {
    const std::lock_guard guard(lock());
    state_->spoiled_headers = {count, told};
}

void nic::mute_queue_pair(std::uint32_t number) {
    const std::lock_guard guard(lock());
    for (queue_pair* pair : state_->pairs)
        if (pair->qp().qp_num == number) pair->mute = true;
}

void nic::hold_way_to(const ibv_gid& gid) {
    const std::lock_guard guard(state_->ways_mutex);
    state_->held_ways.insert(std::to_array(gid.raw));
}

void nic::release_ways(int error) {
    std::unique_lock guard(state_->ways_mutex);
    state_->held_ways.clear();
    state_->way_error = error;
    state_->ways_changed.notify_all();
    state_->ways_changed.wait(guard, [this] { return state_->ways_awaited == 0; });
}

unsigned nic::ways_awaited() const {
    const std::lock_guard guard(state_->ways_mutex);
    return state_->ways_awaited;
}

void nic::lose_acknowledgements(unsigned count) { state_->lost_acknowledgements = count; }
void nic::slow_refill(bool on) { state_->slow = on; }

void nic::set_fabric(const fabric_options& fabric) {
    const std::lock_guard guard(lock());
    state_->options.fabric = fabric;
}

void nic::forget_groups() {
    const std::lock_guard guard(lock());
    state_->joined.clear();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CLIENT_REREGISTER;
    event.element.port_num = 1;
    state_->raise(event);
}

void nic::break_queue_pair(std::uint32_t number) {
    const std::lock_guard guard(lock());
    for (queue_pair* pair : state_->pairs) {
        if (pair->qp().qp_num != number) continue;
        state_->fail_pair(*pair, IBV_QPS_ERR);
        ibv_async_event event{};
        event.event_type = IBV_EVENT_QP_FATAL;
        event.element.qp = &pair->qp();
        state_->raise(event);
    }
}

void nic::break_queue_pairs() {
    const std::lock_guard guard(lock());
    for (const queue_pair* pair : std::vector(state_->pairs.begin(), state_->pairs.end()))
        break_queue_pair(const_cast<queue_pair*>(pair)->qp().qp_num);
}

void nic::break_work_queues() {
    const std::lock_guard guard(lock());
    for (work_queue* each : state_->work_queues) state_->fail_work_queue(*each);
}

void nic::shrink_completion_queues(unsigned entries, bool quietly) {
    const std::lock_guard guard(lock());
    for (completion_queue* each : state_->queues) {
        each->shrunk = entries;
        each->quiet = quietly;
    }
}

void nic::set_link(bool up) {
    const std::lock_guard guard(lock());
    state_->up = up;
    ibv_async_event event{};
    event.event_type = up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
    event.element.port_num = 1;
    state_->raise(event);
}

void nic::remove() {
    const std::lock_guard guard(lock());
    for (queue_pair* pair : state_->pairs) state_->fail_pair(*pair, IBV_QPS_ERR);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    state_->raise(event);
    tell_of_removal(*state_);
    state_->removed = true;
    // From now on the descriptor is readable for ever, as that of a removed device is.
    const std::uint64_t many = 1u << 30;
    for (const context* c : state_->open) static_cast<void>(!::write(c->base.async_fd, &many, sizeof many));
}

} // namespace corewire::fake
