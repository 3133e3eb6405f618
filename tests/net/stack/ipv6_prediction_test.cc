// IPv6 segments that are just what was expected take the shorter way, and whatever differs in anything goes the general way, which says
// the same. One peer, played frame by frame, once against a stack with the shorter way and once against one without.
#include "ipv6_link.hh"

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/reactor/task/task_group.hh>

#include <functional>

using namespace corewire;
using namespace std::chrono_literals;
using wire::ip_protocol;
using wire::tcp_flags;

namespace {

constexpr std::size_t ip_at = 14, tcp_at = 54, options_at = 74, text_at = 86;

stack_config with_fast_path(bool on) {
    stack_config c;
    c.tcp.fast_path = on;
    return c;
}

/// A stack that echoes, and a peer with a connection to it.
struct conversation : ipv6_link {
    static constexpr std::uint32_t irs = 7'000'000;
    static constexpr std::uint16_t port = 40'000;
    const ipv6 leased = a6("2001:db8::77");

    /// `to`: the address of the stack's that the peer speaks to.
    explicit conversation(bool fast, std::optional<ipv6> to = {}) : ipv6_link(0, with_fast_path(fast)), there(to.value_or(us)) {
        loop.attached(reactor::attachment::network) = static_cast<socket_provider*>(stack.get());
        stack->ip().six()->neighbors().set_permanent(peer, end->mac());
        lease(leased);
        listener = tcp_listener::bind({ipv6::any(), 7});
        group.spawn(serve(*this));
        pass(1ms);
        heard();
        bytes syn = segment("", tcp_flags::syn);
        syn.insert(syn.end(), {std::byte{1}, std::byte{3}, std::byte{3}, std::byte{7}}); // a window scale of 7
        store_be16(syn.data() + ip_at + 4, 36);
        store_be16(syn.data() + tcp_at + 12, 0x9002);
        put(sealed(syn));
        listen();
        put(sealed(segment("")));
        listen();
    }
    ~conversation() { group.destroy_all(); }

    static task<> serve(conversation& w) {
        tcp_stream peer = co_await w.listener.accept();
        try {
            while (auto data = co_await peer.read()) {
                w.text += data.text();
                co_await peer.write(std::move(data));
            }
            w.text += "<end>";
        } catch (const std::system_error& e) {
            w.text += e.code().message();
        }
    }
    /// The only address that a DHCPv6 server has leased us.
    void lease(std::optional<ipv6> address) {
        dhcp6_lease l;
        if (address) l.addresses.push({.address = *address});
        stack->ip().six()->follow_lease(clock.now(), l);
    }

