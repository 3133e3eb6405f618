// A local kernel hands over TCP data in frames of up to 64 KiB, which reach us in pieces of one frame each:
//
//     [ Ethernet IP TCP | payload ][ payload ][ payload ]          as received: one packet, three frames
//     [ Ethernet IP TCP | payload ]
//                  [ Ethernet IP TCP | payload ]                    as handed on: three segments, with the headers
//                               [ Ethernet IP TCP | payload ]       written into the headroom of each, payload in place
//
// Belongs to the port that receives; holds one set of headers.
#pragma once

#include <corewire/net/frame/buffer.hh>

#include <array>
#include <cstdint>

namespace corewire {

class super_frame {
public:
    /// Headers that are copied: Ethernet, VLAN tag, IPv4 (which may be longer than IPv6's 40 bytes) and TCP, both with all their options.
    static constexpr std::uint32_t max_headers = 18 + 60 + 60;

    /// Takes the piece with the headers, of a packet that goes on in others, and makes it a segment of its own. False if it is not TCP,
    /// unfragmented, over IPv4 or right behind the header of IPv6: such a packet can't be cut, and all of its pieces must be dropped.
    bool begin(buffer& first) noexcept;
    /// Puts headers before a further piece; it has max_headers of headroom. `last`: this is where the FIN and PSH belong.
    /// AE, CWR and ECE are in every piece: to AccECN they are one counter, which a piece without CWR would change (RFC 9768 3.2.2). Who
    /// speaks classic ECN wants CWR in the first alone (RFC 3168 6.1.2), but hears the same: nothing comes between the pieces.
    void go_on(buffer& piece, bool last) noexcept;

private:
    void write_headers(std::byte* at, std::uint32_t payload, std::uint8_t flags) noexcept;

    std::array<std::byte, max_headers> headers_;
    std::uint32_t size_ = 0;      ///< of the headers
    std::uint32_t ip_ = 0;        ///< offset of the IP header
    std::uint32_t tcp_ = 0;       ///< offset of the TCP header
    std::uint32_t sequence_ = 0;  ///< of the next piece
    std::uint16_t id_ = 0;        ///< IPv4 identification of the next piece
    bool ipv6_ = false;
    std::uint8_t flags_ = 0;      ///< as the sender set them
};

} // namespace corewire
