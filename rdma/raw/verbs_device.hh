// The RDMA side of one network interface: its device opened, a set of queues for each shard, and the rules that steer our
// packets to them. What no rule takes stays the kernel's: ssh on the same interface goes on working.
//
//     NIC -> flow rules: ours? -- no --> the kernel's network interface
//                              -- yes, one shard ------> its queue pair           -> verbs_port of shard 0
//                              -- yes, several: Toeplitz hash -> table -> queues  -> verbs_port of shard 0, 1, ...
//
// Made by main(); own(), disown(), own_flow() and disown_flow() from any thread (a mutex: set-up only); handle() on the shard that hears
// the device's events. Bounds: the device's rules; a full table is said to the caller.
#pragma once

#include <corewire/net/port/flow_owner.hh>
#include <corewire/rdma/raw/verbs_queue.hh>
#include <corewire/rdma/verbs/async_events.hh>
#include <corewire/rdma/verbs/flow_rule.hh>

#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

namespace corewire {

/// Which packets come to us.
enum class verbs_steering {
    addresses,  ///< exclusive: IPv4 and IPv6 to our addresses, copies of ARP and of what goes to groups, EtherType 0x88b5
    flows,      ///< shared with the host: the TCP and UDP flows and ports that we own
    everything, ///< all: the kernel's interface hears nothing
};

struct verbs_device_options {
    std::string device{};                 ///< "mlx5_0"; or
    std::string interface{};              ///< the network interface in front of it; one of the two is enough
    std::uint8_t port = 1;                ///< of the device; found out from the interface
    unsigned queues = 1;                  ///< shards
    verbs_steering steering = verbs_steering::addresses;
    unsigned receive_depth = 1024;        ///< buffers lent to the device, for each queue
    unsigned send_depth = 1024;
    unsigned inline_bytes = 128;          ///< frames up to this size are copied into the work request; 0: none
    bool extended = true;                 ///< ibv_wr_* where the driver has it; false: chains of work requests
    std::optional<mac_address> mac{};     ///< unset: the interface's, or what the port's GID is made of
    std::optional<std::uint32_t> mtu{};   ///< bytes of IP packet; unset: the interface's
    std::uint16_t vlan = 0;               ///< only frames with this VLAN's tag are ours; 0: the rules do not ask for one
    const verbs::verbs_api* api = &verbs::system_api();
};

class verbs_device final : public flow_owner {
public:
    /// Pieces of memory that a request to be cut may gather, at most: each makes the device's send queues longer.
    static constexpr std::uint32_t segmentation_pieces = 16;

    /// Throws std::system_error with a sentence that says what is missing and what to do.
    explicit verbs_device(verbs_device_options options);
    ~verbs_device() override;
    verbs_device(const verbs_device&) = delete;
    verbs_device& operator=(const verbs_device&) = delete;

    /// Steer what is sent to this address (unicast, or a multicast group: of that a copy) to us. Throws if the device refuses.
    void own(const net_address& address);
    void disown(const net_address& address) noexcept;
    /// A flow or port by a rule each, to the queue pair of its protocol: with several queues its hash finds the shard.
    int own_flow(const steered_flow& flow) noexcept override;
    void disown_flow(const steered_flow& flow) noexcept override;
    bool keeps_waiting() const noexcept override { return true; } ///< rules are commands to the NIC's firmware

    /// What the device tells: give it to the async_events of one shard.
    void handle(const verbs::device_event& event) noexcept;
    /// As if the device had said that its queue pairs failed: for tests and cw-verbs-check.
    void pretend_failure() noexcept;
    bool link_up() const noexcept { return link_up_.load(std::memory_order_relaxed); }

    const verbs::device& device() const noexcept { return device_; }
    const verbs_device_options& options() const noexcept { return options_; }
    mac_address mac() const noexcept { return mac_; }
    std::uint32_t mtu() const noexcept { return mtu_; }
    unsigned queues() const noexcept { return options_.queues; }
    /// Entries of the table that spreads flows by rss::symmetric_hash(): entry i leads to queue i mod queues(). 0: one queue.
    unsigned slots() const noexcept { return all_ ? all_->slots() : 0; }
    /// The device can compute and check TCP, UDP and IPv4 checksums; it can cut segments of up to so many bytes (0: none).
    bool checksums() const noexcept { return checksums_; }
    std::uint32_t largest_segmented() const noexcept { return largest_segmented_; }

private:
    friend class verbs_port;
    using rules = std::vector<verbs::flow_rule>;
    void find();
    void learn();
    void open_queues();
    void spread_flows();
    void take_common();
    ibv_qp* pair_for(std::uint8_t protocol, bool six = false) const noexcept;
    rules rules_for(const net_address& address);
    rules rules_for(const steered_flow& flow);
    verbs::flow_rule rule(ibv_qp* to, verbs::flow_match match, std::uint16_t priority = 0, bool copy = false);

    verbs_device_options options_;
    verbs::device device_;
    mac_address mac_{};
    std::uint32_t mtu_ = 1500;
    bool checksums_ = false;
    std::uint32_t largest_segmented_ = 0;
    std::vector<std::unique_ptr<verbs_queue>> queues_;
    // With several queues only: the tables, and the pairs that hash into them. What cannot be hashed goes to shard 0.
    std::optional<verbs::spread> all_, first_;
    std::array<std::optional<verbs::queue_pair>, 2> tcp_, udp_, other_; ///< of IPv4, of IPv6
    std::optional<verbs::queue_pair> unhashed_;
    std::mutex set_up_;
    rules common_;
    std::map<std::pair<std::uint64_t, std::uint64_t>, rules> addresses_; ///< by net_address
    std::map<steered_flow, rules> flows_;
    std::atomic<bool> link_up_{true};
};

} // namespace corewire
