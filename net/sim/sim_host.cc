#include <corewire/net/sim/sim_host.hh>

#include <corewire/net/port/sim/sim_network.hh>

#include <algorithm>

namespace corewire {

/// Everything passes through.
class sim_host::nic_handle final : public port {
public:
    explicit nic_handle(port& nic) noexcept : nic_(nic) {
        pool_ = &nic.pool();
        capabilities_ = nic.capabilities();
        mac_ = nic.mac();
        mtu_ = nic.mtu();
        name_ = nic.name();
    }
    std::size_t receive(std::span<packet> out) override {
        const std::size_t n = nic_.receive(out);
        statistics_ = nic_.statistics();
        return n;
    }
    std::size_t transmit(std::span<packet> burst) override {
        const std::size_t n = nic_.transmit(burst);
        statistics_ = nic_.statistics();
        return n;
    }
    bool prepare_sleep() override { return nic_.prepare_sleep(); }

private:
    port& nic_;
};

namespace {

mac_address mac_of(unsigned number) {
    return {2, 0, 0, 0, static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)};
}

/// What was left unset.
sim_host_options complete(sim_host_options o, unsigned number, std::uint64_t world_seed) {
    if (o.stack.address.address() == ipv4::any())
        o.stack.address = ip_prefix(ipv4{10, 0, static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number)}, 16);
    if (!o.stack.seed) o.stack.seed = world_seed * 0x9e3779b97f4a7c15ull + number;
    return o;
}

} // namespace

sim_host::sim_host(sim_network& world, std::string name, unsigned number, sim_host_options options)
    : name_(std::move(name)), options_(complete(std::move(options), number, world.seed())),
      nic_(world.make_port(mac_of(number), options_.nic)), shard_(world, options_.uptime, world.seed() * 0xbf58476d1ce4e5b9ull + number) {
    if (options_.wrap) wrapped_ = options_.wrap(std::make_unique<nic_handle>(*nic_));
    boot();
}

sim_host::~sim_host() { shut_down(); }

void sim_host::spawn(std::function<task<>()> body) {
    CW_ASSERT(is_on(), "a task for a host that is off");
    shard_.spawn(std::move(body));
}

void sim_host::boot() {
    sim_shard::scope here(shard_);
    loop().read_clock();
    port& outermost = wrapped_ ? *wrapped_ : *nic_;
    stack_ = std::make_unique<network_stack>(loop(), std::make_unique<nic_handle>(outermost), options_.stack);
    loop().attached(reactor::attachment::network) = static_cast<socket_provider*>(stack_.get());
}

void sim_host::shut_down() noexcept {
    shard_.destroy_tasks();
    sim_shard::scope here(shard_);
    stopping_.reset();
    stack_.reset();
}

void sim_host::power_off() {
    CW_ASSERT(reactor::current_or_null() != &loop(), "a simulated host crashes between its turns: simulation::after()");
    if (!is_on()) return;
    shut_down();
    shard_.restart();
    nic_->set_deaf(true);
    frozen_until_ = {};
}

void sim_host::power_on() {
    if (is_on()) return;
    nic_->set_deaf(false);
    options_.stack.seed = *options_.stack.seed + 0x5851f42d4c957f2dull;
    boot();
}

void sim_host::crash() {
    power_off();
    power_on();
}

void sim_host::request_stop(duration grace) {
    if (!is_on()) return;
    shard_.request_stop();
    sim_shard::scope here(shard_);
    loop().read_clock();
    if (!stopping_) stopping_.emplace(loop(), *stack_);
    stopping_->begin(grace);
}

bool sim_host::turn(time_point now_in_world) {
    if (!is_on() || now_in_world < frozen_until_) return false;
    const bool worked = shard_.turn();
    if (stopping_ && shard_.deserted()) stopping_.reset(); // nobody waits: it need not look any more
    return worked;
}

time_point sim_host::next_wake(time_point now_in_world) {
    if (!is_on()) return never;
    return frozen_until_ > now_in_world ? frozen_until_ : shard_.next_wake(); // what it has to do when it thaws only a turn can say
}

} // namespace corewire
