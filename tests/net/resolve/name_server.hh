// A name server for tests: answers on port 53 of a simulated host as the test says, by UDP and TCP.
#pragma once

#include <corewire/net/resolve/dns_message.hh>
#include <corewire/net/resolve/resolver_config.hh>
#include <corewire/net/sim/simulation.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/spawn.hh>

#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace corewire::test {

struct dns_reply {
    unsigned code = 0; ///< RCODE
    std::vector<ip_address> addresses{};
    std::uint32_t ttl = 300;                      ///< seconds
    std::optional<std::uint32_t> negative_ttl{};  ///< an SOA with this MINIMUM
    bool silent = false, truncated = false;
    bool header_alone = false;                    ///< without the question
    bool referral = false;                        ///< of a server that asks nobody: to others (RFC 1034 4.3.1)
    duration delay{0};
};

/// The name that a question asks for. Asserts nothing: for questions of ours.
inline std::string name_in(byte_span message) {
    std::string name;
    for (std::size_t at = 12; at < message.size() && message[at] != std::byte{0};) {
        const auto length = std::to_integer<std::size_t>(message[at]);
        if (!name.empty()) name += '.';
        name.append(reinterpret_cast<const char*>(message.data()) + at + 1, length);
        at += 1 + length;
    }
    return name;
}

inline std::size_t question_size(byte_span message) { return name_in(message).size() + 2 + 4; }

inline void put16(std::vector<std::byte>& to, unsigned v) {
    to.push_back(static_cast<std::byte>(v >> 8));
    to.push_back(static_cast<std::byte>(v));
}
inline void put32(std::vector<std::byte>& to, std::uint32_t v) {
    put16(to, v >> 16);
    put16(to, v & 0xffff);
}

/// The message that answers `question`.
inline std::vector<std::byte> dns_message_of(byte_span question, const dns_reply& r) {
    std::vector<std::byte> out(question.begin(), question.begin() + 2);
    put16(out, (r.referral ? 0x8100u : 0x8180u) | (r.truncated ? 0x0200u : 0u) | r.code);
    put16(out, r.header_alone ? 0 : 1);
    put16(out, r.truncated ? 0 : static_cast<unsigned>(r.addresses.size()));
    put16(out, r.negative_ttl || r.referral ? 1 : 0);
    put16(out, 0);
    if (r.header_alone) return out;
    const byte_span asked = question.subspan(12, question_size(question));
    out.insert(out.end(), asked.begin(), asked.end());
    if (r.truncated) return out;
    for (const ip_address& a : r.addresses) {
        const bool v4 = std::holds_alternative<ipv4>(a);
        put16(out, 0xc00c); // the question's name
        put16(out, v4 ? 1 : 28);
        put16(out, 1);
        put32(out, r.ttl);
        put16(out, v4 ? 4 : 16);
        std::array<std::byte, 16> bytes{};
        if (v4) std::get<ipv4>(a).store(bytes.data());
        else std::get<ipv6>(a).store(bytes.data());
        out.insert(out.end(), bytes.begin(), bytes.begin() + (v4 ? 4 : 16));
    }
    if (r.referral) {
        put16(out, 0xc00c);
        put16(out, 2);
        put16(out, 1);
        put32(out, 3600);
        put16(out, 2);
        put16(out, 0xc00c);
    }
    if (r.negative_ttl) {
        put16(out, 0xc00c);
        put16(out, 6);
        put16(out, 1);
        put32(out, 3600);
        put16(out, 2 + 2 + 20);
        put16(out, 0xc00c);
        put16(out, 0xc00c);
        for (int i = 0; i < 4; ++i) put32(out, 1);
        put32(out, *r.negative_ttl);
    }
    return out;
}

class name_server {
public:
    using question = std::pair<std::string, dns_type>;

    explicit name_server(sim_host& on) : host_(on) {
        on.spawn([this] { return datagrams(); });
        on.spawn([this] { return streams(); });
    }
    socket_address address() const { return {host_.address(), 53}; }

    /// What is said by UDP, and by TCP if that is something else. Names that are not here do not exist.
    std::map<question, dns_reply> zone, zone_by_tcp;
    /// Before what the zone says goes out, by UDP.
    std::function<std::vector<std::vector<std::byte>>(byte_span question)> also_send;
    /// What a server says to a question with EDNS that has never heard of it.
    std::optional<dns_reply> to_edns;
    unsigned asked = 0;
    std::vector<question> seen;
    /// Of each question by UDP its number, and the port that it came from.
    std::vector<std::uint16_t> numbers, ports;

private:
    dns_reply reply_to(byte_span q, const std::map<question, dns_reply>& from) {
        ++asked;
        const question what{name_in(q), static_cast<dns_type>(load_be16(q.data() + 12 + question_size(q) - 4))};
        seen.push_back(what);
        if (to_edns && load_be16(q.data() + 10) != 0) return *to_edns; // an OPT record
        const auto found = from.find(what);
        return found != from.end() ? found->second : dns_reply{.code = 3};
    }
    task<> answer(udp_socket& socket, std::vector<std::byte> q, socket_address to) {
        if (also_send)
            for (const std::vector<std::byte>& each : also_send(q)) co_await socket.send_to(byte_span(each), to);
        const dns_reply r = reply_to(q, zone);
        if (r.silent) co_return;
        if (r.delay > duration{0}) co_await sleep_for(r.delay);
        const std::vector<std::byte> message = dns_message_of(q, r);
        co_await socket.send_to(byte_span(message), to);
    }
    task<> datagrams() {
        auto socket = udp_socket::bind({ipv4::any(), 53});
        for (;;) {
            const datagram d = co_await socket.receive_from();
            std::vector<std::byte> q(d.data.bytes().begin(), d.data.bytes().end());
            numbers.push_back(load_be16(q.data()));
            ports.push_back(d.from.port);
            spawn(answer(socket, std::move(q), d.from));
        }
    }
    task<> streams() {
        auto listener = tcp_listener::bind({ipv4::any(), 53});
        for (;;) {
            tcp_stream peer = co_await listener.accept();
            std::array<std::byte, 2> length{};
            if (const std::size_t n = co_await peer.read_exactly(length); n != 2) continue;
            std::vector<std::byte> q(load_be16(length.data()));
            if (const std::size_t n = co_await peer.read_exactly(q); n != q.size()) continue;
            const dns_reply r = reply_to(q, zone_by_tcp);
            if (r.silent) continue;
            const std::vector<std::byte> message = dns_message_of(q, r);
            std::vector<std::byte> out;
            put16(out, static_cast<unsigned>(message.size()));
            out.insert(out.end(), message.begin(), message.end());
            co_await peer.write(byte_span(out));
            co_await peer.close();
        }
    }
    sim_host& host_;
};

/// A client, its name server and a second one, each with a resolver's view of them.
struct name_world {
    name_world()
        : sw(world.add_switch()), client(world.add_host("client")), first_host(world.add_host("ns1")), second_host(world.add_host("ns2")),
          first(first_host), second(second_host) {
        for (sim_host* h : {&client, &first_host, &second_host}) world.connect(*h, sw, {.latency = std::chrono::milliseconds{1}});
        config.servers = {first.address(), second.address()};
    }
    simulation world{{.seed = 7}};
    sim_switch& sw;
    sim_host &client, &first_host, &second_host;
    name_server first, second;
    resolver_config config;
};

} // namespace corewire::test
