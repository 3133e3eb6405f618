// A verbs port on a fake NIC whose other side is the end of a wire: what the tests of the port play with.
#pragma once

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/raw/verbs_port.hh>

#include "tests/rdma/support.hh"
#include "tests/support/test_packets.hh"

namespace corewire::test {

struct verbs_world {
    static verbs_device_options everything() { return {.steering = verbs_steering::everything}; }

    explicit verbs_world(fake::nic_options nic_options = {}, verbs_device_options device_options = everything(),
                         verbs_port_options port_options = {}, int refused_pair = 0, unsigned refusals = 1)
        : verbs_world(wire_link::make({.vouch_for_checksums = false}), std::move(nic_options), std::move(device_options),
                      port_options, refused_pair, refusals) {}

    /// The device's events, delivered as a reactor would.
    void hear_events() {
        ibv_async_event e{};
        while (fake::api().get_async_event(device->device().context(), &e) == 0) {
            verbs::device_event plain;
            plain.what = e.event_type;
            if (e.event_type == IBV_EVENT_QP_FATAL) plain.pair = e.element.qp;
            else if (e.event_type == IBV_EVENT_CQ_ERR) plain.completions = e.element.cq;
            else if (e.event_type == IBV_EVENT_WQ_FATAL) plain.receives = e.element.wq;
            else if (e.event_type != IBV_EVENT_DEVICE_FATAL) plain.port = static_cast<std::uint8_t>(e.element.port_num);
            device->handle(plain);
        }
    }
    /// Polls both ends until nothing moves.
    void settle() {
        for (int i = 0; i < 8; ++i) {
            static_cast<void>(receive_all(*port));
            static_cast<void>(receive_all(*far));
        }
    }
    packet outgoing(std::uint32_t number, std::uint32_t size = 200) { return numbered_frame(*port, far->mac(), number, size); }
    bool arrives(std::uint32_t number) {
        return send(*far, numbered_frame(*far, port->mac(), number)) && receive_numbers(*port) == std::vector{number};
    }

    fake::nic nic;
    std::unique_ptr<corewire::port> far;
    std::shared_ptr<verbs_device> device;
    std::unique_ptr<verbs_port> port;

private:
    verbs_world(wire_link::ends ends, fake::nic_options nic_options, verbs_device_options device_options,
                const verbs_port_options& port_options, int refused_pair, unsigned refusals)
        : nic(std::move(nic_options), std::move(ends.first)), far(std::move(ends.second)) {
        if (refused_pair != 0) nic.fail_calls("create_qp", refused_pair, refusals); // the first that are asked for
        device_options.device = nic.options().name;
        device_options.api = &fake::api();
        device = std::make_shared<verbs_device>(device_options);
        port = std::make_unique<verbs_port>(device, 0, port_options);
    }
};

} // namespace corewire::test
