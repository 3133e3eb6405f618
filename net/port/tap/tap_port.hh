// The `tap` port: an Ethernet cable to this host's kernel. Needs CAP_NET_ADMIN, and no NIC.
//
//     our stack -- tap_port --(one descriptor a shard)-- /dev/net/tun -- interface "cwtap0" -- the kernel's stack
//
// The interface is made with the ports and goes with the last of them, also when the process is killed. Each port is one
// shard's. The kernel passes over TCP data in frames of up to 64 KiB and leaves checksums open on both ways (virtio-net
// headers); what comes in is cut into frames of the pool (super_frame.hh), and a burst's segments of one flow go out together
// (joined_segments.hh). Bounds: the pool; one super-frame's segments.
#pragma once

#include <corewire/net/port/joined_segments.hh>
#include <corewire/net/port/port.hh>
#include <corewire/net/port/super_frame.hh>
#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <array>
#include <memory>
#include <optional>
#include <vector>

namespace corewire {

struct tap_options {
    std::string interface = "cwtap%d";       ///< the kernel replaces %d by the first free number
    std::optional<ip_prefix> host_address;   ///< the kernel's end; none: set it with `ip address add`
    std::optional<ipv6_prefix> host_address6; ///< and of IPv6
    std::optional<mac_address> mac;          ///< ours; none: made up from the kernel's, which is another one
    std::uint32_t mtu = 1500;                ///< bytes, 576 to 9000
    unsigned queues = 1;                     ///< one port (and shard) each
    std::uint32_t frames = 4096;             ///< in each port's pool
    bool offloads = true;                    ///< false: plain frames with complete checksums, both ways
};

class tap_port final : public port {
public:
    /// Makes the interface, sets it up, and returns a port for each queue. Throws std::system_error with a sentence that
    /// says what to do when /dev/net/tun or the privilege is missing, or the name is taken.
    static std::vector<std::unique_ptr<tap_port>> open(const tap_options& options);
    ~tap_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    /// None when the interface has been deleted: its file would be readable for ever.
    int wake_fd() const override { return gone_ ? -1 : device_.get(); }
    /// False while segments of a super-frame wait here.
    bool prepare_sleep() override { return waiting_first_ == waiting_end_; }

    /// The name that the kernel gave it.
    const std::string& interface() const noexcept { return interface_; }
    /// The kernel's end of the cable.
    mac_address host_mac() const noexcept { return host_mac_; }

private:
    struct virtio_header; // linux/virtio_net.h, without its endianness types
    tap_port(unique_fd device, std::string interface, const tap_options& options, mac_address host_mac);

    bool receive_one(std::span<packet> out, std::size_t& taken);
    void hand_on(buffer&& b, offload flags, std::span<packet> out, std::size_t& taken) noexcept;
    void cut(buffer&& first, std::uint32_t rest, std::span<packet> out, std::size_t& taken) noexcept;
    bool write_one(packet& p);
    std::size_t join(std::span<packet> burst) noexcept;
    bool write_joined();
    bool write(std::span<const iovec> parts, std::size_t packets, std::uint32_t bytes);

    static constexpr std::uint32_t largest_super_frame = 65536 + 64;
    static constexpr std::size_t most_segments = 64;

    unique_fd device_;
    bool gone_ = false;
    std::string interface_;
    mac_address host_mac_;
    bool offloads_;
    frame_pool frames_;
    frame* landing_ = nullptr; ///< where the next packet is read to
    super_frame cutter_;
    joined_segments joined_;
    std::unique_ptr<std::byte[]> rest_;                       ///< of a super-frame, behind its first piece
    std::array<packet, most_segments> waiting_;               ///< segments that the last burst had no room for
    std::size_t waiting_first_ = 0, waiting_end_ = 0;
};

} // namespace corewire
