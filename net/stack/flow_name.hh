// A connection's 4-tuple in either family. Kept for IPv6; of IPv4 it is made from the flow_key where the rarer steps (opening,
// refusing, ICMP) want one form for both.
#pragma once

#include <corewire/net/stack/flow_table.hh>
#include <corewire/net/wire/net_address.hh>

namespace corewire {

struct flow_name {
    net_address local;
    net_address remote;
    std::uint16_t local_port = 0;
    std::uint16_t remote_port = 0;

    flow_name() noexcept = default;
    flow_name(const net_address& l, const net_address& r, std::uint16_t l_port, std::uint16_t r_port) noexcept
        : local(l), remote(r), local_port(l_port), remote_port(r_port) {}
    flow_name(const flow_key& k) noexcept
        : flow_name(ipv4(k.local_address), ipv4(k.remote_address), k.local_port, k.remote_port) {}

    bool is_v4() const noexcept { return remote.is_v4(); }
    /// The ports alone, of IPv6.
    flow_key key() const noexcept {
        if (!is_v4()) return {0, 0, local_port, remote_port};
        return {local.v4().value(), remote.v4().value(), local_port, remote_port};
    }
    friend bool operator==(const flow_name&, const flow_name&) = default;
};

/// flow_table's, for IPv6.
inline std::uint32_t hash_of_flow(const flow_name& f, const siphash_key& secret) noexcept {
    const auto mixed = [](std::uint64_t a, std::uint64_t b) {
        __extension__ using wide = unsigned __int128;
        const wide m = static_cast<wide>(a) * b;
        return static_cast<std::uint64_t>(m >> 64) ^ static_cast<std::uint64_t>(m);
    };
    const std::uint64_t remote = mixed(f.remote.high() ^ secret.k0, f.remote.low() ^ secret.k1);
    const std::uint64_t ports = std::uint64_t{f.remote_port} << 16 | f.local_port;
    const std::uint64_t all = mixed(remote ^ f.local.low() ^ secret.k1, (ports << 32 ^ f.local.high()) ^ secret.k0);
    return static_cast<std::uint32_t>(all ^ all >> 32);
}

} // namespace corewire
