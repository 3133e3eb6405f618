#include <corewire/reactor/sim/sim_shard.hh>

#include <corewire/reactor/log/shard_log.hh>

#include <system_error>

namespace corewire {

namespace {

constexpr log_event<std::size_t, const char*, log_text<80>> abandoned_tasks{
    "task", "abandoned", log_level::error, "{} task{} of group '{}' did not end in time after the stop; abandoned"};

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

void sim_shard::spawn(std::function<task<>()> body) {
    scope here(*this);
    loop().read_clock(); // its last turn may be long ago
    bodies_.push_back(std::move(body));
    loop().root_group().spawn(bodies_.back()());
}

/// At once, not with the next turn: by then the work of that turn may have met what the stop closes.
void sim_shard::request_stop() noexcept {
    if (runtime_->stop_requested()) return;
    runtime_->request_stop();
    scope here(*this);
    context_->watch.poll(loop().read_clock());
    context_->lead.spawn(drain());
}

/// As runtime::drain(), which waits in run().
task<> sim_shard::drain() {
    task_group& tasks = loop().root_group();
    const wait_limits limits{.stop = context_->give_up->token()};
    bool ended = true;
    try {
        co_await tasks.join(limits);
    } catch (const std::system_error&) {
        ended = false;
    }
    context_->drain.cancel();
    if (ended || tasks.size() == 0) co_return; // the last one in the same turn
    log_message(abandoned_tasks, tasks.size(), tasks.size() == 1 ? "" : "s", tasks.name());
    tasks.destroy_all();
}

bool sim_shard::turn() {
    scope here(*this);
    return loop().poll_once();
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
