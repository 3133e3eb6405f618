// A whole stack behind a port, driven by a string of bytes: frames of every kind with the sums and lengths that let them in, time, and
// applications that answer. What the parsers' targets do not reach: reassembly, neighbours of both families, router advertisements,
// groups, ICMP about flows, SYN cookies, Fast Open, DHCP, VLANs, what belongs to another shard, frames that are scarce for a while, Linux's
// and FreeBSD's habits. And the flow that an ICMP error quotes, for itself.
//
// What must hold: check_invariants() after each step; what leaves has right lengths and sums, and fits the link; each step comes to rest,
// after a bounded number of frames; when all is over no frame is missing.
#pragma once

#include <corewire/net/link/address_claim.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/stack/quoted_flow.hh>
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

/// We are one of three shards. What belongs to the others is gone, but for every second frame, which comes back as if one of them had found
/// it to be ours.
class three_shards final : public flow_steering {
public:
    explicit three_shards(unsigned self) noexcept : self_(self) {}
    unsigned owner(const flow_key& key) const noexcept override {
        return (key.remote_address + key.local_address + key.remote_port + key.local_port) % 3;
    }
    unsigned owner(const flow_name& flow) const noexcept override {
        if (flow.is_v4()) return owner(flow.key());
        return (flow.remote.v6().octets()[15] + flow.local.v6().octets()[15] + flow.remote_port + flow.local_port) % 3u;
    }
    unsigned self() const noexcept override { return self_; }
    bool hand_over(unsigned shard, packet&& frame) noexcept override {
        CW_ASSERT(shard < 3 && shard != self_, "a frame is handed over to nobody");
        CW_ASSERT(frame.size() >= wire::ethernet_header::size, "less than a frame is handed over");
        packet one = std::move(frame);
        if (++handed_ % 2 != 0 || back_.size() == 8) return false;
        back_.push_back(std::move(one));
        return true;
    }
    void share_with_all(const packet& frame) noexcept override {
        CW_ASSERT(frame.size() >= wire::ethernet_header::size, "less than a frame is shared");
    }
    bool poll(time_point now, network_stack& stack) override {
        std::vector<packet> all = std::exchange(back_, {});
        for (packet& p : all) stack.take_over(now, p);
        return !all.empty();
    }
    bool prepare_sleep() noexcept override { return back_.empty(); }
    void finish_sleep() noexcept override {}
    void watch(sleeper&) const override {}

private:
    unsigned self_, handed_ = 0;
    std::vector<packet> back_;
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
    player(byte_span input, frame_pool& pool) : in_(input), pool_(pool) {
        const std::uint8_t how = in_.byte();
        stack_config config;
        config.seed = 1;
        config.max_connections = 16;
        config.neighbors.max_entries = 64;
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
        if ((how & 48) == 48) config.tcp.habits = how & 64 ? tcp::personality::freebsd : tcp::personality::linux_;
        heard_.vlan = config.vlan;
        auto device = std::make_unique<cable>(pool, heard_, config.vlan != 0);
        cable_ = device.get();
        reactor::scope here(loop_);
        stack_.emplace(loop_, std::move(device), config);
        if (how & 128) stack_->set_steering(std::make_unique<three_shards>(how >> 5 & 1));
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
        case 6:
            if (what >= 0xe0) take_frames(in_.byte() % 64u);
            else pass(1us * (1u << in_.byte() % 30));
            break;
        case 7:
            if (what & 64) spawn(call({peer_v6, 80}, in_.word() % 20'000u));
            else spawn(call({what & 32 ? ipv4(192, 0, 2, 1) : peer_v4, 80}, in_.word() % 20'000u));
            break;
        default: cable_->put(tcp_frame(in_, heard_));
        }
    }

    /// All but so many are somebody else's; from 32 on nobody takes any. Until the next time, or until much of it has passed: whoever waits
    /// for frames looks every few milliseconds.
    void take_frames(std::uint32_t but) {
        taken_.clear();
        while (but < 32 && pool_.free_count > but) taken_.push_back(pool_.allocate_buffer());
    }

    void pass(duration time) {
        if (time > 1s) taken_.clear();
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
    frame_pool& pool_;
    heard heard_;
    still_clock clock_;
    std::vector<buffer> taken_;
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

/// A datagram of either family: which flow of ours the ICMP error in it speaks of.
inline void quoted(byte_span bytes) {
    icmp_report six;
    if (quoted_ipv6_flow(bytes, six)) {
        CW_ASSERT(six.protocol == wire::ip_protocol::tcp || six.protocol == wire::ip_protocol::udp, "a flow of no transport");
        CW_ASSERT(bytes.size() >= 8 + 40 + 8 && six.local == wire::net_address(ipv6::load(bytes.data() + 8 + 8)) &&
                      six.remote == wire::net_address(ipv6::load(bytes.data() + 8 + 24)),
                  "addresses that the quote does not have");
    }
    wire::ipv4_view ip;
    if (wire::ipv4_view::parse(bytes, ip) != wire::parse_error::none) return;
    const auto about = quoted_flow(ip);
    if (!about) return;
    const flow_key* const flow = &about->flow;
    const byte_span quote = ip.payload().subspan(8);
    const std::size_t header = (std::to_integer<std::size_t>(quote[0]) & 15) * 4;
    CW_ASSERT(ip.protocol() == wire::ip_protocol::icmp && quote.size() >= header + 8, "a quote that is not there");
    CW_ASSERT(flow->local_address == load_be32(quote.data() + 12) && flow->remote_address == load_be32(quote.data() + 16) &&
                  flow->local_port == load_be16(quote.data() + header) && flow->remote_port == load_be16(quote.data() + header + 2),
              "a flow that the quote does not name");
}

} // namespace stack_fuzz
