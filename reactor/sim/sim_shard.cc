#include <corewire/reactor/sim/sim_shard.hh>

namespace corewire {

namespace {

runtime_options one_shard() {
    runtime_options o;
    o.cpus = {0};
    o.pin = false;
    o.handle_signals = false;
    o.external_calls = 1;
    return o;
}

std::unique_ptr<shard_context> make_context(runtime& owner, clock_source& clock) {
    reactor_options loop;
    loop.clock = &clock;
    mailbox_options mail;
    mail.calls_in_flight = 1024;
    auto context = std::make_unique<shard_context>(owner, 0, loop, mail);
    context->current_here.reset(); // it is current while it is turned, and no longer
    return context;
}

} // namespace

sim_shard::sim_shard(clock_source& world, duration ahead)
    : clock_(world, ahead), runtime_(one_shard()), context_(make_context(runtime_, clock_)) {}

sim_shard::~sim_shard() {
    destroy_tasks();
    reactor::scope here(loop()); // for what leaves with the context
    context_.reset();
}

void sim_shard::spawn(std::function<task<>()> body) {
    reactor::scope here(loop());
    loop().read_clock(); // its last turn may be long ago
    bodies_.push_back(std::move(body));
    loop().root_group().spawn(bodies_.back()());
}

/// At once, not with the next turn: by then the work of that turn may have met what the stop closes.
void sim_shard::request_stop() noexcept {
    runtime_.request_stop();
    reactor::scope here(loop());
    context_->watch.poll(loop().read_clock());
}

bool sim_shard::turn() {
    reactor::scope here(loop());
    return loop().poll_once();
}

void sim_shard::destroy_tasks() noexcept {
    reactor::scope here(loop());
    loop().root_group().destroy_all();
    context_->locals.clear();
}

} // namespace corewire
