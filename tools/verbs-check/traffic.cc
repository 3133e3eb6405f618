#include "traffic.hh"

#include <corewire/net/port/rss.hh>
#include <corewire/net/wire/checksum.hh>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>

namespace corewire::verbs_check {

namespace {

constexpr std::uint16_t experimental = 0x88b5;
constexpr std::size_t ethernet = 14, udp_header = 8, tcp_header = 20;
constexpr duration soon = std::chrono::milliseconds{300}, quiet = std::chrono::milliseconds{30};
constexpr ipv4 here(192, 0, 2, 99), other(192, 0, 2, 98), from(192, 0, 2, 97); // TEST-NET-1

net_address here6() { return *ipv6::parse("2001:db8::99"); }
net_address from6() { return *ipv6::parse("2001:db8::97"); }

void needs(bool holds, const std::string& else_what) {
    if (!holds) throw std::runtime_error(else_what);
}

std::size_t headers(bool four) { return ethernet + (four ? 20 : 40); }

wire::internet_sum pseudo_header(byte_span frame, bool four) {
    const std::byte* ip = frame.data() + ethernet;
    const auto protocol = static_cast<wire::ip_protocol>(load_u8(ip + (four ? 9 : 6)));
    const std::size_t size = frame.size() - headers(four);
    if (four) return wire::pseudo_header_sum(ipv4(load_be32(ip + 12)), ipv4(load_be32(ip + 16)), protocol, size);
    return wire::pseudo_header_sum(ipv6::load(ip + 8), ipv6::load(ip + 24), protocol, size);
}

/// Of a whole frame of TCP or UDP.
bool checksums_hold(byte_span frame) {
    const bool four = load_be16(frame.data() + 12) == 0x0800;
    if (four && !wire::checksum_ok(frame.subspan(ethernet, 20))) return false;
    return pseudo_header(frame, four).add(frame.subspan(headers(four))).verifies();
}

std::vector<std::byte> ip_frame(mac_address mac, const net_address& source, const net_address& to, std::uint8_t protocol,
                                std::size_t size) {
    const bool four = to.is_v4();
    std::vector<std::byte> f(headers(four) + size);
    mac.store(f.data());
    mac.store(f.data() + 6);
    store_be16(f.data() + 12, four ? 0x0800 : 0x86dd);
    std::byte* ip = f.data() + ethernet;
    if (four) {
        ip[0] = std::byte{0x45};
        store_be16(ip + 2, static_cast<std::uint16_t>(20 + size));
        ip[8] = std::byte{64};
        ip[9] = static_cast<std::byte>(protocol);
        source.v4().store(ip + 12);
        to.v4().store(ip + 16);
        store_be16(ip + 10, wire::internet_checksum(byte_span{ip, 20}));
    } else {
        ip[0] = std::byte{0x60};
        store_be16(ip + 4, static_cast<std::uint16_t>(size));
        ip[6] = static_cast<std::byte>(protocol);
        ip[7] = std::byte{64};
        source.v6().store(ip + 8);
        to.v6().store(ip + 24);
    }
    return f;
}

} // namespace

struct traffic::receiver {
    std::shared_ptr<verbs_device> device;
    std::vector<std::unique_ptr<verbs_port>> ports;
};

traffic::traffic(std::string device, std::uint8_t port, const verbs::verbs_api& api) : name_(std::move(device)), port_(port), api_(api) {
    verbs_device_options o{.device = name_, .port = port_, .steering = verbs_steering::flows}; // no rules of its own
    o.api = &api_;
    sending_ = std::make_shared<verbs_device>(o);
    sender_ = std::make_unique<verbs_port>(sending_, 0);
}

traffic::~traffic() = default;

traffic::receiver traffic::open(unsigned queues, std::uint16_t vlan) const {
    verbs_device_options o{.device = name_, .port = port_, .queues = queues, .vlan = vlan};
    o.api = &api_;
    receiver r{std::make_shared<verbs_device>(o), {}};
    for (unsigned i = 0; i < queues; ++i) r.ports.push_back(std::make_unique<verbs_port>(r.device, i));
    return r;
}

packet traffic::filled(byte_span frame, offload flags) {
    packet p;
    p.head = sender_->pool().allocate_buffer();
    std::memcpy(p.head.append(static_cast<std::uint32_t>(frame.size())), frame.data(), frame.size());
    p.flags = flags;
    return p;
}

bool traffic::send(packet&& p) {
    packet one = std::move(p);
    const auto failed = [this] { return sender_->verbs_statistics().failed_sends + sender_->statistics().transmit_dropped; };
    const std::uint64_t before = failed();
    if (sender_->transmit({&one, 1}) != 1) return false;
    std::array<packet, 8> none;
    const auto until = std::chrono::steady_clock::now() + soon;
    while (sender_->unsent() != 0 && std::chrono::steady_clock::now() < until) static_cast<void>(sender_->receive(none));
    return sender_->unsent() == 0 && failed() == before;
}

bool traffic::send(byte_span frame, offload flags) { return send(filled(frame, flags)); }

/// Frames that we have sent and that arrive, until there are `count`, or for as long as `patience`.
traffic::frames traffic::sent_to(receiver& to, std::size_t count, duration patience, unsigned queue, offload* flags) {
    frames all;
    const auto until = std::chrono::steady_clock::now() + patience;
    do {
        std::array<packet, 32> in;
        const std::size_t n = to.ports[queue]->receive(in);
        for (std::size_t i = 0; i < n; ++i) {
            const byte_span bytes = in[i].head.bytes();
            if (bytes.size() < ethernet || mac_address::load(bytes.data() + 6) != sender_->mac()) continue; // somebody else's
            all.emplace_back(bytes.begin(), bytes.end());
            if (flags != nullptr) *flags = in[i].flags;
        }
    } while (all.size() < count && std::chrono::steady_clock::now() < until);
    return all;
}

std::vector<std::byte> traffic::bare(std::uint32_t size) const {
    std::vector<std::byte> f(size);
    sender_->mac().store(f.data());
    sender_->mac().store(f.data() + 6);
    store_be16(f.data() + 12, experimental);
    for (std::size_t i = ethernet; i < size; ++i) f[i] = static_cast<std::byte>(i * 7);
    return f;
}

/// A datagram of 100 bytes, its checksums right.
std::vector<std::byte> traffic::datagram(const net_address& to, std::uint16_t source_port, std::uint16_t port) const {
    const bool four = to.is_v4();
    auto f = ip_frame(sender_->mac(), four ? net_address(from) : from6(), to, 17, udp_header + 100);
    std::byte* udp = f.data() + headers(four);
    store_be16(udp, source_port);
    store_be16(udp + 2, port);
    store_be16(udp + 4, udp_header + 100);
    for (std::size_t i = 0; i < 100; ++i) udp[udp_header + i] = static_cast<std::byte>(i * 3);
    store_be16(udp + 6, pseudo_header(f, four).add(byte_span(f).subspan(headers(four))).udp_checksum());
    return f;
}

std::string traffic::comes_back() {
    needs(sending_->link_up(), "the link is down: plug in a cable and try again");
    receiver to = open();
    const auto frame = bare(200);
    needs(send(frame), "the frame was not sent");
    const frames got = sent_to(to, 1, soon);
    if (got.empty())
        throw not_proved("the device hands no frame back to the host that sent it: receiving can be tried between two hosts only, or two "
                         "ports on a cable (`cw-echo --raw` and `cw-pingpong --raw`, --net=verbs)");
    needs(got[0] == frame, "what came back is not what was sent: have the driver and firmware brought up to date");
    return {};
}

std::string traffic::whole_packet() {
    receiver to = open();
    const auto frame = bare(sender_->mtu() + static_cast<std::uint32_t>(ethernet));
    needs(send(frame), "it was not sent: the device takes less than the interface's MTU (`ip link set IFNAME mtu 1500`)");
    const frames got = sent_to(to, 1, soon);
    needs(!got.empty(), "it did not arrive: the device's MTU is smaller than the interface's (`ip link set IFNAME mtu 1500`)");
    needs(got[0] == frame, "it arrived changed: have the driver and firmware brought up to date");
    return fmt::format("{} bytes", frame.size());
}

std::string traffic::wakes_a_sleeper() {
    receiver to = open();
    verbs_port& port = *to.ports[0];
    for (int i = 0; i < 8 && !port.prepare_sleep(); ++i) static_cast<void>(sent_to(to, 32, {}));
    needs(send(bare(64)), "the frame was not sent");
    pollfd wait{port.wake_fd(), POLLIN, 0};
    const int woken = ::poll(&wait, 1, 500);
    port.finish_sleep();
    needs(woken == 1, "no completion event within half a second: are the device's interrupts delivered (/proc/interrupts)? --spin-us "
                      "3600000000 does without them");
    needs(!sent_to(to, 1, soon).empty(), "it woke, and there was no frame");
    return {};
}

std::string traffic::checksums_completed() {
    needs(sender_->capabilities().transmit_checksum, "the device completes none: the stack does");
    receiver to = open();
    std::string families;
    for (const net_address& at : {net_address(here), here6()}) {
        to.device->own(at);
        auto frame = datagram(at, 7);
        store_be16(frame.data() + headers(at.is_v4()) + 6, 0);
        if (at.is_v4()) store_be16(frame.data() + ethernet + 10, 0);
        needs(send(frame, offload::l4_checksum_needed | offload::ipv4_checksum_needed), "the datagram was not sent");
        const frames got = sent_to(to, 1, soon);
        const char* const family = at.is_v4() ? "IPv4" : "IPv6";
        needs(!got.empty(), fmt::format("the datagram over {} did not arrive", family));
        needs(checksums_hold(got[0]), fmt::format("a datagram over {} left with a wrong checksum: `ethtool -K IFNAME tx off` shows whether "
                                                  "the kernel's are right", family));
        families += families.empty() ? family : std::string(" and ") + family;
    }
    return "UDP over " + families;
}

std::string traffic::checksums_judged() {
    receiver to = open();
    to.device->own(here);
    auto frame = datagram(here, 7);
    bool judged[2] = {};
    for (const bool damaged : {false, true}) {
        if (damaged) frame.back() ^= std::byte{1};
        offload flags{};
        needs(send(frame), "the datagram was not sent");
        const bool came = !sent_to(to, 1, damaged ? quiet : soon, 0, &flags).empty();
        needs(came || damaged, "the datagram did not arrive"); // a damaged one the device may drop
        judged[damaged] = came && has(flags, offload::l4_checksum_good);
    }
    needs(judged[0], "the device judges none: the stack checks them itself, which is slower and as safe");
    if (judged[1]) throw dangerous("a wrong checksum was called right: have the firmware brought up to date, and don't use this device");
    return {};
}

std::string traffic::large_segment() {
    needs(sender_->capabilities().segmentation, "the device has none: the stack cuts its segments itself");
    receiver to = open();
    to.device->own(here);
    constexpr std::uint32_t segment = 1000, payload = 2500, first_number = 1'000'000;
    auto frame = ip_frame(sender_->mac(), from, here, 6, tcp_header + payload);
    std::byte* tcp = frame.data() + headers(true);
    store_be16(tcp + 2, 9);
    store_be32(tcp + 4, first_number);
    tcp[12] = std::byte{0x50};
    tcp[13] = std::byte{0x18}; // PSH, ACK
    for (std::size_t i = 0; i < payload; ++i) tcp[tcp_header + i] = static_cast<std::byte>(i / 10);
    const std::size_t in_head = headers(true) + tcp_header + segment;
    packet p = filled(byte_span(frame).first(in_head), offload::segment | offload::l4_checksum_needed | offload::ipv4_checksum_needed);
    p.body = sender_->pool().allocate_buffer();
    std::memcpy(p.body.append(static_cast<std::uint32_t>(frame.size() - in_head)), frame.data() + in_head, frame.size() - in_head);
    p.l4_offset = static_cast<std::uint16_t>(headers(true));
    p.segment_size = segment;
    needs(send(std::move(p)), "it was not sent: have the driver brought up to date");
    const frames got = sent_to(to, 3, soon);
    needs(got.size() == 3, fmt::format("{} segments came of 3", got.size()));
    for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t at = i * segment, size = std::min<std::size_t>(segment, payload - at), begin = headers(true) + tcp_header;
        needs(got[i].size() == begin + size && load_be32(got[i].data() + headers(true) + 4) == first_number + at &&
                  std::memcmp(got[i].data() + begin, frame.data() + begin + at, size) == 0,
              "a segment has the wrong bytes or sequence number: have the firmware brought up to date");
        needs(checksums_hold(got[i]), "a segment has a wrong checksum: have the firmware brought up to date");
    }
    return fmt::format("{} bytes in 3 segments", payload);
}

