#include <corewire/reactor/shard/shard_context.hh>

#include <corewire/reactor/shard/this_shard.hh>

namespace corewire {

shard_context::shard_context(runtime& r, unsigned number, reactor_options loop_options, const mailbox_options& mail_options)
    : owner(r), shard(number), loop(loop_options), mail(loop, number, r.shard_count(), mail_options) {
    loop.attached(reactor::attachment::shard) = this;
    loop.add_watcher(watch);
}

shard_context& shard_context::current() noexcept {
    auto* here = static_cast<shard_context*>(reactor::current().attached(reactor::attachment::shard));
    CW_ASSERT(here != nullptr, "the current reactor belongs to no runtime");
    return *here;
}

shard_context::phase_watch::phase_watch(shard_context& here) noexcept : here_(here), inbox_(here.owner.inbox(here.shard)) {}

bool shard_context::phase_watch::poll(time_point) {
    const runtime::phase now = latest();
    return (now != seen_ || inbox_.any()) && enter(now);
}

/// Apart from poll(), which every turn calls.
[[gnu::noinline]] bool shard_context::phase_watch::enter(runtime::phase now) {
    inbox_.run_all();
    if (now == seen_) return true;
    const bool stop_is_news = seen_ == runtime::phase::running;
    seen_ = now;
    inbox_.close();
    inbox_.run_all(); // what was accepted before
    if (stop_is_news) here_.begin_stop();
    if (now == runtime::phase::settling) here_.lead.spawn(here_.owner.settle(here_));
    if (now == runtime::phase::exiting) here_.loop.request_exit();
    return true;
}

shard_context::drain_timer::drain_timer(shard_context& h) noexcept
    : timer([](timer& expired) noexcept { static_cast<drain_timer&>(expired).here.give_up->request_stop(); }), here(h) {}

void shard_context::begin_stop() noexcept {
    loop.timers().arm(drain, loop.now() + owner.options_.drain);
    stop.request_stop();
    loop.root_group().request_stop();
    if (owner.hooks_.on_stop) owner.hooks_.on_stop(shard);
}

namespace this_shard {

unsigned count() noexcept { return shard_context::current().owner.shard_count(); }
mailbox& mail() noexcept { return shard_context::current().mail; }
stop_token stopping() noexcept { return shard_context::current().stop.token(); }

} // namespace this_shard

void detail::keep_until_no_mail(std::unique_ptr<outlives_mail> what) noexcept {
    kept_until_no_mail& kept = shard_context::current().kept;
    what->next_ = std::move(kept.first);
    kept.first = std::move(what);
}

} // namespace corewire
