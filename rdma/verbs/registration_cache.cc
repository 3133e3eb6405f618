// Locking: `lock` guards the ranges. The watcher takes it before it reads an event, so whoever takes it after an munmap()
// returned sees the regions marked. Nobody frees memory or deregisters under it: that could unmap, and wait for the watcher.
#include <corewire/rdma/verbs/registration_cache.hh>

#include <corewire/rdma/verbs/error.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace corewire::verbs {

struct registration_cache::entry {
    std::uintptr_t begin = 0, end = 0;
    memory_region region;
    unsigned leases = 0;
    bool stale = false;          ///< its memory was unmapped: never handed out again
    bool watched = false;
    std::uint64_t used = 0;      ///< when it was last leased: a count of leases
};

struct registration_cache::state {
    state(const protection_domain& d, const registration_cache_options& o) : domain(d), options(o) {}
    const protection_domain& domain;
    registration_cache_options options;
    registration_cache_statistics counts;
    std::uint32_t generation = process_generation();
    std::mutex lock;
    std::vector<std::unique_ptr<entry>> entries; ///< reserved once, so that nothing is allocated under the lock
    std::uint64_t kept_bytes = 0;
    std::uint64_t clock = 0;
    unique_fd faults, stop;
    std::thread watcher;

    void open_watch();
    void watch();
    void take_news();
    bool cover(entry& e) noexcept;
    void forget(std::uintptr_t begin, std::uintptr_t end) noexcept;
    std::unique_ptr<entry> take_out(std::size_t index);
    void take_useless(std::uint64_t bytes_to_come, std::vector<std::unique_ptr<entry>>& out);
};

/// Without the right to it, the cache keeps nothing; that is all.
void registration_cache::state::open_watch() {
    faults.reset(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK)));
    if (!faults) return;
    uffdio_api api{};
    api.api = UFFD_API;
    api.features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
    if (::ioctl(faults.get(), UFFDIO_API, &api) != 0) {
        faults.reset();
        return;
    }
    stop.reset(::eventfd(0, EFD_CLOEXEC));
    watcher = std::thread([this] { watch(); });
}

void registration_cache::state::watch() {
    ::pthread_setname_np(::pthread_self(), "registrations");
    pollfd sources[2] = {{faults.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}};
    while (::poll(sources, 2, -1) >= 0 || errno == EINTR) {
        if (sources[1].revents != 0) return;
        if (sources[0].revents != 0) take_news();
    }
}

void registration_cache::state::take_news() {
    const std::lock_guard guard(lock);
    uffd_msg news{};
    while (::read(faults.get(), &news, sizeof news) == static_cast<ssize_t>(sizeof news)) {
        if (news.event == UFFD_EVENT_REMOVE || news.event == UFFD_EVENT_UNMAP) forget(news.arg.remove.start, news.arg.remove.end);
        if (news.event == UFFD_EVENT_REMAP) forget(news.arg.remap.from, news.arg.remap.from + news.arg.remap.len);
    }
}

void registration_cache::state::forget(std::uintptr_t begin, std::uintptr_t end) noexcept {
    for (const auto& e : entries) {
        if (e->stale || e->begin >= end || e->end <= begin) continue;
        e->stale = true;
        ++counts.invalidated;
    }
}

/// Whether all that is mapped there is private and of no file. Pages of what is shared may also go by a hole or a truncation of the file
/// behind it, or by shmdt(2), of which userfaultfd does not tell.
static bool private_and_anonymous(std::uintptr_t begin, std::uintptr_t end) noexcept {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> maps(std::fopen("/proc/self/maps", "re"), std::fclose);
    if (!maps) return false;
    std::array<char, 512> line;
    bool first_piece = true;
    while (std::fgets(line.data(), line.size(), maps.get()) != nullptr) {
        const bool whole_line = std::strchr(line.data(), '\n') != nullptr;
        if (!std::exchange(first_piece, whole_line)) continue; // the rest of a long name
        std::uintptr_t from = 0, to = 0;
        unsigned long inode = 0;
        char rights[5] = {};
        if (std::sscanf(line.data(), "%lx-%lx %4s %*x %*x:%*x %lu", &from, &to, rights, &inode) != 4) return false;
        if (to > begin && from < end && (rights[3] != 'p' || inode != 0)) return false;
    }
    return true;
}

/// Asks to be told of the range; write-protect mode, in which nothing ever faults, since nothing is protected.
bool registration_cache::state::cover(entry& e) noexcept {
    if (!faults || !private_and_anonymous(e.begin, e.end)) return false;
    uffdio_register range{};
    range.range = {e.begin, e.end - e.begin};
    range.mode = UFFDIO_REGISTER_MODE_WP;
    return ::ioctl(faults.get(), UFFDIO_REGISTER, &range) == 0;
}

