// Who listens where: TCP's listeners by local address and port, so that several may share a port, each for an address of its own, beside
// one for all addresses. A look-up takes two steps at most, however many listen: the address itself, then all of its family.
//
//     {2001:db8::1, 80}, {10.0.0.1, 80}   for one address          \.
//     {0.0.0.0, 80}                       for all of IPv4           > of those that cover a flow the first that is here
//     {::, 80}                            for all of both, or IPv6 /
//
// Who listens at an address that a lease has taken away hears nothing until it is back, as at a kernel's; at 0.0.0.0 one follows the lease.
// One shard's. Holds pointers only; as many as there are listeners.
#pragma once

#include <corewire/net/stack/tcp_listen_socket.hh>

#include <cstddef>
#include <cstdint>
#include <unordered_map>

namespace corewire {

class listener_table {
public:
    /// Who listens for what comes to this address of ours; null: nobody.
    tcp_listen_socket* find(const net_address& local, std::uint16_t port) const noexcept {
        if (tcp_listen_socket* const found = at({local, port})) return found;
        return at({local.is_v4() ? net_address(ipv4::any()) : net_address(ipv6::any()), port});
    }
    /// False: another one listens there. `alone`: or on any address of the same port that is, or is part of, the listener's.
    bool add(tcp_listen_socket& listener, bool alone);
    /// False: it was not here.
    bool remove(tcp_listen_socket& listener) noexcept;
    /// Some address's. O(size): for who chooses a port to listen on.
    bool has_port(std::uint16_t port) const noexcept;
    /// Each once, also one of both families.
    template <typename Visit>
    void for_each(Visit&& visit) const {
        for (const auto& [where, listener] : all_)
            if (where == first_place_of(*listener)) visit(*listener);
    }

private:
    struct place {
        net_address address;
        std::uint16_t port;
        friend bool operator==(const place&, const place&) = default;
    };
    struct hash_of_place {
        std::size_t operator()(const place& p) const noexcept {
            const std::uint64_t mixed = (p.address.low() ^ p.address.high() ^ std::uint64_t{p.port} << 48) * 0x9e37'79b9'7f4a'7c15u;
            return static_cast<std::size_t>(mixed ^ mixed >> 32);
        }
    };
    static place first_place_of(const tcp_listen_socket& l) noexcept { return {l.bound_to().net(), l.bound_to().port}; }
    /// At `::` it listens for IPv4, too, unless it is for IPv6 alone.
    static bool is_for_both(const tcp_listen_socket& l) noexcept { return l.bound_to().net().is_any_of_both() && !l.options().ipv6_only; }
    tcp_listen_socket* at(const place& where) const noexcept {
        const auto found = all_.find(where);
        return found == all_.end() ? nullptr : found->second;
    }
    bool overlaps(const tcp_listen_socket& listener) const noexcept;

    std::unordered_map<place, tcp_listen_socket*, hash_of_place> all_;
};

} // namespace corewire
