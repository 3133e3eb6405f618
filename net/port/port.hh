// A port: one receive/transmit queue pair of some network device, owned by one reactor.
//
//     `verbs` raw-packet QP, `xdp` AF_XDP socket, `tap`, `wire` (two reactors of one process), `sim` (virtual links)
//
// Bursts keep the cost of the virtual call off the packet: one call takes or gives many. A port never blocks and never
// allocates per packet; what it cannot take it leaves with the caller, what it must drop it counts.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/frame/packet.hh>
#include <corewire/net/wire/address.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace corewire {

struct port_capabilities {
    bool receive_checksum = false;   ///< sets offload::l4_checksum_good (and ipv4_checksum_good)
    bool transmit_checksum = false;  ///< honours offload::l4_checksum_needed and ipv4_checksum_needed
    bool gather = false;             ///< sends packet::body by reference; without it the port copies (linearises) it itself
    bool segmentation = false;       ///< TSO
    bool rss_hash = false;           ///< fills packet::rss_hash
    std::uint32_t max_segmented = 0; ///< largest packet it can segment, bytes
};

struct port_statistics {
    std::uint64_t received_packets = 0, received_bytes = 0;
    std::uint64_t transmitted_packets = 0, transmitted_bytes = 0;
    std::uint64_t receive_no_buffer = 0;   ///< dropped: no frame to receive into
    std::uint64_t receive_malformed = 0;   ///< dropped: shorter than an Ethernet header, or longer than a frame
    std::uint64_t transmit_full = 0;       ///< times transmit() could not take the whole burst
    std::uint64_t transmit_dropped = 0;    ///< taken and then lost (device error)
    std::uint64_t system_calls = 0;        ///< made on the data path
};

class port {
public:
    port() = default;
    port(const port&) = delete;
    port& operator=(const port&) = delete;
    virtual ~port() = default;

    /// Moves up to out.size() received packets into `out`, oldest first; returns how many. Never blocks.
    virtual std::size_t receive(std::span<packet> out) = 0;
    /// Takes packets from the front of `burst` (they are moved from) and returns how many it took.
    virtual std::size_t transmit(std::span<packet> burst) = 0;

    /// About to sleep. False if packets wait already. Afterwards wake_fd() becomes readable when packets arrive.
    virtual bool prepare_sleep() { return true; }
    virtual void finish_sleep() {}
    virtual int wake_fd() const { return -1; }
    /// What transmit() is given may lie in this memory as well as in pool()'s. Who lends it to a reader keeps it.
    virtual void keep(const std::shared_ptr<const void>&) {}

    /// Where this port's packets are allocated; memory the device can send from.
    frame_pool& pool() noexcept { return *pool_; }
    const port_capabilities& capabilities() const noexcept { return capabilities_; }
    const port_statistics& statistics() const noexcept { return statistics_; }
    mac_address mac() const noexcept { return mac_; }
    /// Largest IP packet, bytes (1500 on ordinary Ethernet).
    std::uint32_t mtu() const noexcept { return mtu_; }
    /// "xdp:veth0/0": for messages.
    const std::string& name() const noexcept { return name_; }

protected:
    frame_pool* pool_ = nullptr;
    port_capabilities capabilities_;
    port_statistics statistics_;
    mac_address mac_{};
    std::uint32_t mtu_ = 1500;
    std::string name_;
};

} // namespace corewire
