#include <corewire/reactor/log/shard_log.hh>

#include <corewire/reactor/log/escape.hh>
#include <corewire/reactor/log/log_writer.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <atomic>
#include <bit>
#include <cstdio>

namespace corewire {

shard_log* shard_log::current_or_null() noexcept {
    reactor* here = reactor::current_or_null();
    return here == nullptr ? nullptr : static_cast<shard_log*>(here->attached(reactor::attachment::log));
}

shard_log::shard_log(log_writer& writer, log_ring& ring, reactor& loop) noexcept : writer_(writer), ring_(ring), loop_(loop) {
    loop.attached(reactor::attachment::log) = this;
}

shard_log::~shard_log() { loop_.attached(reactor::attachment::log) = nullptr; }

/// By address, in the open: an event's place is found again by the same steps.
shard_log::event_state& shard_log::state_of(const log_site& site) noexcept {
    std::size_t at = (reinterpret_cast<std::uintptr_t>(&site) >> 4) * 0x9e3779b97f4a7c15u >> 32;
    for (unsigned step = 0; step < 16; ++step, ++at) {
        event_state& here = events_[at % max_events];
        if (here.site == nullptr) here.site = &site;
        if (here.site == &site) return here;
    }
    others_.level_generation = 0; // another event may have had it
    return others_;
}

std::byte* shard_log::begin(const log_site& site) noexcept {
    event_state& state = state_of(site);
    ++state.occurred;
    if (const std::uint32_t generation = writer_.levels().generation(); state.level_generation != generation) [[unlikely]] {
        state.level_generation = generation;
        state.threshold = writer_.levels().of(site.module);
    }
    if (site.level < state.threshold) return nullptr;
    const time_point now = loop_.now();
    if (state.in_window == 0 || now - state.window >= site.rate.each) {
        state.window = now;
        state.in_window = 0;
    }
    if (state.in_window >= site.rate.burst) {
        ++state.left_out;
        ++statistics_.left_out;
        return nullptr;
    }
    log_record* record = ring_.claim();
    if (record == nullptr) {
        ++statistics_.dropped;
        return nullptr;
    }
    ++state.in_window;
    ++statistics_.written;
    record->at = now;
    record->site = &site;
    record->left_out = std::exchange(state.left_out, 0);
    return record->arguments.data();
}

void shard_log::commit() noexcept {
    ring_.commit();
    writer_.wake();
}

namespace detail {

void print_without_a_log(const log_site& site, const std::byte* arguments) noexcept {
    static std::atomic<std::uint64_t> said{0}; // nobody's clock here: the first ones, then ever fewer
    const std::uint64_t number = said.fetch_add(1, std::memory_order_relaxed) + 1;
    if (site.level < log_level::info || (number > 100 && !std::has_single_bit(number))) return;
    try {
        std::string text;
        site.format(site, arguments, text);
        std::fprintf(stderr, "%s\n", escape_for_log(text).c_str()); // not fmt::print, which throws when stderr is closed
    } catch (...) { // no memory for it
    }
}

} // namespace detail

} // namespace corewire
