// A DHCP server that says what a test tells it to, and a client at the other end of a line on a virtual clock.
#pragma once

#include <corewire/net/dhcp/dhcp_client.hh>
#include <corewire/net/wire/arp.hh>

#include "pass_time.hh"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <vector>

namespace corewire::dhcp_test {

using bytes = std::vector<std::byte>;
using namespace std::chrono_literals;

inline constexpr mac_address our_mac{0x02'00'00'00'00'07};
inline constexpr ipv4 server_address{192, 0, 2, 1};
inline constexpr ipv4 given{192, 0, 2, 50};

struct option {
    std::uint8_t code;
    bytes data;
};
inline option one(std::uint8_t code, std::uint8_t value) { return {code, {std::byte{value}}}; }
inline option word(std::uint8_t code, std::uint32_t value) {
    option o{code, bytes(4)};
    store_be32(o.data.data(), value);
    return o;
}
inline option half(std::uint8_t code, std::uint16_t value) {
    option o{code, bytes(2)};
    store_be16(o.data.data(), value);
    return o;
}
inline option raw(std::uint8_t code, std::initializer_list<unsigned> values) {
    option o{code, {}};
    for (const unsigned v : values) o.data.push_back(static_cast<std::byte>(v));
    return o;
}
inline option address(std::uint8_t code, ipv4 a) { return word(code, a.value()); }

inline void append(bytes& to, const std::vector<option>& options, bool end = true) {
    for (const option& o : options) {
        to.push_back(std::byte{o.code});
        to.push_back(static_cast<std::byte>(o.data.size()));
        to.insert(to.end(), o.data.begin(), o.data.end());
    }
    if (end) to.push_back(std::byte{255});
}

/// A reply with these options behind its type.
inline bytes reply(dhcp_message_type type, std::uint32_t transaction, ipv4 yours, std::vector<option> options, mac_address to = our_mac) {
    bytes m(240);
    m[0] = std::byte{2};
    m[1] = std::byte{1};
    m[2] = std::byte{6};
    store_be32(m.data() + 4, transaction);
    yours.store(m.data() + 16);
    to.store(m.data() + 28);
    store_be32(m.data() + 236, 0x63825363);
    options.insert(options.begin(), one(53, static_cast<std::uint8_t>(type)));
    append(m, options);
    return m;
}

/// What the client has said, read as a server reads it.
struct heard {
    dhcp_outgoing how;
    time_point at;
    dhcp_message_type type = dhcp_message_type::none;
    std::uint32_t transaction = 0;
    std::uint16_t seconds = 0;
    bool broadcast = false;
    ipv4 client;
    std::vector<option> options;
    const option* find(std::uint8_t code) const {
        for (const option& o : options)
            if (o.code == code) return &o;
        return nullptr;
    }
    ipv4 address(std::uint8_t code) const {
        const option* o = find(code);
        return o == nullptr ? ipv4::any() : ipv4::load(o->data.data());
    }
};

inline heard read(const dhcp_outgoing& out, time_point at) {
    heard h{.how = out, .at = at};
    const std::byte* m = out.bytes.data();
    BOOST_TEST(out.size >= 300u); // RFC 1542 2.1
    BOOST_TEST(load_u8(m) == 1u);
    BOOST_TEST((mac_address::load(m + 28) == our_mac));
    h.transaction = load_be32(m + 4);
    h.seconds = load_be16(m + 8);
    h.broadcast = load_be16(m + 10) == 0x8000;
    h.client = ipv4::load(m + 12);
    for (std::size_t at_ = 240; at_ < out.size && m[at_] != std::byte{255};) {
        const std::size_t size = load_u8(m + at_ + 1);
        h.options.push_back({load_u8(m + at_), bytes(m + at_ + 2, m + at_ + 2 + size)});
        at_ += 2 + size;
    }
    h.type = static_cast<dhcp_message_type>(h.find(53)->data[0]);
    return h;
}

struct line {
    explicit line(dhcp_options options = {.start_delay = duration{0}}, std::uint64_t seed = 11) : client(our_mac, options, seed) {}
    dhcp_client client;
    time_point now = from_ns(1'000'000'000'000);
    std::vector<heard> said;
    std::vector<time_point> probes;

    void drain() {
        client.check_invariants();
        for (dhcp_outgoing out; client.poll_transmit(out);) said.push_back(read(out, now));
        for (ipv4 target; client.poll_probe(target);) probes.push_back(now);
    }
    void start(std::optional<ipv4> remembered = std::nullopt) {
        client.start(now, remembered);
        drain();
    }
    void pass(duration time) { dhcp_test::pass(*this, time); }
    void hear(const bytes& message) {
        client.input(now, message);
        drain();
    }
    void arp(const wire::arp_packet& packet) {
        client.on_arp(now, packet);
        drain();
    }
    const heard& last() const {
        BOOST_REQUIRE(!said.empty());
        return said.back();
    }
    std::vector<option> offer_options(std::uint32_t lease = 3600) const {
        return {address(54, server_address), address(1, ipv4(255, 255, 255, 0)), word(51, lease), address(3, server_address)};
    }
    void answer(dhcp_message_type type, ipv4 yours = given, std::uint32_t lease = 3600) {
        hear(reply(type, last().transaction, yours, offer_options(lease)));
    }
    /// From nothing to a lease.
    void acquire(std::uint32_t lease = 3600) {
        start();
        pass(1ms);
        answer(dhcp_message_type::offer);
        answer(dhcp_message_type::ack, given, lease);
        pass(1s);
        BOOST_REQUIRE(client.lease() != nullptr);
    }
};

} // namespace corewire::dhcp_test