std::string traffic::only_what_is_ours() {
    receiver to = open();
    to.device->own(here);
    needs(send(datagram(here, 7)) && send(datagram(other, 7)), "the datagrams were not sent");
    const frames got = sent_to(to, 2, quiet);
    needs(!got.empty(), "what is sent to an address of ours does not arrive: the device's rules do not outrank the kernel's");
    needs(got.size() == 1, "what is sent to another address arrives as well: the kernel would lose it");
    to.device->disown(here);
    needs(send(datagram(here, 7)), "the datagram was not sent");
    needs(sent_to(to, 1, quiet).empty(), "a rule that was destroyed still takes packets");
    return {};
}

std::string traffic::one_flow() {
    receiver to = open();
    const steered_flow flow{17, here, 9, from, 7}, port{17, here, 10};
    for (const steered_flow& each : {flow, port})
        if (const int error = to.device->own_flow(each); error != 0)
            throw std::system_error(error, std::generic_category(), "the device refused the rule, and --shared needs it");
    needs(send(datagram(here, 7)) && send(datagram(here, 8)) && send(datagram(here, 8, 10)), "the datagrams were not sent");
    const frames got = sent_to(to, 3, quiet);
    const auto ports = [&](std::size_t i) { return std::pair(load_be16(got[i].data() + 34), load_be16(got[i].data() + 36)); };
    needs(got.size() == 2 && ports(0) == std::pair(std::uint16_t{7}, std::uint16_t{9}) &&
              ports(1) == std::pair(std::uint16_t{8}, std::uint16_t{10}),
          fmt::format("{} datagrams came where a connection's and a port's should: leave --shared out", got.size()));
    return {};
}

