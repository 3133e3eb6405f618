// Any bytes as what a DHCPv6 server says, to a client in any state.
#pragma once

#include <corewire/net/dhcp/dhcp6_client.hh>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace dhcp6_fuzz {

/// The first byte says how far the client is, the second the kind of the message; the rest is options. The number and our identifier are
/// right, so that the rest of them counts.
inline void server(corewire::byte_span bytes) {
    using namespace corewire;
    if (bytes.size() < 2) return;
    const unsigned steps = std::to_integer<unsigned>(bytes[0]) % 6;
    const byte_span rest = bytes.subspan(2);
    time_point now = from_ns(1'000'000'000);
    dhcp6_client client(mac_address(0x02'00'00'00'00'07), {.start_delay = duration{0}}, 7);
    const byte_span duid = client.duid();
    const std::size_t size = 8 + duid.size() + rest.size();
    const auto block = std::make_unique<std::byte[]>(size); // of exactly the size, so that a read too far is seen
    std::byte* const m = block.get();
    client.on_flags(now, true, false);
    for (unsigned step = 0; step <= steps; ++step) {
        now = std::max(now, std::min(client.next_timeout(), now + std::chrono::hours{1}));
        client.on_timer(now);
        dhcp6_outgoing out;
        std::uint32_t transaction = 0;
        while (client.poll_transmit(out)) {
            if (out.size < 4 || out.size > out.bytes.size()) std::abort();
            transaction = load_be32(out.bytes.data()) & 0xffffff;
        }
        store_be32(m, (step % 2 == 0 ? 2u : std::to_integer<unsigned>(bytes[1]) % 12) << 24 | transaction);
        store_be16(m + 4, 1);
        store_be16(m + 6, static_cast<std::uint16_t>(duid.size()));
        std::memcpy(m + 8, duid.data(), duid.size());
        if (!rest.empty()) std::memcpy(m + 8 + duid.size(), rest.data(), rest.size());
        client.input(now, {m, size});
        client.check_invariants();
        for (const dhcp6_leased& each : client.lease().addresses.all())
            if (each.address.is_multicast() || each.preferred_until > each.valid_until) std::abort();
    }
    if (!client.lease().addresses.empty()) client.on_duplicate(now, client.lease().addresses.items[0].address);
    client.release(now);
    client.check_invariants();
}

/// The bytes as they are, too.
inline void message(corewire::byte_span bytes) {
    using namespace corewire;
    dhcp6_reply out;
    static_cast<void>(parse_dhcp6_reply(bytes, {}, 1, out));
    server(bytes);
}

} // namespace dhcp6_fuzz
