// ipv6_link.hh with a UDP socket at port 7 of both families: what its datagrams look like on the wire.
#pragma once

#include "ipv6_link.hh"

#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/reactor/task/task_group.hh>

#include <system_error>

namespace corewire {

struct datagram_link : ipv6_link {
    static constexpr ipv4 us4{10, 0, 0, 1}, peer4{10, 0, 0, 2};

    explicit datagram_link(std::initializer_list<net_address> neighbors) {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        for (const net_address& each : neighbors) {
            if (each.is_v4()) stack->ip().neighbors().set_permanent(each.v4(), end->mac());
            else stack->ip().six()->neighbors().set_permanent(each.v6(), end->mac());
        }
        socket = udp_socket::bind({ipv6::any(), 7});
    }
    ~datagram_link() { tasks.destroy_all(); }

    /// An IPv4 packet of the peer's.
    void send4(const bytes& payload, ipv4 from, ipv4 to, wire::ip_protocol protocol) {
        packet p;
        p.head = end->pool().allocate_buffer();
        const mac_address mac = to.is_multicast() ? mac_address::of_multicast(to) : stack->device().mac();
        wire::ethernet_header{.destination = mac, .source = end->mac(), .type = wire::ether_type::ipv4}.emit({p.head.append(14), 14});
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + payload.size()), .protocol = protocol, .source = from,
                          .destination = to}
            .emit({p.head.append(20), 20});
        std::memcpy(p.head.append(static_cast<std::uint32_t>(payload.size())), payload.data(), payload.size());
        end->transmit({&p, 1});
        pass(std::chrono::milliseconds{1});
    }
    /// The IP packets that a datagram of `size` bytes makes, and `failed`. `to`: none: the peer of a connected one.
    std::vector<bytes> send_out(udp_socket& from, std::size_t size, std::optional<net_address> to, const datagram_options& how = {}) {
        frames();
        failed = {};
        using place = std::optional<net_address>;
        tasks.spawn([](datagram_link& w, udp_socket& s, std::size_t n, place where, datagram_options how_to) -> task<> {
            const std::vector<std::byte> data(n, std::byte{'x'});
            try {
                if (where) co_await s.send_to(byte_span{data}, socket_address(*where, 4000), how_to);
                else co_await s.send(byte_span{data});
            } catch (const std::system_error& e) {
                w.failed = static_cast<std::errc>(e.code().value());
            }
        }(*this, from, size, to, how));
        pass(std::chrono::milliseconds{1});
        std::vector<bytes> out;
        for (const bytes& f : frames()) {
            const bool six = load_be16(f.data() + 12) == 0x86dd;
            const std::uint8_t protocol = load_u8(f.data() + (six ? 20 : 23));
            if (protocol == 17 || protocol == 44) out.emplace_back(f.begin() + 14, f.end());
        }
        return out;
    }

    std::errc failed{};
    udp_socket socket;
    task_group tasks{"datagrams"};
};

} // namespace corewire
