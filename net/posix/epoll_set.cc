#include <corewire/net/posix/epoll_set.hh>

namespace corewire::posix {

namespace {
// EPOLLEXCLUSIVE may be asked for once, and along with little else (epoll_ctl(2)).
constexpr std::uint32_t exclusive = 1u << 28, wake_up = 1u << 29;
constexpr std::uint32_t with_exclusive = exclusive | wake_up | EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLHUP | EPOLLET;
} // namespace

outcome epoll_set::control(int operation, int fd, const std::shared_ptr<descriptor>& what, const epoll_event* event) {
    if (what.get() == this) return -EINVAL;
    if (event != nullptr && (event->events & exclusive) != 0 && operation != EPOLL_CTL_DEL) {
        const bool sensible = (event->events & ~with_exclusive) == 0 && dynamic_cast<const epoll_set*>(what.get()) == nullptr;
        if (operation != EPOLL_CTL_ADD || !sensible) return -EINVAL;
    }
    const auto at = entries_.find(fd);
    const bool there = at != entries_.end() && at->second.what.lock() == what;
    switch (operation) {
    case EPOLL_CTL_ADD:
        if (there) return -EEXIST;
        if (event == nullptr) return -EFAULT;
        entries_[fd] = {.what = what, .asked = *event};
        return 0;
    case EPOLL_CTL_MOD:
        if (!there) return -ENOENT;
        if (event == nullptr) return -EFAULT;
        if ((at->second.asked.events & exclusive) != 0) return -EINVAL;
        at->second = {.what = what, .asked = *event};
        return 0;
    case EPOLL_CTL_DEL:
        if (!there) return -ENOENT;
        entries_.erase(at);
        return 0;
    default: return -EINVAL;
    }
}

/// EPOLL* and POLL* are the same bits; errors and hang-ups are always told.
unsigned epoll_set::ready(const entry& e, const descriptor& d) noexcept {
    return e.disabled ? 0u : d.events() & (e.asked.events | EPOLLERR | EPOLLHUP);
}

bool epoll_set::has_news(const entry& e, const descriptor& d, unsigned now) noexcept {
    if ((e.asked.events & EPOLLET) == 0) return true;
    return d.edges() != e.told || (now & ~e.told_events) != 0;
}

/// From behind the last one that was told, and around: with little room all have their turn.
outcome epoll_set::collect(std::span<epoll_event> out) {
    std::size_t count = 0;
    auto at = entries_.upper_bound(last_told_);
    for (std::size_t left = entries_.size(); left > 0; --left) {
        if (at == entries_.end()) at = entries_.begin();
        const int fd = at->first;
        entry& e = at->second;
        const std::shared_ptr<descriptor> what = e.what.lock();
        if (what == nullptr) {
            at = entries_.erase(at);
            continue;
        }
        ++at;
        const unsigned now = ready(e, *what);
        if (now == 0 || !has_news(e, *what, now)) {
            e.told_events &= now; // what has ended may begin again
            continue;
        }
        if (count == out.size()) break;
        last_told_ = fd;
        out[count].events = now;
        out[count++].data = e.asked.data;
        e.told = what->edges();
        e.told_events = now;
        e.disabled = (e.asked.events & EPOLLONESHOT) != 0;
    }
    return static_cast<outcome>(count);
}

unsigned epoll_set::events() const {
    for (const auto& [fd, e] : entries_) {
        const std::shared_ptr<descriptor> what = e.what.lock();
        if (what == nullptr) continue;
        if (const unsigned now = ready(e, *what); now != 0 && has_news(e, *what, now)) return POLLIN | POLLRDNORM;
    }
    return 0;
}

} // namespace corewire::posix
