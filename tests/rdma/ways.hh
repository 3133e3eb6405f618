// How a test's two ends come together: by rdma_cm, or over streams of two stacks of ours on a wire in memory, which have the addresses of
// the fabric's devices.
#pragma once

#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/rdma/channel/listener.hh>

#include "tests/rdma/fabric.hh"

namespace corewire::test {

struct by_rdma_cm {
    explicit by_rdma_cm(reactor&) {}
    rdma::listener listen(rdma::context& in, const rdma::rc_options& options) const {
        return rdma::listener::bind(in, {address_of_server, 0}, options);
    }
    task<rdma::rc_channel> dial(rdma::context& in, rdma::rc_options options, std::uint16_t port) const {
        rdma::connector from(in, options);
        rdma::rc_channel made = co_await from.connect({address_of_server, port}, {}, {address_of_client, 0});
        co_return made;
    }
};

struct over_streams {
    explicit over_streams(reactor& on) : over_streams(on, wire_link::make({.vouch_for_checksums = false})) {}
    ~over_streams() { loop.root_group().destroy_all(); } // what still has a stream
    rdma::listener listen(rdma::context& in, const rdma::rc_options& options) {
        return rdma::listener::over(in, listen(), {.channel = options});
    }
    tcp_listener listen() {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(&server);
        return tcp_listener::bind({address_of_server, 0});
    }
    task<tcp_stream> stream_to(std::uint16_t port) {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(&client);
        tcp_stream made = co_await tcp_stream::connect({address_of_server, port});
        co_return made;
    }
    task<rdma::rc_channel> dial(rdma::context& in, rdma::rc_options options, std::uint16_t port) {
        tcp_stream stream = co_await stream_to(port);
        rdma::rc_channel made = co_await rdma::connect_over(in, std::move(stream), {.channel = options});
        co_return made;
    }

    reactor& loop;
    network_stack server, client;

private:
    over_streams(reactor& on, wire_link::ends ends)
        : loop(on), server(on, std::move(ends.first), host(address_of_server)),
          client(on, std::move(ends.second), host(address_of_client)) {}
    static stack_config host(ipv4 address) {
        stack_config config;
        config.address = ip_prefix(address, 24);
        config.seed = address.value();
        return config;
    }
};

} // namespace corewire::test
