// A whole stack behind a port, driven by a string of bytes: frames of every kind with the sums and lengths that let them in, time, and
// applications that answer. What the parsers' targets do not reach: reassembly, neighbours of both families, router advertisements,
// groups, ICMP about flows, SYN cookies, Fast Open, DHCP, VLANs.
//
// What must hold: check_invariants() after each step; what leaves has right lengths and sums, and fits the link; each step comes to rest,
// after a bounded number of frames; when all is over no frame is missing.
#pragma once

#include <corewire/net/link/address_claim.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/reactor/task/spawn.hh>

#include "frame_builder.hh"

#include <system_error>

namespace stack_fuzz {

using namespace std::chrono_literals;

struct still_clock final : clock_source {
    time_point time = from_ns(1'000'000'000'000);
    time_point now() noexcept override { return time; }
};

/// What leaves is looked at and dropped; what arrives was put here.
class cable final : public port {
public:
    explicit cable(frame_pool& pool, heard& told, bool vlan) noexcept : told_(told), vlan_(vlan) {
        pool_ = &pool;
        mac_ = our_mac;
        name_ = "fuzz";
        capabilities_.gather = true;
    }
    void put(byte_span bytes) {
        if (bytes.empty() || bytes.size() > pool_->frame_size() - frame_headroom || pool_->free_count == 0) return;
        packet& p = waiting_.emplace_back();
        p.head = pool_->allocate_buffer();
        std::memcpy(p.head.append(static_cast<std::uint32_t>(bytes.size())), bytes.data(), bytes.size());
    }
    std::size_t receive(std::span<packet> out) override {
        const std::size_t n = std::min(out.size(), waiting_.size());
        std::move(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n), out.begin());
        waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(n));
        return n;
    }
    std::size_t transmit(std::span<packet> burst) override {
        for (packet& p : burst) {
            std::byte bytes[2048];
            CW_ASSERT(p.size() <= 14 + 4 + mtu_ && p.flags == offload::none, "a frame that does not fit the link");
            std::memcpy(bytes, p.head.data(), p.head.size());
            if (!p.body.empty()) std::memcpy(bytes + p.head.size(), p.body.data(), p.body.size());
            told_.look({bytes, p.size()}, vlan_);
            p = packet{};
        }
        return burst.size();
    }

private:
    heard& told_;
    bool vlan_;
    std::vector<packet> waiting_;
};

inline task<> echo(tcp_stream peer) {
    try {
        while (buffer data = co_await peer.read()) co_await peer.write(std::move(data));
        co_await peer.close({});
    } catch (const std::system_error&) {
        // as the peer wishes
    }
}
inline task<> serve(tcp_listener at) {
    try {
        for (;;) {
            tcp_stream peer = co_await at.accept();
            spawn(echo(std::move(peer)));
        }
    } catch (const std::system_error&) {
    }
}
inline task<> serve_datagrams(udp_socket at) {
    for (;;) {
        try {
            datagram d = co_await at.receive_from();
            co_await at.send_to(std::move(d.data), d.from);
        } catch (const std::system_error&) {
        }
    }
}
inline task<> call(socket_address to, std::uint32_t size) {
    try {
        tcp_stream peer = co_await tcp_stream::connect(to);
        const std::vector<std::byte> bytes(size, std::byte{0x5a});
        co_await peer.write(byte_span(bytes));
        co_await echo(std::move(peer));
    } catch (const std::system_error&) {
    }
}

class player {
public:
    player(byte_span input, frame_pool& pool) : in_(input) {
        const std::uint8_t how = in_.byte();
        stack_config config;
        config.seed = 1;
        config.max_connections = 16;
        config.reassembly_frames = 3;
        config.reassembly.max_datagrams = 4;
        config.vlan = how & 1 ? 5 : 0;
        if (how & 2) config.dhcp = dhcp_config{.client = {.start_delay = duration{0}, .probes = 0}};
        else config.address = ip_prefix(our_v4, 24);
        if (!(how & 2)) config.gateway = ipv4(10, 0, 0, 254);
        config.ipv6 = ipv6_config{.address = ipv6_prefix(our_v6, 64), .autoconfigure = (how & 4) != 0, .secret = siphash_key{}};
        config.ipv6->duplicate_probes = how & 8 ? 1 : 0;
        config.fast_open_key = siphash_key{};
        config.fast_open_without_cookie = how & 16;
        config.tcp.fast_path = !(how & 32);
        config.ask_for_address = how & 64;
        heard_.vlan = config.vlan;
        auto device = std::make_unique<cable>(pool, heard_, config.vlan != 0);
        cable_ = device.get();
        reactor::scope here(loop_);
        stack_.emplace(loop_, std::move(device), config);
        loop_.attached(reactor::attachment::network) = static_cast<socket_provider*>(&*stack_);
        listen_options few;
        few.backlog = 2;
        few.fast_open = 2;
        spawn(serve(tcp_listener::bind({ipv6::any(), 7}, few))); // both families
        udp_socket datagrams = udp_socket::bind({ipv6::any(), 7});
        datagrams.join(group_v6);
        spawn(serve_datagrams(std::move(datagrams)));
    }
    ~player() {
        reactor::scope here(loop_);
        loop_.root_group().destroy_all();
        stack_.reset();
    }

    void play() {
        reactor::scope here(loop_);
        rest();
        while (!in_.done()) {
            step();
            rest();
        }
        pass(10s);
    }

private:
    void step() {
        const std::uint8_t what = in_.byte();
        switch (what & 7) {
        case 0: cable_->put(raw_frame(in_, heard_)); break;
        case 1: cable_->put(arp_frame(in_, heard_)); break;
        case 2: cable_->put(ipv4_frame(in_, heard_)); break;
        case 3: cable_->put(ipv6_frame(in_, heard_)); break;
        case 6: pass(1us * (1u << in_.byte() % 30)); break;
        case 7:
            if (what & 64) spawn(call({peer_v6, 80}, in_.word() % 20'000u));
            else spawn(call({what & 32 ? ipv4(192, 0, 2, 1) : peer_v4, 80}, in_.word() % 20'000u));
            break;
        default: cable_->put(tcp_frame(in_, heard_));
        }
    }

    void pass(duration time) {
        const time_point until = clock_.time + time;
        for (int rounds = 0; loop_.timers().next_expiry() <= until; ++rounds) {
            CW_ASSERT(rounds < 20'000, "timers do not come to rest");
            clock_.time = std::max(clock_.time, loop_.timers().next_expiry());
            rest();
        }
        clock_.time = until;
        rest();
    }

    void rest() {
        heard_.frames = 0;
        for (int turns = 0; loop_.poll_once(); ++turns) CW_ASSERT(turns < 1000 && heard_.frames < 1000, "the stack does not come to rest");
        stack_->check_invariants();
    }

    decisions in_;
    heard heard_;
    still_clock clock_;
    reactor loop_{{.clock = &clock_}};
    cable* cable_ = nullptr;
    std::optional<network_stack> stack_;
};

inline void frames(byte_span input) {
    static frame_pool pool(512); // one for all: none may keep a frame
    {
        player p(input, pool);
        p.play();
    }
    CW_ASSERT(pool.free_count == pool.count(), "a stack keeps frames");
}

} // namespace stack_fuzz
