// Our stack over the `verbs` port, twice: on two fake NICs at the ends of a wire, each taking only what its flow rules say. Either with
// addresses of its own, or (shared) on those of a kernel, which gets everything that no rule takes.
#pragma once

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/stack/host_share.hh>
#include <corewire/rdma/fake/offload.hh>
#include <corewire/rdma/raw/verbs_port.hh>

#include "tests/rdma/two_fake_hosts.hh"

namespace corewire {

/// 2001:db8::N for 10.0.0.N.
inline ipv6 six_of(ipv4 address) { return wire::with_identifier(*ipv6::parse("2001:db8::"), address.value() & 0xff); }

/// Groups that sockets join are steered to us, and IPv6 addresses that the stack has.
struct steered_groups final : group_follower {
    std::shared_ptr<verbs_device> device;
    bool on_join(const net_address& group) noexcept override {
        device->own(group);
        return true;
    }
    void on_leave(const net_address& group) noexcept override { device->disown(group); }
};

/// What shared_host does with ports and flows, without a kernel that has to agree.
struct steered_share final : host_share {
    std::shared_ptr<verbs_device> device;
    net_address four, six;
    std::map<std::tuple<wire::ip_protocol, bool, std::uint16_t>, int> claims;

    void claim_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) override {
        each(at, [&](const net_address& address) {
            if (++claims[{protocol, address.is_v4(), port}] == 1) BOOST_REQUIRE(device->own_flow(port_of(protocol, address, port)) == 0);
        });
    }
    void release_port(wire::ip_protocol protocol, const net_address& at, std::uint16_t port) noexcept override {
        each(at, [&](const net_address& address) {
            if (--claims[{protocol, address.is_v4(), port}] == 0) device->disown_flow(port_of(protocol, address, port));
        });
    }
    int claim_flow(const flow_name& f) noexcept override { return device->own_flow(flow_of(f)); }
    void release_flow(const flow_name& f) noexcept override { device->disown_flow(flow_of(f)); }
    void resolve(const net_address&) noexcept override {} // the stacks are told of each other at the beginning

private:
    template <typename Do>
    void each(const net_address& at, Do what) {
        if (at.is_v4() || at.is_any_of_both()) what(four);
        if (!at.is_v4()) what(six);
    }
    static steered_flow port_of(wire::ip_protocol protocol, const net_address& address, std::uint16_t port) {
        return {.protocol = static_cast<std::uint8_t>(protocol), .local = address, .local_port = port};
    }
    static steered_flow flow_of(const flow_name& f) { return {6, f.local, f.local_port, f.remote, f.remote_port}; }
};

/// The kernel behind a fake NIC: refuses TCP over IPv4 for ports that nobody has, and counts.
struct kernel_end {
    unsigned heard = 0;
    void hear(fake::nic& nic, byte_span frame) {
        if (mac_address::load(frame.data()) != nic.options().mac) return; // another host's
        ++heard;
        const fake::flow_fields f = fake::fields_of(frame);
        constexpr std::size_t ip = 14, tcp = 34, end = 54;
        if (!f.ipv4 || !f.tcp || frame.size() < end || (load_u8(frame.data() + tcp + 13) & 4) != 0) return;
        packet p;
        p.head = nic.wire()->pool().allocate_buffer();
        std::byte* const to = p.head.append(end);
        std::memcpy(to, frame.data(), end);
        std::memcpy(to, frame.data() + 6, 6);
        std::memcpy(to + 6, frame.data(), 6);
        store_be16(to + ip + 2, end - ip);
        store_be32(to + ip + 12, f.destination.v4().value());
        store_be32(to + ip + 16, f.source.v4().value());
        store_be16(to + tcp, f.destination_port);
        store_be16(to + tcp + 2, f.source_port);
        store_be32(to + tcp + 4, 0);
        store_be32(to + tcp + 8, load_be32(frame.data() + tcp + 4) + 1); // of a SYN
        to[tcp + 12] = std::byte{0x50};
        to[tcp + 13] = std::byte{0x14}; // RST, ACK
        fake::complete_checksums({to, end});
        static_cast<void>(nic.wire()->transmit({&p, 1}));
    }
};

enum class holds : bool { its_own_addresses, the_kernels };

