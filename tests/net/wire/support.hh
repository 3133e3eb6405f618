// What the tests of net/wire share: bytes from hexadecimal text, random bytes, and frames that Linux 6.1 sent on a veth
// pair with checksum offload off (10.9.0.1 at 02:00:00:00:00:0a, 10.9.0.2 at 02:00:00:00:00:0b).
#pragma once

#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/random.hh>

#include "tests/support/test_seed.hh"

#include <boost/test/unit_test.hpp>

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace wire_test {

using corewire::byte_span;
using corewire::mutable_byte_span;
using byte_vector = std::vector<std::byte>;

/// "45 00 0054" -> four bytes; spaces are ignored.
inline byte_vector hex(std::string_view text) {
    byte_vector out;
    int high = -1;
    for (const char c : text) {
        if (c == ' ') continue;
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) throw std::invalid_argument("not a hexadecimal digit in a test's bytes");
        if (high < 0) {
            high = digit;
        } else {
            out.push_back(static_cast<std::byte>(high << 4 | digit));
            high = -1;
        }
    }
    if (high >= 0) throw std::invalid_argument("half an octet in a test's bytes");
    return out;
}

inline std::string to_hex(byte_span bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string out;
    for (const std::byte b : bytes) {
        out += digits[corewire::load_u8(&b) >> 4];
        out += digits[corewire::load_u8(&b) & 15];
    }
    return out;
}

inline byte_vector random_payload(corewire::random_generator& random, std::size_t size) {
    byte_vector out(size);
    for (std::byte& b : out)
        b = static_cast<std::byte>(random.next());
    return out;
}

using corewire::testing::test_seed;

/// Integers of any width, the interesting values more often than chance gives them.
template <typename Integer>
Integer any(corewire::random_generator& random) {
    switch (random.below(8)) {
    case 0:
        return Integer{0};
    case 1:
        return static_cast<Integer>(~Integer{0});
    default:
        return static_cast<Integer>(random.next());
    }
}

namespace kernel {
inline constexpr std::string_view arp_request =
    "ffffffffffff 02000000000a 0806 0001080006040001 02000000000a 0a090001 000000000000 0a090002";
inline constexpr std::string_view arp_reply =
    "02000000000a 02000000000b 0806 0001080006040002 02000000000b 0a090002 02000000000a 0a090001";
inline constexpr std::string_view syn =
    "02000000000b 02000000000a 0800 4500003c8b2f400040069b780a0900010a090002"
    "aa741e61ff1d7b4700000000a002faf01ac40000 020405b40402080a93734785000000000103030a";
inline constexpr std::string_view syn_ack =
    "02000000000a 02000000000b 0800 4500003c00004000400626a80a0900020a090001"
    "1e61aa74a8242cc8ff1d7b48a012fe889a710000 020405b40402080a4bd25bea937347850103030a";
inline constexpr std::string_view data = // "hello, wire"
    "02000000000b 02000000000a 0800 4500003f8b31400040069b730a0900010a090002"
    "aa741e61ff1d7b48a8242cc98018003f948f0000 0101080a937347854bd25bea 68656c6c6f2c2077697265";
inline constexpr std::string_view fin_ack = "02000000000b 02000000000a 0800 450000348b33400040069b7c0a0900010a090002"
                                            "aa741e61ff1d7b53a8242cd58011003fc7700000 0101080a937347864bd25beb";
inline constexpr std::string_view rst_ack = "02000000000a 02000000000b 0800 450000280000400040 0626bc0a0900020a090001"
                                            "1e62c72e0000000083099bc650140000975b0000";
inline constexpr std::string_view udp_datagram = // "datagram"
    "02000000000b 02000000000a 0800 45000024884f400040119e650a0900010a090002 dd8d1e6100104e28 646174616772616d";
inline constexpr std::string_view udp_first_fragment_header = "450005dc885120004011b8ab0a0900010a090002";
inline constexpr std::string_view udp_last_fragment_header = "45000254885100b94011db7a0a0900010a090002";
inline constexpr std::string_view port_unreachable = // quotes a UDP datagram, "nobody", to port 9999
    "02000000000a 02000000000b 0800 45c0003eb19600004001b4540a0900020a090001 0303113100000000"
    "450000228850400040119e660a0900010a090002 dd8d270f000eb1c8 6e6f626f6479";
inline constexpr std::string_view echo_request = // "abcdefgh"
    "02000000000b 02000000000a 0800 450000241fe74000400106de0a0900010a090002 0800543512340001 6162636465666768";
inline constexpr std::string_view echo_reply =
    "02000000000a 02000000000b 0800 45000024b19700004001b52d0a0900020a090001 00005c3512340001 6162636465666768";
inline constexpr std::string_view igmp_v3_report = // joins 239.1.2.3; Router Alert in the IPv4 header
    "01005e000016 02000000000b 0800 46c00028000040000102f9ee0a090002e0000016 94040000"
    "2200e8f900000001 04000000ef010203";
inline constexpr std::string_view neighbor_solicitation =
    "3333ff000002 02000000000a 86dd 6000000000203afffd000000000000000000000000000001ff0200000000000000000001ff000002"
    "87007d8e00000000 fd000000000000000000000000000002 010102000000000a";
inline constexpr std::string_view neighbor_advertisement =
    "02000000000a 02000000000b 86dd 6000000000203afffd000000000000000000000000000002fd000000000000000000000000000001"
    "88001c9160000000 fd000000000000000000000000000002 020102000000000b";
inline constexpr std::string_view udp_over_ipv6 = // "v6"
    "02000000000b 02000000000a 86dd 6009988e000a1140fd000000000000000000000000000001fd000000000000000000000000000002"
    "c064270e000aa82c 7636";
inline constexpr std::string_view icmpv6_port_unreachable =
    "02000000000a 02000000000b 86dd 600e5677003a3a40fd000000000000000000000000000002fd000000000000000000000000000001"
    "0104fabb00000000 6009988e000a1140fd000000000000000000000000000001fd000000000000000000000000000002"
    "c064270e000aa82c 7636";
inline constexpr std::string_view router_solicitation =
    "333300000002 02000000000a 86dd 6000000000103afffe8000000000000000 00 00fffe00000aff020000000000000000000000000002"
    "85007b1a00000000 010102000000000a";
/// Each of the frames above that is a whole frame.
inline constexpr std::string_view all_frames[] = {arp_request,
                                                  arp_reply,
                                                  syn,
                                                  syn_ack,
                                                  data,
                                                  fin_ack,
                                                  rst_ack,
                                                  udp_datagram,
                                                  port_unreachable,
                                                  echo_request,
                                                  echo_reply,
                                                  igmp_v3_report,
                                                  neighbor_solicitation,
                                                  neighbor_advertisement,
                                                  udp_over_ipv6,
                                                  icmpv6_port_unreachable,
                                                  router_solicitation};
} // namespace kernel

/// The bytes behind the Ethernet header of a captured frame.
inline byte_vector packet_of(std::string_view frame) {
    byte_vector all = hex(frame);
    return {all.begin() + 14, all.end()};
}

/// An exact copy on the heap, so that AddressSanitizer sees a read one byte too far.
inline byte_vector exact(byte_span bytes) { return {bytes.begin(), bytes.end()}; }

} // namespace wire_test
