#include <corewire/reactor/sim/sim_shard.hh>

#include <corewire/reactor/file/io_engine.hh>

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
    loop.io.in_flight = loop.io.helpers = 1; // one after the other: two would end in an order of the kernel's
    mailbox_options mail;
    mail.calls_in_flight = 1024;
    auto context = std::make_unique<shard_context>(owner, 0, loop, mail);
    context->current_here.reset(); // it is current while it is turned, and no longer
    return context;
}

} // namespace

sim_shard::sim_shard(clock_source& world, duration ahead, std::uint64_t seed)
    : clock_(world, ahead), random_(seed), runtime_(std::make_unique<runtime>(one_shard())), context_(make_context(*runtime_, clock_)) {}

sim_shard::~sim_shard() { end_context(); }

void sim_shard::end_context() noexcept {
    destroy_tasks();
    scope here(*this); // for what leaves with the context
    context_.reset();
}

void sim_shard::restart() {
    CW_ASSERT(reactor::current_or_null() != &loop(), "a simulated host crashes or starts anew between its turns (simulation::after)");
    failed_before_ = failed();
    end_context();
    runtime_ = std::make_unique<runtime>(one_shard()); // a stop of the old one is for good
    context_ = make_context(*runtime_, clock_);
}

/// What the body has captured goes with its task: a stream before the stack that it is of.
task<> sim_shard::run(std::function<task<>()> body) {
    auto work = body();
    co_await std::move(work);
}

void sim_shard::spawn(std::function<task<>()> body) {
    scope here(*this);
    loop().read_clock(); // its last turn may be long ago
    loop().root_group().spawn(run(std::move(body)));
}

/// At once, not with the next turn: by then the work of that turn may have met what the stop closes.
void sim_shard::request_stop() noexcept {
    if (runtime_->stop_requested()) return;
    runtime_->request_stop();
    scope here(*this);
    context_->watch.poll(loop().read_clock());
    context_->lead.spawn(runtime_->drain(*context_));
}

/// What a spawned body or a stop has asked of files before the turn is done with it, too: however soon a helper thread ends, the work goes
/// on in the same turn.
bool sim_shard::turn() {
    scope here(*this);
    bool worked = settle_files();
    worked |= loop().poll_once();
    worked |= settle_files();
    return worked;
}

bool sim_shard::settle_files() noexcept {
    io_engine* const files = loop().files_if_made();
    return files != nullptr && files->settle();
}

void sim_shard::destroy_tasks() noexcept {
    scope here(*this);
    context_->lead.destroy_all();
    loop().root_group().destroy_all();
    guests_.for_each([](guest& g) { // after what they have spawned
        g.tasks_.destroy_all();
        g.destroyed_ = true;
    });
    context_->locals.clear();
}

sim_shard::guest::~guest() {
    scope here(shard_);
    tasks_.destroy_all();
}

} // namespace corewire
