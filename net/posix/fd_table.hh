// fd_table: from fd to what it stands for. Each fd is a real one of the kernel's (an eventfd), so that no other file gets
// its number, and so that close() of a leftover is harmless.
// One a host; bounded by the process's limit on fds.
#pragma once

#include <corewire/net/posix/descriptor.hh>

#include <memory>
#include <sys/eventfd.h>
#include <unistd.h>
#include <unordered_map>

namespace corewire::posix {

class fd_table {
public:
    /// The new fd, or a negated errno.
    outcome add(std::shared_ptr<descriptor> what, bool close_on_exec = false) {
        const int fd = ::eventfd(0, EFD_NONBLOCK | (close_on_exec ? EFD_CLOEXEC : 0));
        if (fd < 0) return -errno;
        table_[fd] = std::move(what);
        return fd;
    }
    /// Another fd for the same, `least` or above (F_DUPFD); or a negated errno.
    outcome duplicate(const std::shared_ptr<descriptor>& what, int least, bool close_on_exec) {
        const int made = add(what, close_on_exec);
        if (made < 0 || made >= least) return made;
        const int fd = ::fcntl(made, close_on_exec ? F_DUPFD_CLOEXEC : F_DUPFD, least);
        const outcome r = fd < 0 ? -errno : fd;
        remove(made);
        if (fd >= 0) table_[fd] = what;
        return r;
    }
    bool has(const descriptor& what) const noexcept {
        for (const auto& [fd, one] : table_)
            if (one.get() == &what) return true;
        return false;
    }
    /// Null: not one of ours.
    std::shared_ptr<descriptor> find(int fd) const {
        const auto at = table_.find(fd);
        return at == table_.end() ? nullptr : at->second;
    }
    template <typename Kind>
    std::shared_ptr<Kind> find_as(int fd) const {
        return std::dynamic_pointer_cast<Kind>(find(fd));
    }
    /// The descriptor, which lives on while somebody else holds it; null: not one of ours.
    std::shared_ptr<descriptor> remove(int fd) {
        const auto at = table_.find(fd);
        if (at == table_.end()) return nullptr;
        auto what = std::move(at->second);
        table_.erase(at);
        ::close(fd);
        return what;
    }
    template <typename Visit>
    void for_each(Visit&& visit) const {
        for (const auto& [fd, what] : table_) visit(fd, *what);
    }

private:
    std::unordered_map<int, std::shared_ptr<descriptor>> table_;
};

} // namespace corewire::posix
