#include <corewire/net/sim/simulation.hh>

#include <algorithm>
#include <fmt/format.h>

namespace corewire {

namespace {
/// The world's randomness is its own: other numbers than the cables' generators draw.
constexpr std::uint64_t other_stream = 0xd1b54a32d192ed03ull;
/// Time goes on to here at most: the hosts' clocks are ahead of the world's, and have to have room.
constexpr time_point end_of_time = from_ns(to_ns(never) / 2);
} // namespace

simulation::simulation(const sim_options& options)
    : random_(options.seed ^ other_stream),
      network_({.seed = options.seed, .frames = options.frames, .frame_size = options.frame_size}),
      rounds_a_moment_(options.rounds_a_moment) {}

/// All tasks first: those of one host may hold what belongs to another.
simulation::~simulation() {
    for (auto& h : hosts_) h->shard().destroy_tasks();
    planned_.clear(); // and what else has captured something of the hosts'
    on_turn_ = {};
    network_.forget_filters();
    while (!hosts_.empty()) hosts_.pop_back();
}

sim_host& simulation::add_host(std::string name, sim_host_options options) {
    const auto number = static_cast<unsigned>(hosts_.size()) + 1;
    hosts_.push_back(std::unique_ptr<sim_host>(new sim_host(network_, std::move(name), number, std::move(options))));
    return *hosts_.back();
}

sim_link& simulation::connect(sim_host& a, sim_host& b, const sim_link_options& options) {
    return network_.connect(a.nic(), b.nic(), options);
}
sim_link& simulation::connect(sim_host& a, sim_switch& b, const sim_link_options& options) {
    return network_.connect(a.nic(), b, options);
}
sim_link& simulation::connect(sim_switch& a, sim_switch& b, const sim_link_options& options) {
    return network_.connect(a, b, options);
}

namespace {
constexpr auto later = [](const auto& a, const auto& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; };
} // namespace

void simulation::at(time_point when, std::function<void()> what) {
    planned_.push_back({std::max(when, now()), order_++, std::move(what)});
    std::push_heap(planned_.begin(), planned_.end(), later);
}

void simulation::run_planned() {
    while (!planned_.empty() && planned_.front().at <= now()) {
        std::pop_heap(planned_.begin(), planned_.end(), later);
        const planned next = std::move(planned_.back());
        planned_.pop_back();
        next.what();
    }
}

/// One turn of each; the order begins anywhere.
bool simulation::turn_hosts() {
    if (hosts_.empty()) return false;
    bool worked = false;
    const std::size_t first = hosts_.size() == 1 ? 0 : random_.below(hosts_.size());
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
        sim_host& h = *hosts_[(first + i) % hosts_.size()];
        if (!h.turn(now())) continue;
        worked = true;
        if (on_turn_) on_turn_(h);
    }
    return worked;
}

time_point simulation::next_moment() {
    time_point next = network_.next_event();
    if (!planned_.empty()) next = std::min(next, planned_.front().at);
    for (auto& h : hosts_) next = std::min(next, h->next_wake(now()));
    return next == never ? never : std::max(next, now());
}

/// Something always has to be done now: time goes on all the same. False: not beyond `until`.
bool simulation::end_of_moment(time_point until) {
    rounds_ = 0;
    if (now() >= until) return false;
    network_.advance_to(std::min(until, now() + std::chrono::microseconds{1}));
    return true;
}

/// A round of turns, or on to the next moment. False: nothing will happen until then.
bool simulation::step(time_point until) {
    run_planned();
    if (turn_hosts()) return ++rounds_ < rounds_a_moment_ || end_of_moment(until);
    const time_point next = next_moment();
    if (next > until) {
        rounds_ = 0;
        if (until < end_of_time) network_.advance_to(until);
        return false;
    }
    if (next > now()) {
        rounds_ = 0;
    } else if (++rounds_ >= rounds_a_moment_) { // packets go to and fro over cables without latency
        return end_of_moment(until);
    }
    network_.advance_to(next);
    return true;
}

bool simulation::run_until(const std::function<bool()>& done, duration limit) {
    const time_point until = limit < end_of_time - now() ? now() + limit : end_of_time;
    for (;;) {
        if (done()) return true;
        if (now() >= until && next_moment() > until) return false;
        if (!step(until)) return done();
    }
}

std::string simulation::describe() {
    std::string out = fmt::format("at {:.6f} s, seed {}", static_cast<double>(elapsed().count()) / 1e9, seed());
    for (auto& h : hosts_) {
        out += "; " + h->name() + ": ";
        if (!h->is_on()) out += "off";
        else out += fmt::format("{} tasks, {} connections", h->shard().tasks(), h->stack().tcp().connections());
        if (const std::uint64_t failed = h->failed(); failed != 0) out += fmt::format(", {} tasks failed", failed);
    }
    out += fmt::format("; {} packets on their way", network_.in_flight());
    if (network_.no_frames() != 0) out += fmt::format("; {} lost for want of frames (sim_options::frames)", network_.no_frames());
    return out;
}

} // namespace corewire
