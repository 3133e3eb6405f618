#include <corewire/net/port/sim/sim_network.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>

#include <algorithm>
#include <bit>
#include <cstring>

namespace corewire {

void sim_link::configure(const sim_link_options& options) {
    for (auto& lane : lanes_) lane.options = options;
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
    std::unique_ptr<sim_port> p(new sim_port(*this, mac, options));
    ports_.push_back(p.get());
    return p;
}

sim_switch& sim_network::make_switch() {
    switches_.push_back(std::make_unique<sim_switch>(*this));
    return *switches_.back();
}

sim_link& sim_network::join(sim_endpoint& a, sim_endpoint& b, const sim_link_options& options) {
    CW_ASSERT(a.out_ == nullptr && b.out_ == nullptr, "an end of a cable is plugged in once");
    links_.push_back(std::make_unique<sim_link>());
    sim_link& link = *links_.back();
    link.configure(options);
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

void sim_network::send(sim_link::one_way& lane, frame& f, std::uint32_t size) {
    const sim_link_options& o = lane.options;
    const std::uint64_t number = lane.counts.sent++;
    std::uint64_t* dropped = nullptr;
    if (lane.is_cut) dropped = &lane.counts.partitioned;
    else if (lane.drop_if && lane.drop_if(byte_span{f.bytes, size}, number)) dropped = &lane.counts.filtered;
    else if (o.loss > 0 && lane.random.chance(o.loss)) dropped = &lane.counts.lost;
    time_point sent = now_;
    if (dropped == nullptr && o.bits_per_second != 0) {
        const auto wait = std::max(lane.busy_until, now_) - now_;
        const double waiting_bytes = static_cast<double>(wait.count()) * static_cast<double>(o.bits_per_second) / 8e9;
        if (waiting_bytes + size > static_cast<double>(o.queue_bytes)) dropped = &lane.counts.queue_full;
        else sent = lane.busy_until = now_ + wait + duration(std::uint64_t{size} * 8 * 1'000'000'000 / o.bits_per_second);
    }
    if (dropped != nullptr) {
        ++*dropped;
        release(f);
        return;
    }
    if (o.duplicate > 0 && lane.random.chance(o.duplicate)) {
        ++lane.counts.duplicated;
        if (frame* second = copy({f.bytes, size}, {})) schedule(lane, *second, size, sent);
        else ++lane.counts.network_full;
    }
    schedule(lane, f, size, sent);
}

void sim_network::schedule(sim_link::one_way& lane, frame& f, std::uint32_t size, time_point sent) {
    const sim_link_options& o = lane.options;
    time_point at = sent + o.latency;
    if (o.mark > 0 && lane.random.chance(o.mark)) mark(lane, f, size);
    if (o.corrupt > 0 && lane.random.chance(o.corrupt)) damage(lane, f, size);
    if (o.reorder > 0 && lane.random.chance(o.reorder)) {
        ++lane.counts.reordered;
        at += duration(static_cast<std::int64_t>(lane.random.below(static_cast<std::uint64_t>(o.reorder_delay.count()) + 1)));
    }
    events_.push_back({at, sent_++, &f, size, &lane});
    std::push_heap(events_.begin(), events_.end(), later);
}

void sim_network::damage(sim_link::one_way& lane, frame& f, std::uint32_t size) {
    ++lane.counts.corrupted;
    const std::uint64_t bit = lane.random.below(std::uint64_t{size} * 8);
    f.bytes[bit / 8] ^= std::byte{1} << static_cast<unsigned>(bit % 8);
}

void sim_network::mark(sim_link::one_way& lane, frame& f, std::uint32_t size) {
    std::byte* const ip = f.bytes + wire::ethernet_header::size;
    if (size < wire::ethernet_header::size + wire::ipv4_header::min_size) return;
    const std::uint16_t before = load_be16(ip);
    const unsigned version = before >> 12, shift = version == 6 ? 4 : 0; // the traffic class ends in the middle of the second byte
    const std::uint16_t ce = 3u << shift;
    if ((version != 4 && version != 6) || (before & ce) == 0 || (before & ce) == ce) return; // not ECN-capable, or marked already
    ++lane.counts.marked;
    store_be16(ip, before | ce);
    if (version == 4) store_be16(ip + 10, wire::update_checksum(load_be16(ip + 10), before, before | ce));
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
