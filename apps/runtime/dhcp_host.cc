#include <corewire/apps/runtime/dhcp_host.hh>

#include <corewire/apps/runtime/kernel_address.hh>
#include <corewire/net/port/xdp/xdp_device.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/rdma/raw/verbs_device.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/task/sleep.hh>

#include <utility>

namespace corewire {

namespace {

constexpr log_event<ipv4, unsigned, ipv4, log_text<24>> lease_is{"dhcp", "lease", log_level::info, "our address is {}/{}, from {}, for {}"};
constexpr log_event<unsigned> routes_left_out{"dhcp", "routes_left_out", log_level::warn,
                                               "of the server's routes {} are left out for want of room: the default route is taken"};
constexpr log_event<> lease_gone{"dhcp", "lease_gone", log_level::warn,
                                 "we have no address any more: connections end, and a server is asked anew"};
constexpr log_event<ipv6> lease6_is{"dhcp", "lease6", log_level::info, "a DHCPv6 server lets us have {}"};
constexpr log_event<ipv4> not_steered{"dhcp", "not_steered", log_level::error,
                                      "no room for one address more in the port's table: nothing that is sent to {} reaches us"};
constexpr log_event<ipv4, log_text<32>> kernel_has_it{
    "dhcp", "kernel_has_it", log_level::error,
    "the kernel has {}, too, on {}: two owners of one address answer each other's peers (is its client told another client identifier?)"};

void follow(network_stack& stack, const dhcp_lease* lease) { stack.follow_lease(lease); }
void follow(network_stack& stack, const dhcp6_lease* lease) { stack.follow_lease6(*lease); }

} // namespace

dhcp_host::dhcp_host(unsigned shards, std::shared_ptr<xdp_device> xdp, std::shared_ptr<verbs_device> verbs,
                     std::function<network_stack*(unsigned)> stack_of)
    : shards_(shards), xdp_(std::move(xdp)), verbs_(std::move(verbs)), stack_of_(std::move(stack_of)) {
    if (verbs_) verbs_->own(ipv4::broadcast());
}

void dhcp_host::on_expected(std::uint32_t transaction, ipv4 address) noexcept {
    if (xdp_ && transaction != transaction_) {
        xdp_->disown_dhcp(transaction_);
        static_cast<void>(xdp_->own_dhcp(transaction)); // full: other flows are not steered in this mode
    }
    transaction_ = transaction;
    if (address != address_) steer(address);
}

void dhcp_host::steer(ipv4 address) noexcept {
    const ipv4 before = std::exchange(address_, address);
    if (xdp_ && !before.is_any()) xdp_->disown(before);
    if (verbs_ && !before.is_any()) verbs_->disown(before);
    if (address.is_any()) return;
    try {
        if (xdp_) xdp_->own(address);
        if (verbs_) verbs_->own(address);
    } catch (const std::exception&) {
        log_message(not_steered, address);
    }
}

/// What `current` is when the message gets away, whatever has happened since; again while that shard's queue is full.
template <typename Lease>
task<> dhcp_host::tell(unsigned shard, const std::shared_ptr<const Lease>& current) {
    for (;;) {
        bool busy = false;
        try {
            auto call = submit_to(shard, [this, shard, lease = current] {
                if (network_stack* const stack = stack_of_(shard)) follow(*stack, lease.get());
            });
            co_await call;
        } catch (const std::system_error& error) {
            busy = error.code().value() == EAGAIN; // else we are ending
        }
        if (!busy) co_return;
        co_await sleep_for(std::chrono::milliseconds{10});
    }
}

void dhcp_host::on_lease(const dhcp_lease* lease) noexcept {
    current_ = lease == nullptr ? nullptr : std::make_shared<const dhcp_lease>(*lease);
    if (lease == nullptr) {
        log_message(lease_gone);
    } else {
        const auto left = std::chrono::duration_cast<std::chrono::seconds>(lease->ends_at - reactor::current().now()).count();
        log_message(lease_is, lease->address.address(), unsigned{lease->address.length()}, lease->server,
                    lease->ends_at == never ? std::string("ever") : std::to_string(left) + " s");
        if (lease->routes_left_out != 0) log_message(routes_left_out, unsigned{lease->routes_left_out});
        if (const std::string other = kernel_interface_with(lease->address.address()); !other.empty())
            log_message(kernel_has_it, lease->address.address(), other);
    }
    for (unsigned shard = 1; shard < shards_; ++shard) reactor::current().root_group().spawn(tell(shard, current_));
}

void dhcp_host::on_lease6(const dhcp6_lease& lease) noexcept {
    current6_ = std::make_shared<const dhcp6_lease>(lease);
    for (const dhcp6_leased& each : lease.addresses.all()) log_message(lease6_is, each.address);
    for (unsigned shard = 1; shard < shards_; ++shard) reactor::current().root_group().spawn(tell(shard, current6_));
}

} // namespace corewire