std::string traffic::one_vlan() {
    constexpr std::uint16_t ours = 4001;
    receiver to = open(1, ours);
    to.device->own(here);
    const auto tagged = [&](std::uint16_t vlan) {
        auto f = datagram(here, 7);
        const std::byte tag[4] = {std::byte{0x81}, std::byte{0}, static_cast<std::byte>(vlan >> 8), static_cast<std::byte>(vlan)};
        f.insert(f.begin() + 12, tag, tag + 4);
        return f;
    };
    needs(send(tagged(ours)) && send(tagged(ours + 1)) && send(datagram(here, 7)), "the datagrams were not sent");
    const frames got = sent_to(to, 3, quiet);
    needs(!got.empty(), "no frame of the VLAN arrives: does the switch port, or the hypervisor, let it through?");
    needs(got.size() == 1, "frames of other VLANs arrive as well: leave --vlan out");
    needs(got[0] == tagged(ours), "the tag was taken off: `ethtool -K IFNAME rxvlan off`");
    return {};
}

std::string traffic::spread_by_hash() {
    receiver to = open(2);
    to.device->own(here);
    unsigned came = 0, judged = 0, right = 0, counts[2] = {};
    for (std::uint16_t port = 1; port <= 64; ++port) {
        needs(send(datagram(here, port)), "the datagrams were not sent");
        const unsigned owner = (rss::symmetric_hash(from, port, here, 9) & (to.device->slots() - 1)) % 2;
        for (const unsigned queue : {owner, 1 - owner}) {
            offload flags{};
            const bool there = !sent_to(to, 1, queue == owner ? std::chrono::milliseconds{20} : duration{}, queue, &flags).empty();
            came += there;
            right += there && queue == owner;
            judged += there && has(flags, offload::l4_checksum_good);
            counts[queue] += there;
            if (there) break;
        }
    }
    needs(came == 64, fmt::format("{} of 64 datagrams came: give --cores=1", came));
    needs(right == 64, fmt::format("{} of 64 flows came to the queue that the hash names: the others are handed over between cores, which "
                                   "is correct and slower", right));
    return fmt::format("64 flows, {} and {}, as the hash says; {}", counts[0], counts[1],
                       judged == 64 ? "their checksums judged" : "their checksums not judged: the stack checks them");
}

std::string traffic::rules_outlive_a_reset() {
    receiver to = open();
    to.device->own(here);
    const auto frame = datagram(here, 7);
    needs(send(frame) && sent_to(to, 1, soon).size() == 1, "it does not even arrive before the reset");
    to.device->pretend_failure();
    static_cast<void>(sent_to(to, 1, quiet));
    needs(to.ports[0]->usable() && to.ports[0]->verbs_statistics().restarts == 1, "the walk through RESET failed");
    needs(send(frame) && sent_to(to, 1, soon).size() == 1,
          "the device forgets its flow rules with RESET: after an error the port hears nothing, until the program is started again");
    return "";
}

} // namespace corewire::verbs_check
