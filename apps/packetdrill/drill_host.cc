#include "drill_host.hh"

#include "other_threads.hh"

namespace corewire::packetdrill {

drill_host::drill_host(wire_habits habits)
    : habits_(std::move(habits)), loop_(std::make_unique<reactor>(reactor_options{.clock = &clock_})) {}

drill_host::~drill_host() {
    reactor::scope here(*loop_);
    stack_.reset();
}

network_stack& drill_host::stack(const net_address& hint) {
    if (stack_ != nullptr) return *stack_;
    const ipv4 own = hint.is_v4() && hint.is_unicast() ? hint.v4() : habits_.address;
    // The gateway is the other host of the smallest network that has two: whatever a script calls remote lies beyond it.
    const std::uint32_t last = own.value() & 3;
    const ipv4 gateway(last == 1 ? own.value() + 1 : last == 2 ? own.value() - 1 : own.value() ^ 4);
    stack_config config = habits_.stack;
    config.address = ip_prefix(own, last == 1 || last == 2 ? 30 : 28);
    config.gateway = gateway;
    auto device = std::make_unique<raw_ip_port>(habits_.link_mtu(), habits_.joins_segments);
    const ipv6 gateway6 = wire::link_local_address(raw_ip_port::peer_mac);
    const ipv6 own6 = !hint.is_v4() && hint.is_unicast() ? hint.v6() : habits_.address6;
    // Nobody else is on the link: no duplicate is looked for, and all the world lies beyond the gateway.
    if (device->mtu() >= path_mtu_cache::ipv6_minimum) {
        config.ipv6 = ipv6_config{.address = ipv6_prefix(own6, 128), .gateway = gateway6, .duplicate_probes = 0};
    }
    port_ = device.get();
    port_->set_time(clock_.time);
    stack_ = std::make_unique<network_stack>(*loop_, std::move(device), config);
    stack_->follow_permanent_neighbor(gateway, raw_ip_port::peer_mac);
    stack_->follow_permanent_neighbor(gateway6, raw_ip_port::peer_mac);
    apply_settings();
    settle();
    return *stack_;
}

void drill_host::adopt(const ipv6& address) {
    network_stack& s = stack(address);
    if (s.ip().six() == nullptr || s.ip().six()->addresses().is_claimed(address)) return;
    dhcp6_lease lease; // the one way of a stack's to more addresses
    lease.addresses.push({.address = address});
    s.follow_lease6(lease);
    settle();
}

void drill_host::apply_settings() noexcept {
    if (stack_ == nullptr) return;
    if (habits_.fast_open_keys) stack_->tcp().set_fast_open_keys(*habits_.fast_open_keys);
    stack_->tcp().take_data_without_cookie((habits_.stream.fast_open_allowed & 0x200) != 0);
}

time_point drill_host::look(access& a) {
    if (++looks_ > spin_limit) advance_to(a, clock_.time + std::chrono::microseconds{1});
    return clock_.time;
}

void drill_host::settle() {
    looks_ = 0;
    if (stack_ != nullptr) {
        while (loop_->poll_once()) {}
        if (follow_up_) follow_up_();
        while (loop_->poll_once()) {}
    }
    ++changes_;
    changed_.notify_all();
}

void drill_host::advance_to(access& a, time_point target) {
    while (advance_to_next_timer(a, target - duration{1})) {}
    if (target > clock_.time) clock_.time = target;
    if (port_ != nullptr) port_->set_time(clock_.time);
    loop_->read_clock();
    // Timers are late, if only by a tick: what the script does at the very moment when one is due comes before it.
    if (loop_->timers().next_expiry() > clock_.time) settle();
}

bool drill_host::advance_to_next_timer(access& a, time_point limit) {
    let_others_finish(a);
    const time_point next = loop_->timers().next_expiry();
    if (next == never || next > limit) return false;
    if (next > clock_.time) clock_.time = next;
    if (port_ != nullptr) port_->set_time(clock_.time);
    loop_->read_clock();
    settle();
    return true;
}

namespace {

/// Makes the driver stop at a deadline; what it says is asked by looking at the clock.
struct deadline_timer final : timer {
    deadline_timer() noexcept : timer([](timer&) noexcept {}) {}
};

} // namespace

bool drill_host::wait(access& a, time_point deadline) {
    if (clock_.time >= deadline || ended_) return false;
    deadline_timer wake;
    if (deadline != never) loop_->timers().arm(wake, deadline);
    if (is_driver()) return advance_to_next_timer(a, deadline);
    const std::uint64_t seen = changes_;
    ++waiting_;
    changed_.wait(a.lock_, [&] { return changes_ != seen || ended_; });
    --waiting_;
    if (!ended_) return true;
    changed_.notify_all();
    return false;
}

void drill_host::end_waits(access& a) {
    ended_ = true;
    changed_.notify_all();
    changed_.wait(a.lock_, [&] { return waiting_ == 0; });
}

void drill_host::let_others_finish(access& a) {
    a.lock_.unlock(); // first: who was woken and waits for the lock looks asleep
    const auto give_up = std::chrono::steady_clock::now() + patience_limit;
    while (other_threads_run() && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
    a.lock_.lock();
}

} // namespace corewire::packetdrill
