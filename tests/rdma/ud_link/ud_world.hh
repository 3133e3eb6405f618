// Two hosts of IP over UD datagrams, each on a fake NIC: what the tests of the port play with.
#pragma once

#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/ud_link/fabric_follower.hh>
#include <corewire/rdma/ud_link/ud_port.hh>

#include "tests/rdma/support.hh"
#include "tests/support/test_packets.hh"

namespace corewire::test {

struct ud_host {
    ud_host(const std::string& name, std::uint8_t number, fake::nic_options o = {}, ud_device_options d = {}, ud_port_options p = {})
        : nic(options(name, number, std::move(o))) {
        d.device = name;
        d.network = ip_prefix(ipv4(10, 0, 0, 0), 24);
        d.api = &fake::api();
        d.cm = &fake::cm();
        d.beside = ipv4(192, 0, 2, number);
        d.receive_depth = d.send_depth = 128;
        device = std::make_shared<ud_device>(d);
        port = std::make_unique<ud_port>(device, 0, p);
    }
    /// The device's events, delivered as a reactor would.
    void hear_events() {
        ibv_async_event e{};
        while (fake::api().get_async_event(device->device().context(), &e) == 0) {
            verbs::device_event plain;
            plain.what = e.event_type;
            if (e.event_type == IBV_EVENT_QP_FATAL) plain.pair = e.element.qp;
            else if (e.event_type == IBV_EVENT_CQ_ERR) plain.completions = e.element.cq;
            else if (e.event_type != IBV_EVENT_DEVICE_FATAL) plain.port = static_cast<std::uint8_t>(e.element.port_num);
            device->handle(plain);
            if (follower) follower->handle(plain);
        }
    }
    /// InfiniBand: from now on hear_events() has the group joined again.
    void follow_fabric(reactor& on) {
        follower = std::make_unique<fabric_follower>(device, on, [this](const std::string& what) { told.push_back(what); });
    }
    /// An IPv4 packet of `size` bytes, as far as a port can tell, in an Ethernet frame.
    packet datagram(mac_address to, std::uint32_t size, std::uint32_t number = 0) {
        packet p = numbered_frame(*port, to, number, size + 14);
        store_be16(p.head.mutable_data() + 12, 0x0800);
        return p;
    }
    packet arp(wire::arp_operation what, mac_address destination, mac_address target, ipv4 from, ipv4 wanted) {
        packet p;
        p.head = port->pool().allocate_buffer();
        const wire::ethernet_header link{destination, port->mac(), wire::ether_type::arp};
        link.emit({p.head.append(14), 14});
        const wire::arp_packet body{what, port->mac(), from, target, wanted};
        body.emit({p.head.append(28), 28});
        return p;
    }
    bool sends(packet p) { return send(*port, std::move(p)); }
    /// All frames that the port does not hold.
    bool all_home() {
        static_cast<void>(receive_all(*port));
        return port->unsent() == 0 && port->pool().free_count + port->posted() + 1 == port->pool().count();
    }

    fake::nic nic;
    std::shared_ptr<ud_device> device;
    std::unique_ptr<ud_port> port;
    std::unique_ptr<fabric_follower> follower;
    std::vector<std::string> told;

private:
    static fake::nic_options options(const std::string& name, std::uint8_t number, fake::nic_options o) {
        o.name = name;
        o.mac = mac_address(0x02'00'00'00'01'00 | number);
        o.addresses = {ipv4(192, 0, 2, number)};
        return o;
    }
};

struct ud_world {
    explicit ud_world(const fake::nic_options& nics = {}, const ud_device_options& devices = {}, const ud_port_options& ports = {})
        : a("fake_a", 1, nics, devices, ports), b("fake_b", 2, nics, devices, ports) {}
    /// Each knows the other, as after a question and its answer.
    void meet() {
        a.sends(a.arp(wire::arp_operation::request, mac_address::broadcast(), {}, first, second));
        receive_all(*b.port);
        b.sends(b.arp(wire::arp_operation::reply, a.port->mac(), a.port->mac(), second, first));
        receive_all(*a.port);
    }
    static constexpr ipv4 first{10, 0, 0, 1}, second{10, 0, 0, 2};
    ud_host a, b;
};

} // namespace corewire::test