    /// The peer's next segment, an everyday one.
    bytes segment(std::string_view of, tcp_flags flags = tcp_flags::ack | tcp_flags::psh) {
        bytes f(text_at + of.size());
        wire::ethernet_header{.destination = stack->device().mac(), .source = end->mac(), .type = wire::ether_type::ipv6}.emit(f);
        wire::ipv6_header{.flow_label = 0x12345, .payload_length = static_cast<std::uint16_t>(32 + of.size()),
                          .next_header = ip_protocol::tcp, .source = peer, .destination = there}
            .emit(mutable_byte_span(f).subspan(ip_at));
        const bool syn = has(flags, tcp_flags::syn);
        wire::tcp_header{.source_port = port, .destination_port = 7, .sequence = syn ? irs : seq, .acknowledgment = syn ? 0 : ack,
                         .flags = flags, .window = 65'535}
            .emit(mutable_byte_span(f).subspan(tcp_at), 12);
        store_be32(f.data() + options_at, 0x0101080a);
        store_be32(f.data() + options_at + 4, static_cast<std::uint32_t>(clock.now().time_since_epoch() / 1ms));
        if (!of.empty()) std::memcpy(f.data() + text_at, of.data(), of.size());
        return f;
    }
    /// With the TCP checksum that it should have.
    static bytes sealed(bytes f) {
        store_be16(f.data() + tcp_at + wire::tcp_header::checksum_offset, 0);
        wire::store_tcp_checksum(mutable_byte_span(f).subspan(tcp_at), ipv6::load(f.data() + ip_at + 8), ipv6::load(f.data() + ip_at + 24));
        return f;
    }
    void put(const bytes& f) {
        packet p;
        p.head = end->pool().allocate_buffer();
        std::memcpy(p.head.append(static_cast<std::uint32_t>(f.size())), f.data(), f.size());
        end->transmit({&p, 1});
        pass(1ms);
    }
    /// What the stack has said goes into the record, and the peer acknowledges it with its next segment.
    void listen() {
        for (const bytes& packet : heard()) {
            record.push_back(packet);
            const wire::ipv6_view ip = view(packet);
            wire::tcp_view t;
            if (ip.next_header() != ip_protocol::tcp || wire::tcp_view::parse(ip.payload(), t) != wire::parse_error::none) continue;
            BOOST_TEST(t.checksum_ok(ip.source(), ip.destination()));
            const std::uint32_t flags = has(t.flags(), tcp_flags::syn | tcp_flags::fin) ? 1 : 0;
            const std::uint32_t size = static_cast<std::uint32_t>(t.payload().size()) + flags;
            if (has(t.flags(), tcp_flags::rst)) continue;
            if (size != 0) ack = t.sequence() + size;
            seq = t.acknowledgment();
        }
    }
    void say(std::string_view of) {
        put(sealed(segment(of)));
        listen();
    }
    const stack_statistics& counts() const { return stack->statistics(); }

    const ipv6 there;
    std::uint32_t seq = irs, ack = 0;
    std::string text;
    std::vector<bytes> record;
    tcp_listener listener;
    task_group group{"conversation"};
};

/// What a stack made of a play.
struct outcome {
    std::vector<ipv6_link::bytes> record;
    std::string text;
    std::uint64_t not_for_us, martian, malformed_ip, malformed_tcp, bad_tcp_checksum, extensions, fragments, segments;
    friend bool operator==(const outcome&, const outcome&) = default;
};
std::ostream& operator<<(std::ostream& out, const outcome& o) {
    out << o.record.size() << " packets, \"" << o.text << "\"";
    for (const std::uint64_t n : {o.not_for_us, o.martian, o.malformed_ip, o.malformed_tcp, o.bad_tcp_checksum, o.extensions, o.fragments,
                                  o.segments})
        out << ' ' << n;
    return out;
}

using change = std::function<void(conversation&, ipv6_link::bytes&)>;

struct deviation {
    const char* what;
    bool plain;    ///< it takes the shorter way all the same
    bool taken;    ///< its text arrives
    change make{}; ///< of a good segment with the text "dev!"
};

/// Everyday segments, the one that deviates, and everyday segments again. `plain`: how many of the odd one took the shorter way.
outcome play(bool fast, const deviation& d, std::uint64_t& plain) {
    conversation w(fast, d.what[0] == '@' ? std::optional<ipv6>(ipv6_link::a6("2001:db8::77")) : std::nullopt);
    for (const char* each : {"one ", "two ", "three ", "four "}) w.say(each);
    BOOST_TEST(w.counts().tcp_plain_in >= (fast ? 2u : 0u));
    BOOST_TEST(w.counts().tcp_plain_out >= (fast ? 2u : 0u));
    BOOST_TEST((fast || w.counts().tcp_plain_in + w.counts().tcp_plain_out == 0u));
    const std::uint64_t before = w.counts().tcp_plain_in;
    ipv6_link::bytes f = w.sealed(w.segment("dev!"));
    d.make(w, f);
    w.put(f);
    plain = w.counts().tcp_plain_in - before;
    w.listen();
    for (const char* each : {" five", " six"}) w.say(each);
    w.pass(2s); // delayed ACKs, and repetitions of what the peer has not acknowledged
    w.listen();
    const stack_statistics& s = w.counts();
    return {std::move(w.record), w.text, s.not_for_us, s.martian, s.malformed_ip, s.malformed_tcp, s.bad_tcp_checksum, s.ipv6_extensions,
            s.ipv6_fragments_refused, s.tcp_segments_in()};
}

/// Sets bits of the frame, and the checksum right.
change bits(std::size_t at, unsigned set, unsigned cleared = 0) {
    return [=](conversation&, ipv6_link::bytes& f) {
        f[at] = (f[at] & ~std::byte(cleared)) | std::byte(set);
        f = conversation::sealed(std::move(f));
    };
}
/// Puts eight bytes between IPv6 and TCP.
change header(ip_protocol kind, std::uint64_t rest) {
    return [=](conversation&, ipv6_link::bytes& f) {
        std::array<std::byte, 8> h;
        store_be64(h.data(), rest);
        f.insert(f.begin() + tcp_at, h.begin(), h.end());
        f[ip_at + 6] = std::byte(kind);
        store_be16(f.data() + ip_at + 4, static_cast<std::uint16_t>(load_be16(f.data() + ip_at + 4) + 8));
    };
}
/// Another 12 bytes of options.
change options(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    return [=](conversation&, ipv6_link::bytes& f) {
        store_be32(f.data() + options_at, a);
        store_be32(f.data() + options_at + 4, b);
        store_be32(f.data() + options_at + 8, c);
        f = conversation::sealed(std::move(f));
    };
}
change number(std::size_t at, std::int32_t by) {
    return [=](conversation&, ipv6_link::bytes& f) {
        store_be32(f.data() + at, load_be32(f.data() + at) + static_cast<std::uint32_t>(by));
        f = conversation::sealed(std::move(f));
    };
}
change address(std::size_t at, const char* to) {
    return [=](conversation&, ipv6_link::bytes& f) {
        ipv6_link::a6(to).store(f.data() + at);
        f = conversation::sealed(std::move(f));
    };
}

const deviation deviations[] = {
    {"nothing", true, true, [](conversation&, ipv6_link::bytes&) {}},
    // What IPv6 says of the way and TCP does not ask for.
    {"another flow label", true, true, bits(ip_at + 3, 0xff)},
    {"no flow label", true, true, [](conversation&, ipv6_link::bytes& f) { store_be32(f.data() + ip_at, 0x6000'0000); }},
    {"a hop limit of 1", true, true, [](conversation&, ipv6_link::bytes& f) { f[ip_at + 7] = std::byte{1}; }},
    {"differentiated service", true, true, bits(ip_at, 0x0f)},
    {"no PSH", true, true, bits(tcp_at + 13, 0, 8)},
    // What IPv6 says otherwise.
    {"ECT(0)", false, true, bits(ip_at + 1, 0x20)},
    {"ECT(1)", false, true, bits(ip_at + 1, 0x10)},
    {"congestion experienced", false, true, bits(ip_at + 1, 0x30)},
    {"version 4", false, false, bits(ip_at, 0x40, 0xf0)},
    {"hop-by-hop options", false, true, header(ip_protocol::hop_by_hop, 0x0600'0104'0000'0000)},
    {"destination options", false, true, header(ip_protocol::ipv6_destination, 0x0600'0104'0000'0000)},
    {"a fragment header of a whole packet", false, true, header(ip_protocol::ipv6_fragment, 0x0600'0000'0000'0001)},
    {"an unknown header", false, false, [](conversation&, ipv6_link::bytes& f) { f[ip_at + 6] = std::byte{253}; }},
    {"padding behind", false, true, [](conversation&, ipv6_link::bytes& f) { f.resize(f.size() + 7, std::byte{'p'}); }},
    {"less than it says", false, false, [](conversation&, ipv6_link::bytes& f) { f.resize(f.size() - 1); }},
    {"a MAC of nobody", false, false, [](conversation&, ipv6_link::bytes& f) { f[5] ^= std::byte{0x40}; }},
    {"a group's MAC", false, false, [](conversation&, ipv6_link::bytes& f) { f[0] = f[1] = std::byte{0x33}; }},
    // Addresses.
    {"from another host", false, false, address(ip_at + 8, "2001:db8::3")},
    {"to another host", false, false, address(ip_at + 24, "2001:db8::9")},
    {"from an IPv4-mapped address", false, false, address(ip_at + 8, "::ffff:10.0.0.2")},
    {"from the host itself", false, false, address(ip_at + 8, "2001:db8::1")},
    // What TCP says otherwise.
    {"a wrong checksum", false, false, [](conversation&, ipv6_link::bytes& f) { f[text_at] ^= std::byte{1}; }},
    {"a checksum of zero", false, false, [](conversation&, ipv6_link::bytes& f) { store_be16(f.data() + tcp_at + 16, 0); }},
    {"timestamps behind other padding", false, true,
     [](conversation& w, ipv6_link::bytes& f) {
         const std::uint32_t value = load_be32(f.data() + options_at + 4);
         options(0x080a'0000u | value >> 16, value << 16, 0x0000'0101)(w, f);
     }},
    {"no timestamps", false, false, options(0x01010101, 0x01010101, 0x01010101)},
    {"an old timestamp", false, false, number(options_at + 4, -1000)},
    {"an option of no length", false, false, options(0x01fd0001, 0, 0)},
    {"another data offset", false, true,
     [](conversation&, ipv6_link::bytes& f) {
         f.insert(f.begin() + text_at, 4, std::byte{1});
         store_be16(f.data() + ip_at + 4, static_cast<std::uint16_t>(load_be16(f.data() + ip_at + 4) + 4));
         f[tcp_at + 12] = std::byte{0x90};
         f = conversation::sealed(std::move(f));
     }},
    {"FIN", false, true, bits(tcp_at + 13, 1)},
    {"SYN", false, false, bits(tcp_at + 13, 2)},
    {"RST", false, false, bits(tcp_at + 13, 4)},
    {"URG", false, true, bits(tcp_at + 13, 0x20)},
    {"ECE", false, true, bits(tcp_at + 13, 0x40)},
    {"no ACK", false, false, bits(tcp_at + 13, 0, 0x10)},
    {"a later number", false, false, number(tcp_at + 4, 10)},
    {"an earlier number", false, false, number(tcp_at + 4, -4)},
    {"an ACK of what was never sent", false, false, number(tcp_at + 8, 10)},
    {"an ACK of a part of what is in flight", true, true, number(tcp_at + 8, -3)},
    {"an old ACK", false, true, number(tcp_at + 8, -8)},
    {"a window of zero", false, true,
     [](conversation&, ipv6_link::bytes& f) {
         store_be16(f.data() + tcp_at + 14, 0);
         f = conversation::sealed(std::move(f));
     }},
    // The host's addresses change while the connection stays.
    {"@to an address that is kept", true, true, [](conversation&, ipv6_link::bytes&) {}},
    {"@to an address that has gone", false, false, [](conversation& w, ipv6_link::bytes&) { w.lease({}); }},
    {"another address has gone", true, true, [](conversation& w, ipv6_link::bytes&) { w.lease({}); }},
    {"from an address that is ours now", false, false, [](conversation& w, ipv6_link::bytes&) { w.lease(w.peer); }},
};

} // namespace

BOOST_AUTO_TEST_SUITE(ipv6_prediction)

BOOST_AUTO_TEST_CASE(what_was_expected_takes_the_shorter_way_and_what_deviates_the_general_one_with_the_same_outcome) {
    for (const deviation& d : deviations) {
        BOOST_TEST_CONTEXT(d.what) {
            std::uint64_t plain = 0, none = 0;
            const outcome fast = play(true, d, plain), general = play(false, d, none);
            BOOST_TEST(fast == general);
            BOOST_TEST(plain == (d.plain ? 1u : 0u));
            BOOST_TEST(none == 0u);
            BOOST_TEST((fast.text.find("dev!") != std::string::npos) == d.taken);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
