// Who a received datagram is from and to: of the 40 bytes in front of its payload, which a device writes in one of two ways.
//
//     InfiniBand, RoCE version 1, RoCE version 2 over IPv6    | GRH, or the IPv6 header: 40                     |
//     RoCE version 2 over IPv4 (annex A17.4.5)                | undefined: 20 | IPv4 header, without options: 20 |
//
// Nothing says which. "Undefined" may be what stood in the buffer before, thus begin like an IPv6 header; so where both could be meant the
// IPv4 header is believed if its checksum holds, as Linux has it (ib_get_rdma_header_version). Plain values.
#pragma once

#include <corewire/net/wire/checksum.hh>
#include <corewire/rdma/verbs/api.hh>

#include <cstring>
#include <optional>

namespace corewire::verbs {

struct datagram_header {
    static constexpr std::uint32_t size = 40; ///< bytes

    ibv_gid from{}, to{};

    /// Of `size` bytes of a datagram that has come with IBV_WC_GRH. Nothing if they are no header.
    static std::optional<datagram_header> load(const std::byte* p, bool ethernet) noexcept {
        const auto version = [p](std::size_t at) { return load_u8(p + at) >> 4; };
        datagram_header h;
        if (!ethernet || (version(0) == 6 && !is_ipv4_header(p + 20))) {
            std::memcpy(h.from.raw, p + 8, sizeof h.from.raw);
            std::memcpy(h.to.raw, p + 24, sizeof h.to.raw);
            return h;
        }
        if (version(20) != 4) return std::nullopt;
        for (ibv_gid* each : {&h.from, &h.to}) each->raw[10] = each->raw[11] = 0xff;
        std::memcpy(h.from.raw + 12, p + 32, 4);
        std::memcpy(h.to.raw + 12, p + 36, 4);
        return h;
    }

private:
    static bool is_ipv4_header(const std::byte* p) noexcept {
        return load_u8(p) == 0x45 && wire::checksum_ok({p, 20});
    }
};

} // namespace corewire::verbs
