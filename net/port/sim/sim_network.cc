#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/reactor/log/shard_log.hh>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>

namespace corewire {

namespace {
constexpr log_event<std::uint32_t> out_of_frames{
    "sim", "out_of_frames", log_level::warn,
    "the simulated network loses packets that its cables would not lose: more than {} are on their way or in rings (sim_options::frames)"};
} // namespace

void sim_link::configure(const sim_link_options& options) {
    check(options);
    for (auto& lane : lanes_) lane.options = options;
}

void sim_link::configure(direction d, const sim_link_options& options) {
    check(options);
    lane(d).options = options;
}

void sim_link::check(const sim_link_options& o) const {
    if (o.latency < duration{} || o.reorder_delay < duration{})
        throw std::invalid_argument("a simulated cable: a packet cannot arrive before it is sent");
    for (const double p : {o.loss, o.duplicate, o.corrupt, o.reorder, o.mark})
        if (!(p >= 0 && p <= 1)) throw std::invalid_argument("a simulated cable: a probability is from 0 to 1, not " + std::to_string(p));
    if (between_switches_ && o.latency == duration{})
        throw std::invalid_argument("a cable between two switches takes time: without, a packet may go in a circle for ever");
}

/// Of what has been sent, the part that is not yet on the cable.
double sim_link::one_way::unsent_bytes(time_point now) {
    for (; !queue.empty() && queue.front().end <= now; queue.pop_front()) queued_bytes -= queue.front().size;
    if (queue.empty()) return 0;
    const waiting& first = queue.front();
    if (first.begin >= now) return static_cast<double>(queued_bytes);
    const double gone = static_cast<double>((now - first.begin).count()) / static_cast<double>((first.end - first.begin).count());
    return static_cast<double>(queued_bytes) - gone * first.size;
}

void sim_link::cut(bool is_cut) {
    for (auto& lane : lanes_) lane.is_cut = is_cut;
}

sim_network::sim_network(sim_network_options options) : seed_(options.seed), frames_(options.frames, options.frame_size) {
    events_.reserve(options.frames);
}

sim_network::~sim_network() {
    for (sim_port* p : ports_) p->network_gone();
}

std::unique_ptr<sim_port> sim_network::make_port(mac_address mac, const sim_port_options& options) {
    const std::uint32_t largest = options.mtu + wire::ethernet_header::size + 4; // with a VLAN tag
    if (largest > frames_.frame_size())
        throw std::invalid_argument("a simulated NIC with an MTU of " + std::to_string(options.mtu) + " needs a frame_size of " +
                                    std::to_string(largest) + " bytes at least, not " + std::to_string(frames_.frame_size()));
    std::unique_ptr<sim_port> p(new sim_port(*this, mac, options));
    ports_.push_back(p.get());
    return p;
}

sim_switch& sim_network::make_switch() {
    switches_.push_back(std::make_unique<sim_switch>(*this));
    return *switches_.back();
}

sim_link& sim_network::join(sim_endpoint& a, sim_endpoint& b, const sim_link_options& options, bool switches) {
    CW_ASSERT(a.out_ == nullptr && b.out_ == nullptr, "an end of a cable is plugged in once");
    auto made = std::make_unique<sim_link>();
    sim_link& link = *made;
    link.between_switches_ = switches;
    link.configure(options);
    links_.push_back(std::move(made));
    for (std::size_t i = 0; i < 2; ++i) link.lanes_[i].random = random_generator(seed_ * 1'000'003 + links_.size() * 2 + i);
    link.lanes_[0].to = &b;
    link.lanes_[1].to = &a;
    a.out_ = &link.lanes_[0];
    b.out_ = &link.lanes_[1];
    return link;
}

sim_link& sim_network::connect(sim_port& a, sim_port& b, const sim_link_options& options) { return join(a, b, options); }

bool sim_network::later(const event& a, const event& b) noexcept {
    return a.at != b.at ? a.at > b.at : a.order > b.order;
}

frame* sim_network::copy(byte_span head, byte_span body) noexcept {
    if (head.size() + body.size() > frames_.frame_size()) return nullptr;
    frame* f = frames_.allocate();
    if (f == nullptr) return nullptr;
    std::memcpy(f->bytes, head.data(), head.size());
    if (!body.empty()) std::memcpy(f->bytes + head.size(), body.data(), body.size());
    return f;
}

/// When its last bit will be on the cable.
time_point sim_network::enqueue(sim_link::one_way& lane, std::uint32_t size) {
    const std::uint64_t rate = lane.options.bits_per_second;
    const duration takes(rate == 0 ? 0 : std::uint64_t{size} * 8 * 1'000'000'000 / rate);
    const time_point begin = std::max(lane.busy_until, now_);
    lane.busy_until = begin + takes;
    lane.queue.push_back({begin, lane.busy_until, size});
    lane.queued_bytes += size;
    return lane.busy_until;
}

void sim_network::send(sim_link::one_way& lane, frame& f, std::uint32_t size) {
    const sim_link_options& o = lane.options;
    const std::uint64_t number = lane.counts.sent++;
    std::uint64_t* dropped = nullptr;
    if (lane.is_cut) dropped = &lane.counts.partitioned;
    else if (lane.drop_if && lane.drop_if(byte_span{f.bytes, size}, number)) dropped = &lane.counts.filtered;
    else if (o.loss > 0 && lane.random.chance(o.loss)) dropped = &lane.counts.lost;
    time_point sent = now_;
    if (dropped == nullptr && (o.bits_per_second != 0 || lane.busy_until > now_)) {
        const double unsent = lane.unsent_bytes(now_);
        if (lane.busy_until > now_ && unsent + size > static_cast<double>(o.queue_bytes)) dropped = &lane.counts.queue_full;
        else sent = enqueue(lane, size);
    }
    if (dropped != nullptr) {
        ++*dropped;
        release(f);
        return;
    }
    if (o.duplicate > 0 && lane.random.chance(o.duplicate)) {
        ++lane.counts.duplicated;
        if (frame* second = copy({f.bytes, size}, {})) schedule(lane, *second, size, sent);
        else no_frame(lane);
    }
    schedule(lane, f, size, sent);
}

void sim_network::forget_filters() noexcept {
    for (auto& link : links_)
        for (sim_link::one_way& lane : link->lanes_) lane.drop_if = {};
}

void sim_network::schedule(sim_link::one_way& lane, frame& f, std::uint32_t size, time_point sent) {
    const sim_link_options& o = lane.options;
    time_point at = sent + o.latency;
    if (o.mark > 0 && lane.random.chance(o.mark)) mark(lane, f, size);
    if (o.corrupt > 0 && lane.random.chance(o.corrupt) && !damage(lane, f, size)) {
        ++lane.counts.lost;
        release(f);
        return;
    }
    if (o.reorder > 0 && lane.random.chance(o.reorder)) {
        ++lane.counts.reordered;
        at += duration(static_cast<std::int64_t>(lane.random.below(static_cast<std::uint64_t>(o.reorder_delay.count()) + 1)));
    } else {
        at = lane.last_arrival = std::max(at, lane.last_arrival); // nor does it overtake when the latency becomes less
    }
    events_.push_back({at, sent_++, &f, size, &lane});
    std::push_heap(events_.begin(), events_.end(), later);
}

namespace {

/// What follows the Ethernet header, and where: behind a tag, if there is one.
struct ethernet_payload {
    ethernet_payload(const frame& f, std::uint32_t size) {
        if (size < offset) return;
        type = load_be16(f.bytes + offset - 2);
        if (type != static_cast<std::uint16_t>(wire::ether_type::vlan) || size < offset + 4) return;
        offset += 4;
        type = load_be16(f.bytes + offset - 2);
    }
    std::uint32_t offset = wire::ethernet_header::size;
    std::uint16_t type = 0;
};

} // namespace

/// The FCS finds what happens on the cable: this is a bit that falls behind it, and protocols have checksums of their own against that.
/// ARP has none; there the frame counts as lost, and false is returned.
bool sim_network::damage(sim_link::one_way& lane, frame& f, std::uint32_t size) {
    const ethernet_payload inside(f, size);
    if (size <= inside.offset || inside.type == static_cast<std::uint16_t>(wire::ether_type::arp)) return false;
    ++lane.counts.corrupted;
    const std::uint64_t bit = lane.random.below(std::uint64_t{size - inside.offset} * 8);
    f.bytes[inside.offset + bit / 8] ^= std::byte{1} << static_cast<unsigned>(bit % 8);
    return true;
}

void sim_network::mark(sim_link::one_way& lane, frame& f, std::uint32_t size) {
    const ethernet_payload inside(f, size);
    const bool six = inside.type == static_cast<std::uint16_t>(wire::ether_type::ipv6);
    if (!six && inside.type != static_cast<std::uint16_t>(wire::ether_type::ipv4)) return;
    if (size < inside.offset + wire::ipv4_header::min_size) return;
    std::byte* const ip = f.bytes + inside.offset;
    const std::uint16_t before = load_be16(ip);
    const std::uint16_t ce = 3u << (six ? 4 : 0); // the traffic class ends in the middle of the second byte
    if ((before & ce) == 0 || (before & ce) == ce) return; // not ECN-capable, or marked already
    ++lane.counts.marked;
    store_be16(ip, before | ce);
    if (!six) store_be16(ip + 10, wire::update_checksum(load_be16(ip + 10), before, before | ce));
}

void sim_network::no_frame(sim_link::one_way& lane) noexcept {
    ++lane.counts.network_full;
    if (no_frames_++ == 0) log_message(out_of_frames, frames_.count());
}

void sim_network::remember(const event& e) noexcept {
    const auto mix = [this](std::uint64_t word) { digest_ = (std::rotl(digest_, 5) ^ word) * 0x9e3779b97f4a7c15ull; };
    mix(static_cast<std::uint64_t>(to_ns(e.at)));
    mix(e.order << 16 ^ e.size);
    for (std::uint32_t i = 0; i < e.size; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, e.what->bytes + i, std::min(8u, e.size - i));
        mix(word);
    }
}

void sim_network::advance_to(time_point t) {
    CW_ASSERT(t >= now_, "virtual time does not go back");
    while (!events_.empty() && events_.front().at <= t) {
        std::pop_heap(events_.begin(), events_.end(), later);
        const event e = events_.back();
        events_.pop_back();
        now_ = e.at;
        if (e.lane->to == nullptr) { // the host has gone
            release(*e.what);
            continue;
        }
        ++e.lane->counts.delivered;
        remember(e);
        e.lane->to->deliver(*e.what, e.size);
    }
    now_ = t;
}

} // namespace corewire
