#include <corewire/reactor/log/log_writer.hh>

#include <corewire/reactor/base/without_signals.hh>
#include <corewire/reactor/log/escape.hh>
#include <corewire/reactor/loop/tsc_clock.hh>

#include <pthread.h>
#include <stdexcept>

namespace corewire {

namespace {

constexpr std::size_t longest_message = 4000;

log_output::wall_time wall_now(time_point at) {
    const auto ago = real_clock().now() - at;
    return std::chrono::system_clock::now() - std::chrono::duration_cast<std::chrono::system_clock::duration>(ago);
}

} // namespace

log_writer::log_writer(log_options options)
    : options_(std::move(options)), output_(options_.write ? log_output(options_.write) : log_output(options_.file)) {
    if (const std::string wrong = levels_.set(options_.levels); !wrong.empty()) throw std::invalid_argument("log levels: " + wrong);
    if (!options_.time_of_day) options_.time_of_day = wall_now;
    for (unsigned shard = 0; shard < options_.shards; ++shard) rings_.push_back(std::make_unique<log_ring>(options_.records));
    if (!options_.own_thread) return;
    const without_signals here; // SIGPIPE too: a reader of stderr that has gone is a lost line
    thread_ = std::thread([this] { keep_writing(); });
}

log_writer::~log_writer() {
    output_.hurry();
    stopping_.store(true, std::memory_order_release);
    wake();
    if (thread_.joinable()) {
        thread_.join();
        return;
    }
    try {
        drain();
    } catch (...) { // no memory: lost
    }
}

/// The record is in the ring; then comes the fence, then the look. keep_writing() does it the other way round.
void log_writer::wake() noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (resting_.load(std::memory_order_relaxed) != 0 && resting_.exchange(0) != 0) resting_.notify_one();
}

void log_writer::keep_writing() noexcept {
    ::pthread_setname_np(::pthread_self(), "log");
    for (;;) {
        const bool last = stopping_.load(std::memory_order_acquire); // before the look at the rings
        try {
            drain();
        } catch (...) { // no memory: the next message may be shorter
            lost_.fetch_add(1, std::memory_order_relaxed);
            continue;
        }
        if (last) return;
        resting_.store(1, std::memory_order_relaxed);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (anything() || stopping_.load(std::memory_order_relaxed)) {
            resting_.store(0, std::memory_order_relaxed);
            continue;
        }
        resting_.wait(1);
    }
}

bool log_writer::anything() noexcept {
    for (const auto& each : rings_)
        if (each->front() != nullptr) return true;
    const std::lock_guard lock(mutex_);
    return !thread_lines_.empty();
}

void log_writer::drain() {
    output_.follow_the_name();
    while (write_oldest()) {}
}

bool log_writer::write_oldest() {
    unsigned from = 0;
    const log_record* oldest = nullptr;
    for (unsigned shard = 0; shard < rings_.size(); ++shard) {
        const log_record* const first = rings_[shard]->front();
        if (first == nullptr || (oldest != nullptr && first->at >= oldest->at)) continue;
        oldest = first;
        from = shard;
    }
    std::optional<thread_line> line;
    {
        const std::lock_guard lock(mutex_);
        if (!thread_lines_.empty() && (oldest == nullptr || thread_lines_.front().at < oldest->at)) {
            line.emplace(std::move(thread_lines_.front()));
            thread_lines_.pop_front();
        }
    }
    if (line) {
        write(line->at, *line->site, std::nullopt, line->text, 0);
        return true;
    }
    if (oldest == nullptr) return false;
    struct popped { // whatever happens: the same record must not come again
        log_ring& ring;
        ~popped() { ring.pop(); }
    } const then{*rings_[from]};
    text_.clear();
    oldest->site->format(*oldest->site, oldest->arguments.data(), text_);
    write(oldest->at, *oldest->site, from, text_, oldest->left_out);
    return true;
}

void log_writer::write(time_point at, const log_site& site, std::optional<unsigned> shard, std::string_view text,
                       std::uint64_t left_out) {
    std::string safe = escape_for_log(text);
    if (safe.size() > longest_message) safe.replace(longest_message - 3, safe.npos, "...");
    if (left_out != 0) safe += fmt::format(" ({} more left out)", left_out);
    const bool taken = output_.write(options_.time_of_day(at), site.level, site.module, shard, safe);
    (taken ? lines_ : lost_).fetch_add(1, std::memory_order_relaxed);
}

void log_writer::count(const log_site& site) noexcept {
    const std::lock_guard lock(mutex_);
    for (thread_event& each : thread_events_) {
        const log_site* const taken = each.site.load(std::memory_order_relaxed);
        if (taken != nullptr && taken != &site) continue;
        each.occurred.fetch_add(1, std::memory_order_relaxed);
        each.site.store(&site, std::memory_order_release);
        return;
    }
}

void log_writer::put(const log_site& site, std::span<const std::string> lines) {
    count(site);
    if (site.level < levels_.of(site.module)) return;
    const time_point now = real_clock().now();
    {
        const std::lock_guard lock(mutex_);
        for (const std::string& each : lines) {
            if (thread_lines_.size() >= options_.thread_lines) dropped_.fetch_add(1, std::memory_order_relaxed);
            else thread_lines_.push_back({now, &site, each});
        }
    }
    wake();
}

} // namespace corewire
