// One network interface taken over, in part, by XDP: the program that picks our frames, its maps, and the link that holds
// it. One per interface and process, shared by the ports (one per shard) on its queues.
//
//     xdp_device ---- program + maps + bpf_link          (the link is a descriptor: the kernel detaches the program
//       |-- xdp_port on queue 0     shard 0                when the process ends, however it ends)
//       `-- xdp_port on queue 1     shard 1
//
// Made and changed by any thread (the kernel's maps are the synchronisation); nothing here is on the data path.
// Bounds: 256 queues, 256 addresses, 65,536 flows (steer_maps.h).
#pragma once

#include <corewire/net/port/flow_owner.hh>
#include <corewire/net/port/xdp/interface.hh>
#include <corewire/net/wire/net_address.hh>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

struct steer; // generated from steer.bpf.c

namespace corewire {

enum class xdp_mode {
    automatic, ///< generic on veth, where it is the faster one; else native, and generic if the driver knows no XDP
    native,    ///< in the driver
    generic,   ///< in the network core, on any interface
};

/// Which frames come to us. Everything else reaches the kernel as if we were not there.
enum class xdp_steering {
    addresses,  ///< exclusive: IPv4 and IPv6 to our addresses, ARP for them (and announcements), EtherType 0x88b5
    flows,      ///< shared with the host: the TCP and UDP flows and ports that we own
    everything, ///< all frames: the kernel sees none on queues that have a port
};

/// Frames longer than one of ours, in several pieces: 64 KiB TCP frames of a local sender (a container's kernel behind veth).
enum class xdp_pieces {
    automatic, ///< taken; the program that is made for them, which costs each small frame a tenth of a round trip, goes in
               ///< when the first one has come
    on,        ///< from the start
    off,       ///< lost in generic mode; in native mode veth's other end does not send them
};

struct xdp_device_options {
    std::string interface;
    xdp_mode mode = xdp_mode::automatic;
    xdp_steering steering = xdp_steering::addresses;
    xdp_pieces pieces = xdp_pieces::automatic; ///< where the kernel can: 6.6 and later
    std::uint16_t vlan = 0; ///< only frames with this VLAN's tag are ours; 0: only those of none (IEEE 802.1Q)
};

class xdp_device final : public flow_owner {
public:
    /// Loads and attaches. Throws std::system_error with a sentence that says what is missing and what to do.
    explicit xdp_device(xdp_device_options options);
    ~xdp_device() override;
    xdp_device(const xdp_device&) = delete;
    xdp_device& operator=(const xdp_device&) = delete;

    /// Steer what is sent to this address (unicast, multicast or broadcast) to us. Throws if the map is full.
    void own(ipv4 address);
    void own(const ipv6& address);
    void own(const net_address& address) { address.is_v4() ? own(address.v4()) : own(address.v6()); }
    int own_flow(const steered_flow& flow) noexcept override;
    void disown_flow(const steered_flow& flow) noexcept override;
    /// DHCP servers' answers that carry this number, whoever they are sent to: we may have no address yet. Not with xdp_steering::flows.
    [[nodiscard]] bool own_dhcp(std::uint32_t transaction) noexcept;
    void disown_dhcp(std::uint32_t transaction) noexcept;
    void disown(ipv4 address) noexcept;
    void disown(const ipv6& address) noexcept;
    void disown(const net_address& address) noexcept { address.is_v4() ? disown(address.v4()) : disown(address.v6()); }

    const std::string& interface() const noexcept { return options_.interface; }
    const interface_info& info() const noexcept { return info_; }
    bool generic() const noexcept { return generic_; }
    /// Sockets shall ask for frames in pieces.
    bool pieces() const noexcept { return pieces_ != xdp_pieces::off; }
    /// They were wanted, and this kernel (before Linux 6.6) has no such thing: a local sender's frames beyond the MTU are lost
    /// in generic mode. Frames within it are taken as ever.
    bool pieces_missing() const noexcept { return pieces_missing_; }
    /// The program made for frames in pieces is in.
    bool pieces_program() const noexcept { return attached_for_pieces_.load(std::memory_order_relaxed); }
    /// A frame has come in pieces: others will. From any shard; the first call changes the program, with no frame lost.
    void expect_pieces() noexcept;
    bool on_veth() const noexcept { return info_.driver == "veth"; }
    xdp_steering steering() const noexcept { return options_.steering; }

private:
    friend class xdp_port;
    void load();
    void attach();
    bool try_attach(bool generic, bool pieces);

    xdp_device_options options_;
    interface_info info_;
    std::unique_ptr<steer, void (*)(steer*)> program_;
    int link_ = -1;
    bool generic_ = false;
    xdp_pieces pieces_; ///< what the kernel lets us have of what was asked for
    bool pieces_missing_ = false;
    std::atomic<bool> attached_for_pieces_{false};
    std::mutex set_up_; ///< ports are made one after the other
};

} // namespace corewire