struct verbs_host {
    verbs_host(std::string name, mac_address mac, ipv4 address, std::unique_ptr<corewire::port> wire, reactor& loop, bool over_ipv6,
               holds what = holds::its_own_addresses, std::uint16_t vlan = 0)
        : nic({.name = name, .mac = mac, .max_rules = 4096}, std::move(wire)), shared(what == holds::the_kernels),
          device(std::make_shared<verbs_device>(
              verbs_device_options{.device = name,
                                   .steering = shared ? verbs_steering::flows : verbs_steering::addresses,
                                   .vlan = vlan,
                                   .api = &fake::api()})) {
        nic.on_kernel_frame([this](byte_span frame) { kernel.hear(nic, frame); });
        if (!shared) device->own(address);
        share.device = groups.device = device;
        share.four = address;
        share.six = six_of(address);
        auto made = std::make_unique<verbs_port>(device, 0);
        port = made.get();
        stack_config config;
        config.address = ip_prefix(address, 24);
        config.seed = address.value();
        config.vlan = vlan;
        if (shared) config.share = &share;
        else config.groups = &groups;
        if (over_ipv6) {
            config.ipv6.emplace().address = ipv6_prefix(six_of(address), 64);
            config.ipv6->duplicate_probes = 0;
            if (!shared) device->own(ipv6::all_nodes());
        }
        stack = std::make_unique<network_stack>(loop, std::move(made), config);
        objects = nic.live_objects();
    }
    /// What a kernel says of its routes and neighbours.
    void introduce(ipv4 other, mac_address mac) {
        const std::vector<ipv6_route> link{{ipv6_prefix(*ipv6::parse("2001:db8::"), 64), ipv6::any()}};
        stack->follow_routes({}, link);
        stack->follow_permanent_neighbor(other, mac);
        stack->follow_permanent_neighbor(six_of(other), mac);
    }
    void expect_quiet() const {
        if (shared) BOOST_TEST(nic.live_objects() == objects); // every rule has gone with its port or connection
        BOOST_TEST(port->pool().free_count + port->posted() == port->pool().count());
        BOOST_TEST(port->verbs_statistics().restarts == 0u);
    }
    fake::nic nic;
    bool shared;
    kernel_end kernel;
    std::shared_ptr<verbs_device> device;
    steered_groups groups;
    steered_share share;
    unsigned objects = 0; ///< of the NIC, before there is any socket
    verbs_port* port = nullptr;
    std::unique_ptr<network_stack> stack;
};

class verbs_sockets_world : public test::two_fake_hosts<verbs_host> {
public:
    /// Nothing but the wire and the rules brings frames: over IPv6, too, with neighbour discovery.
    explicit verbs_sockets_world(bool over_ipv6 = false, holds what = holds::its_own_addresses, std::uint16_t vlan = 0)
        : verbs_sockets_world(wire_link::make({.vouch_for_checksums = false}), over_ipv6, what, vlan) {}
    net_address server_address() override { return six_ ? net_address(six_of(first)) : first; }
    net_address client_address() override { return six_ ? net_address(six_of(second)) : second; }
    socket_address silent_address() override {
        if (!six_) return two_fake_hosts::silent_address();
        client().ip().six()->neighbors().set_permanent(six_of(nobody), mac_address(0x02'00'00'00'00'99));
        return {six_of(nobody), 7};
    }

    verbs_host& server_host() noexcept { return host(0); }
    verbs_host& client_host() noexcept { return host(1); }

private:
    verbs_sockets_world(wire_link::ends ends, bool six, holds what, std::uint16_t vlan)
        : two_fake_hosts([&](reactor& r) { return verbs_host("fake_a", mac_of_a, first, std::move(ends.first), r, six, what, vlan); },
                         [&](reactor& r) { return verbs_host("fake_b", mac_of_b, second, std::move(ends.second), r, six, what, vlan); }),
          six_(six) {
        if (what == holds::its_own_addresses) return;
        server_host().introduce(second, mac_of_b);
        client_host().introduce(first, mac_of_a);
    }

    static constexpr mac_address mac_of_a{0x02'00'00'00'00'0a}, mac_of_b{0x02'00'00'00'00'0b};

    bool six_;
};

} // namespace corewire
