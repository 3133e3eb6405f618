// raw_ip_port: a port whose wire carries IP packets without Ethernet, in memory: what packetdrill hands in and takes out.
// Towards the stack it is an ordinary Ethernet port with one neighbour, whose address resolution never shows outside.
//
//     put(ip packet) --> [Ethernet | ip packet] --> stack --> [Ethernet | ip packet] --> take(ip packet, when)
//
// With `joins` a packet may be larger than the MTU: segments of one super-segment (offload::joins) leave as one.
//
// Owned by the stack of one drill_host. Bounded: `inbox_limit` packets in, `outbox_limit` out; more are dropped and counted.
#pragma once

#include <corewire/net/port/port.hh>

#include <deque>
#include <vector>

namespace corewire::packetdrill {

struct left_packet {
    std::vector<std::byte> bytes; ///< from the IP header on
    time_point at;                ///< when it left
};

class raw_ip_port final : public port {
public:
    static constexpr std::size_t inbox_limit = 4096;
    static constexpr std::size_t outbox_limit = 65'536;
    static constexpr std::uint32_t largest_packet = 65'535; ///< bytes of IP packet
    static constexpr mac_address own_mac{0x02'00'00'00'00'01};
    static constexpr mac_address peer_mac{0x02'00'00'00'00'02};

    /// `joins`: segments that the stack means as one packet leave as one, as from a device with TSO.
    raw_ip_port(std::uint32_t mtu, bool joins);

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;

    /// A packet arrives. False: it is no IPv4 or IPv6 packet, too long, or the inbox is full.
    bool put(byte_span ip_packet);
    bool anything_left() const noexcept { return !outbox_.empty(); }
    const left_packet& first_left() const noexcept { return outbox_.front(); }
    void drop_first_left() { outbox_.pop_front(); }
    /// The time that packets leave at from now on.
    void set_time(time_point now) noexcept { now_ = now; }

private:
    bool join(byte_span segment, byte_span rest);

    bool joins_;
    frame_pool frames_;
    frame_pool large_frames_; ///< for what exceeds an ordinary frame
    std::deque<std::vector<std::byte>> inbox_;
    std::deque<left_packet> outbox_;
    time_point now_{};
};

} // namespace corewire::packetdrill
