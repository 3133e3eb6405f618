// epoll_set: epoll(7) over descriptors: level- and edge-triggered, one-shot.
// Owned by the fd_table. Bounded by the number of fds. A closed fd leaves by itself (the entry holds it weakly).
#pragma once

#include <corewire/net/posix/descriptor.hh>

#include <map>
#include <memory>
#include <span>
#include <sys/epoll.h>

namespace corewire::posix {

class epoll_set final : public descriptor {
public:
    /// epoll_ctl(2): EEXIST, ENOENT, EINVAL.
    outcome control(int operation, int fd, const std::shared_ptr<descriptor>& what, const epoll_event* event);
    /// What is ready now; 0: nothing.
    outcome collect(std::span<epoll_event> out);
    unsigned events() const override;

private:
    struct entry {
        std::weak_ptr<descriptor> what;
        epoll_event asked{};
        std::uint64_t told = ~std::uint64_t{0}; ///< edge-triggered: edges() when it was reported
        unsigned told_events = 0;
        bool disabled = false;                  ///< one-shot, and shot
    };
    static unsigned ready(const entry& e, const descriptor& d) noexcept;
    static bool has_news(const entry& e, const descriptor& d, unsigned now) noexcept;
    std::map<int, entry> entries_;
    int last_told_ = -1; ///< descriptor
};

} // namespace corewire::posix