std::unique_ptr<registration_cache::entry> registration_cache::state::take_out(std::size_t index) {
    std::unique_ptr<entry> out = std::move(entries[index]);
    entries[index] = std::move(entries.back());
    entries.pop_back();
    kept_bytes -= out->end - out->begin;
    return out;
}

/// Under the lock: what is stale, and the longest unused until there is room. `out` has the room, and is destroyed without the lock.
void registration_cache::state::take_useless(std::uint64_t bytes_to_come, std::vector<std::unique_ptr<entry>>& out) {
    for (std::size_t i = entries.size(); i-- > 0;)
        if (entries[i]->stale && entries[i]->leases == 0) out.push_back(take_out(i));
    while (entries.size() == options.max_regions || kept_bytes + bytes_to_come > options.max_bytes) {
        const auto oldest = std::ranges::min_element(entries, {}, [](const auto& e) { return e->leases != 0 ? ~0ull : e->used; });
        if (oldest == entries.end() || (*oldest)->leases != 0) break;
        ++counts.evicted;
        out.push_back(take_out(static_cast<std::size_t>(oldest - entries.begin())));
    }
}

registration_cache::registration_cache(const protection_domain& in, const registration_cache_options& options)
    : state_(std::make_unique<state>(in, options)) {
    state_->entries.reserve(options.max_regions);
    state_->open_watch();
}

registration_cache::~registration_cache() {
    if (state_->generation != process_generation()) { // in a forked child: the thread is the parent's
        static_cast<void>(state_.release());
        return;
    }
    if (state_->watcher.joinable()) {
        const std::uint64_t one = 1;
        static_cast<void>(!::write(state_->stop.get(), &one, sizeof one));
        state_->watcher.join();
    }
    for (const auto& e : state_->entries) CW_ASSERT(e->leases == 0, "a registration is still leased");
}

bool registration_cache::keeps() const noexcept {
    return static_cast<bool>(state_->faults) && state_->generation == process_generation();
}

registration_cache_statistics registration_cache::statistics() const {
    if (state_->generation != process_generation()) return {}; // in a forked child: the lock may be a thread's of the parent
    const std::lock_guard guard(state_->lock);
    return state_->counts;
}

registration_cache::lease registration_cache::get(mutable_byte_span bytes) {
    state& s = *state_;
    if (s.generation != process_generation())
        fail(operation::register_memory, EPERM, "use in a forked child the memory that its parent registered");
    static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(bytes.data()) & ~(page - 1);
    const std::uintptr_t end = (reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size() + page - 1) & ~(page - 1);
    {
        const std::lock_guard guard(s.lock);
        for (const auto& e : s.entries) {
            if (e->stale || !e->watched || e->begin > begin || e->end < end) continue;
            ++e->leases;
            e->used = ++s.clock;
            ++s.counts.hits;
            return {*this, *e};
        }
    }
    std::vector<std::unique_ptr<entry>> gone; // allocated and freed outside the lock
    gone.reserve(s.options.max_regions);
    auto fresh = std::make_unique<entry>();
    fresh->begin = begin;
    fresh->end = end;
    // From here on its memory stays mapped: what is unmapped before it stands in `entries` nobody marks.
    fresh->watched = s.cover(*fresh);
    fresh->region = memory_region(s.domain, {reinterpret_cast<std::byte*>(begin), end - begin}, s.options.allowed);
    fresh->leases = 1;
    entry& e = *fresh;
    {
        const std::lock_guard guard(s.lock);
        s.take_useless(end - begin, gone);
        if (s.entries.size() < s.options.max_regions) {
            fresh->used = ++s.clock;
            s.kept_bytes += end - begin;
            ++s.counts.registered;
            s.entries.push_back(std::move(fresh));
        }
    }
    if (fresh != nullptr)
        throw std::system_error(ENOMEM, std::generic_category(),
                                fmt::format("cannot lease more than {} registrations at a time", s.options.max_regions));
    return {*this, e};
}

registration_cache::lease& registration_cache::lease::operator=(lease&& other) noexcept {
    std::swap(cache_, other.cache_);
    std::swap(entry_, other.entry_);
    return *this;
}

registration_cache::lease::~lease() {
    if (entry_ == nullptr || cache_->state_->generation != process_generation()) return;
    state& s = *cache_->state_;
    std::unique_ptr<entry> last; // made before the guard, so destroyed after it: without the lock
    const std::lock_guard guard(s.lock);
    if (--entry_->leases != 0 || (entry_->watched && !entry_->stale)) return;
    const auto at = std::ranges::find_if(s.entries, [this](const auto& e) { return e.get() == entry_; });
    last = s.take_out(static_cast<std::size_t>(at - s.entries.begin()));
}

const memory_region& registration_cache::lease::region() const noexcept { return entry_->region; }

} // namespace corewire::verbs
