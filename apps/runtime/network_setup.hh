// The composition root: the one place that knows every port. Makes, for a whole run, what the network needs on each shard.
//
//     options -> network_setup --(what is shared: XDP device, tap, cables, steering)--> on each shard: port [wrapped] -> stack
//                              --kernel--------------------------------------------->                 kernel_provider
//
// Made by main() before the shards; set_up(), begin_stop() and tear_down() are called on each shard's thread, and a
// shard touches its own part only. Bounds are those of the ports and stacks.
#pragma once

#include <corewire/apps/runtime/network_options.hh>
#include <corewire/net/port/owned_ports.hh>
#include <corewire/net/port/port.hh>
#include <corewire/net/socket/orderly_stop.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/topology/placement.hh>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace corewire {

class advertisement_listener;
class dhcp_host;
class group_host;
class icmp_error_listener;
class network_stack;
class verbs_network;
class ud_network;
namespace verbs {
struct verbs_api;
}
class shard_steering;
class shared_host;
class socket_provider;

/// Puts something round a port. `far`: the second end of a wire that both of its ends share a shard with.
using port_wrapper = std::function<std::unique_ptr<port>(std::unique_ptr<port> inner, unsigned shard, bool far)>;

struct network_plan {
    network_kind kind = network_kind::kernel; ///< never `automatic`
    unsigned shards = 1;
    bool ports_only = false;    ///< no stacks: the program uses the ports itself
    duration grace = std::chrono::seconds{2}; ///< after a stop was asked for, for sessions whose peers go on talking
    port_wrapper wrap{};        ///< the program's own; goes round the port, inside tracer and pcap writer
    const verbs::verbs_api* verbs = nullptr; ///< tests: instead of libibverbs
    std::optional<siphash_key> secret{};     ///< tests: instead of the machine's, of which --slaac makes addresses
    placement place{};          ///< xdp: which queues are whose; none named: dealt out in turn
};

class network_setup {
public:
    /// Takes hold of what the shards share. Throws setup_error, or std::system_error with a sentence.
    network_setup(const network_options& options, network_plan plan);
    ~network_setup();
    network_setup(const network_setup&) = delete;
    network_setup& operator=(const network_setup&) = delete;

    /// On the shard's thread, with its reactor current: makes its port and its provider of sockets.
    void set_up(unsigned shard);
    /// A stop was asked for: listeners close, and waits for peers end (net/socket/orderly_stop.hh).
    void begin_stop(unsigned shard) noexcept;
    /// True while a connection that nobody holds any more has bytes, or its FIN, to deliver.
    bool lingers(unsigned shard) const;
    void tear_down(unsigned shard) noexcept;
    /// Runs `body` when a DHCP server has given us an address, if one is to, however long that takes; and when duplicate address
    /// detection (RFC 4862) has found our IPv6 addresses free, which takes two seconds at most.
    task<> when_addresses_are_there(unsigned shard, std::function<task<>()> body);

    network_kind kind() const noexcept { return plan_.kind; }
    /// As they have turned out: with --shared, the kernel's addresses.
    const network_options& options() const noexcept { return options_; }
    port* device(unsigned shard, bool far = false) const noexcept;
    network_stack* stack(unsigned shard, bool far = false) const noexcept;
    /// Null but for --shared.
    const shared_host* share(unsigned shard) const noexcept { return parts_[shard].share.get(); }
    /// Null but for --shared over verbs.
    const icmp_error_listener* icmp_errors(unsigned shard) const noexcept { return parts_[shard].icmp_errors.get(); }
    /// Null but for --slaac over xdp.
    const advertisement_listener* advertisements(unsigned shard) const noexcept { return parts_[shard].advertisements.get(); }

    /// A wire's addresses: 10.99.0.1 is shard 0 (or the near end), 10.99.0.2 shard 1 (or the far end).
    static ip_prefix wire_address(unsigned end) noexcept;
    /// fd00:63::1 and fd00:63::2, if they were asked for.
    static ipv6_prefix wire_address6(unsigned end) noexcept;

private:
    /// One port and what stands on it.
    struct end {
        std::unique_ptr<port> device; ///< until a stack takes it over; stays here with ports_only
        std::unique_ptr<network_stack> stack;
        port* at = nullptr;
        std::unique_ptr<orderly_stop> stop;
    };
    struct shard_part {
        end near, far;
        std::unique_ptr<shard_steering> steering;
        std::unique_ptr<socket_provider> kernel;
        std::unique_ptr<orderly_stop> kernel_stop;
        std::unique_ptr<shared_host> share;
        std::unique_ptr<advertisement_listener> advertisements; ///< xdp, with --slaac
        std::unique_ptr<icmp_error_listener> icmp_errors;       ///< verbs, with --shared
        std::vector<unsigned> queues; ///< xdp
    };
    task<> after_lease(unsigned shard);
    task<> after_address_detection(unsigned shard);
    void open_tap(const network_options& options);
    std::uint32_t link_mtu() const;
    void open_wire();
    void open_xdp(const network_options& options);
    std::optional<std::uint64_t> link_identifier() const;
    owned_ports::interface host_interface() const;
    void share_addresses();
    void deal_queues();
    std::unique_ptr<port> open_xdp_port(unsigned shard);
    void finish(end& e, unsigned shard, bool far, const stack_config& config);
    std::unique_ptr<port> wrapped(std::unique_ptr<port> inner, unsigned shard, bool far) const;
    stack_config config_for(unsigned shard, bool far) const;

    network_options options_;
    network_plan plan_;
    siphash_key slaac_secret_; ///< one for all shards, which make the same addresses
    std::shared_ptr<class xdp_device> xdp_;
    std::unique_ptr<verbs_network> verbs_;
    std::unique_ptr<ud_network> ud_;
    std::unique_ptr<group_host> groups_; ///< with xdp and verbs
    std::unique_ptr<dhcp_host> dhcp_; ///< with --address dhcp
    std::unique_ptr<owned_ports> owned_ports_; ///< with --shared
    std::vector<shard_part> parts_; ///< by shard
    siphash_key timestamp_key_ = siphash_key::random(); ///< all shards'
    siphash_key fast_open_key_ = siphash_key::random(); ///< all shards': a client's next connection may reach another
};

} // namespace corewire
