// The RDMA side of one network of IP over InfiniBand (RFC 4391), or of the same over RoCE: its device opened, a UD queue pair for
// each shard, and the group that stands for broadcast.
//
//     datagrams to the link address (GID, queue pair of shard 0) --.
//     datagrams to the broadcast group ----------------------------+--> queue pair of shard 0 -> ud_port of shard 0, which hands
//     each shard sends from a queue pair of its own                      over what is another's (net/stack/shard_steering.hh)
//
// The group. On InfiniBand: ff12:401b:P_Key::ffff:ffff (RFC 4391 4). RoCE has no such thing: each IP network there has an IPv4 group,
// 239.192.0.0/14 (RFC 2365) and 18 bits of a hash of it; the kernel is asked to join that (IGMP) on the interface. On InfiniBand rdma_cm is
// asked to join, and says Q_Key, LID and service level; again when the subnet's administrator wants to hear of everything again.
// Made by main(); handle() on the shard that hears the device's events. Bounds: the queues' depths; link_peers.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/rdma/port/port_queue.hh>
#include <corewire/rdma/ud_link/peers.hh>
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/rdma/verbs/async_events.hh>
#include <corewire/rdma/verbs/fabric_membership.hh>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

namespace corewire {

struct ud_device_options {
    std::string device{};                    ///< "rxe0"; or
    std::string interface{};                 ///< the network interface in front of it; a device's name is taken, too
    std::uint8_t port = 1;                   ///< of the device; found out from the interface
    unsigned queues = 1;                     ///< shards
    ip_prefix network{};                     ///< the IP network that is spoken here: it has a group of its own
    std::optional<ipv6_prefix> network6{};   ///< RoCE: instead of an IPv4 network, where there is none
    std::optional<unsigned> gid_index{};     ///< which of the port's addresses is ours; unset: its first of RoCE version 2 and IPv4
    std::optional<ibv_gid> group{};          ///< instead of the one that the network has
    std::uint16_t group_lid = 0;             ///< InfiniBand: the group's LID, of one that somebody else joins. 0: asked of the fabric, with
    std::uint32_t key = 0x0b1b;              ///< the Q_Key of all who are on the link (this one is opensm's and Linux's), and with
    std::uint8_t service_level = 0;          ///< the service level
    ipv4 beside{};                           ///< for that, an address of the kernel's IPoIB interface; unset: looked for
    unsigned receive_depth = 1024;           ///< buffers lent to the device, for each queue
    unsigned send_depth = 1024;
    unsigned inline_bytes = 128;             ///< datagrams up to this size are copied into the work request; 0: none
    const verbs::verbs_api* api = &verbs::system_api();
    const verbs::cm_api* cm = &verbs::system_cm();
};

class ud_device;

/// What one port has: a UD queue pair, and the group that stands for everybody.
struct ud_queue : port_queue {
    ud_queue(const verbs::device& on, const ud_device_options& options);
    /// Puts it back to its beginning, with nothing posted. An errno.
    int reset() noexcept;
    /// After that: to where it receives and sends. An errno.
    int start(const ud_device_options& options) noexcept;
    verbs::address_handle handle_of_group(const ud_device& device, const verbs::fabric_membership::parameters& as) const;

    verbs::address_handle to_group;
    verbs::fabric_membership::parameters group; ///< as which it is used, on its port's shard
};

class ud_device {
public:
    /// Throws std::system_error with a sentence that says what is missing and what to do.
    explicit ud_device(ud_device_options options);
    ~ud_device();
    ud_device(const ud_device&) = delete;
    ud_device& operator=(const ud_device&) = delete;

    // InfiniBand: the fabric is asked again to let us into the group, and answers (fabric_follower.hh, on the shard that hears events).
    bool asks_fabric() const noexcept { return static_cast<bool>(fabric_); }
    int renew_membership() noexcept { return fabric_.renew(); }
    /// As fabric_membership::heard(). What is other than before, the ports are told.
    std::optional<int> membership_news() noexcept;
    void count_refused_join() noexcept { ++joins_refused_; }
    const std::uint64_t& joins_refused() const noexcept { return joins_refused_; }
    /// What the ports follow. Any thread.
    verbs::fabric_membership::parameters group_parameters() const;

    /// What the device tells: give it to the async_events of one shard.
    void handle(const verbs::device_event& event) noexcept;
    bool link_up() const noexcept { return link_up_.load(std::memory_order_relaxed); }

    const verbs::device& device() const noexcept { return device_; }
    const ud_device_options& options() const noexcept { return options_; }
    /// Where peers send to: all shards say so.
    const link_address& address() const noexcept { return ours_; }
    const ibv_gid& group() const noexcept { return group_; }
    /// Whether a datagram comes from one of our own queue pairs.
    bool is_ours(const ibv_gid& gid, std::uint32_t queue_pair) const noexcept;
    /// Largest IP packet: the path's MTU less the encapsulation (RFC 4391 7).
    std::uint32_t mtu() const noexcept { return mtu_; }
    bool ethernet() const noexcept { return ethernet_; }
    link_peers& peers() noexcept { return peers_; }

private:
    friend class ud_port;
    friend struct ud_queue;
    void choose_address();
    void choose_group();
    void join_fabric();
    void join_group();
    void attach(std::uint16_t lid);

    ud_device_options options_;
    verbs::device device_;
    bool ethernet_ = true;
    std::uint32_t mtu_ = 0;
    verbs::port_address gid_;
    link_address ours_;
    ibv_gid group_{};
    link_peers peers_;
    std::vector<std::unique_ptr<ud_queue>> queues_;
    std::vector<std::uint32_t> numbers_; ///< of their queue pairs
    std::optional<verbs::multicast_attachment> attached_;
    std::uint16_t attached_lid_ = 0;
    verbs::group_membership membership_; ///< RoCE's
    verbs::fabric_membership fabric_;    ///< InfiniBand's
    mutable std::mutex saying_;
    verbs::fabric_membership::parameters said_; ///< of the group; guarded by `saying_`
    std::uint64_t joins_refused_ = 0;
    std::atomic<bool> link_up_{true};
};

} // namespace corewire
