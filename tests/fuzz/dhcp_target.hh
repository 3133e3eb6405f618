// Any bytes as what a DHCP server says, to a client in any state.
#pragma once

#include <corewire/net/dhcp/dhcp_client.hh>

#include <cstdlib>
#include <cstring>
#include <memory>

namespace dhcp_fuzz {

/// The first byte says how far the client is, the second the kind of the message; then its fields from yiaddr on, and the options. The
/// number, the MAC and the cookie are right, so that the options are reached.
inline void server(corewire::byte_span bytes) {
    using namespace corewire;
    constexpr mac_address mac(0x02'00'00'00'00'07);
    if (bytes.size() < 2) return;
    const unsigned steps = std::to_integer<unsigned>(bytes[0]) % 6;
    const byte_span rest = bytes.subspan(2);
    const auto block = std::make_unique<std::byte[]>(243 + rest.size()); // of exactly the size, so that a read too far is seen
    time_point now = from_ns(1'000'000'000);
    dhcp_client client(mac, {.start_delay = duration{0}, .probes = 0}, 7);
    client.start(now);
    for (unsigned step = 0; step <= steps; ++step) {
        now = std::max(now, std::min(client.next_timeout(), now + std::chrono::hours{1}));
        client.on_timer(now);
        std::byte* const m = block.get();
        std::memset(m, 0, 243);
        m[0] = std::byte{2};
        m[1] = std::byte{1};
        m[2] = std::byte{6};
        store_be32(m + 4, client.transaction());
        if (rest.size() >= 4) std::memcpy(m + 16, rest.data(), 4);
        mac.store(m + 28);
        if (rest.size() >= 196) std::memcpy(m + 44, rest.data() + 4, 192);
        store_be32(m + 236, 0x63825363);
        m[240] = std::byte{53};
        m[241] = std::byte{1};
        m[242] = step % 2 == 0 ? std::byte{2} : static_cast<std::byte>(std::to_integer<unsigned>(bytes[1]) % 10);
        if (!rest.empty()) std::memcpy(m + 243, rest.data(), rest.size());
        client.input(now, {m, 243 + rest.size()});
        client.check_invariants();
        for (dhcp_outgoing out; client.poll_transmit(out);)
            if (out.size < 300 || out.size > out.bytes.size()) std::abort();
        if (const dhcp_lease* lease = client.lease(); lease != nullptr && !lease->address.address().is_unicast()) std::abort();
    }
}

/// The bytes as they are.
inline void message(corewire::byte_span bytes) {
    using namespace corewire;
    const dhcp_client_id id = dhcp_client_id::of(mac_address(7), 1);
    dhcp_reply out;
    if (parse_dhcp_reply(bytes, mac_address(7), id, out) == dhcp_parse_error::none && out.type == dhcp_message_type::none) return;
    server(bytes);
}

} // namespace dhcp_fuzz
