// Two shards with one address, and one card that brings everything to the first.
#pragma once

#include "ipv6_link.hh"

#include <corewire/net/stack/shard_steering.hh>
#include <corewire/net/wire/ipv4.hh>

#include <cstring>
#include <memory>

namespace corewire {

struct two_shards_link : ipv6_link {
    static constexpr ipv4 us4{10, 0, 0, 1}, peer4{10, 0, 0, 2};

    explicit two_shards_link(std::uint32_t mtu = 1500) {
        net.connect(*other_nic, *other_end);
        stack_config config;
        config.address = ip_prefix(us4, 24);
        config.ipv6.emplace().address = ipv6_prefix(us, 64);
        config.ipv6->duplicate_probes = 0;
        config.seed = 2;
        other = std::make_unique<network_stack>(loop, std::move(other_nic), config);
        auto steering = shard_steering::make(2, 0, mtu);
        first = steering[0].get();
        stack->set_steering(std::move(steering[0]));
        other->set_steering(std::move(steering[1]));
        for (network_stack* each : {stack.get(), other.get()}) {
            each->ip().neighbors().set_permanent(peer4, end->mac());
            each->ip().six()->neighbors().set_permanent(peer, end->mac());
        }
        pass(std::chrono::milliseconds{1});
    }
    ~two_shards_link() { other.reset(); } // before the other, whose frames it may hold

    network_stack& shard(unsigned n) { return n == 0 ? *stack : *other; }
    /// Sockets are this shard's from now on.
    void use(unsigned n) { loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(&shard(n)); }

    /// An IPv4 packet of the peer's, or a fragment numbered `id`, to the first shard's port.
    void send4(byte_span payload, wire::ip_protocol protocol, std::size_t offset = 0, bool more = false) {
        packet p;
        p.head = end->pool().allocate_buffer();
        wire::ethernet_header{.destination = stack->device().mac(), .source = end->mac(), .type = wire::ether_type::ipv4}.emit(
            {p.head.append(14), 14});
        wire::ipv4_header{.total_length = static_cast<std::uint16_t>(20 + payload.size()),
                          .identification = id,
                          .dont_fragment = false,
                          .more_fragments = more,
                          .fragment_offset = static_cast<std::uint16_t>(offset),
                          .protocol = protocol,
                          .source = peer4,
                          .destination = us4}
            .emit({p.head.append(20), 20});
        std::memcpy(p.head.append(static_cast<std::uint32_t>(payload.size())), payload.data(), payload.size());
        end->transmit({&p, 1});
        pass(std::chrono::milliseconds{1});
    }
    /// A fragment numbered `id` over IPv6.
    void send6(byte_span piece, const ipv6& to, wire::ip_protocol protocol, std::size_t offset, bool more) {
        bytes b(8);
        b[0] = static_cast<std::byte>(protocol);
        store_be16(b.data() + 2, static_cast<std::uint16_t>(offset | (more ? 1 : 0)));
        store_be32(b.data() + 4, id);
        b.insert(b.end(), piece.begin(), piece.end());
        send(b, peer, to, wire::ip_protocol::ipv6_fragment);
    }

    std::unique_ptr<sim_port> other_nic = net.make_port(mac_address(2, 0, 0, 0, 0, 1)); ///< one card, two queues
    std::unique_ptr<sim_port> other_end = net.make_port(mac_address(2, 0, 0, 0, 0, 2));
    std::unique_ptr<network_stack> other;
    shard_steering* first = nullptr;
    std::uint16_t id = 0;
};

} // namespace corewire
