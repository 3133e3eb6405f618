// A child process that is there as long as its handle, with a copy of what the parent's memory was.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace corewire::test {

class forked_child {
public:
    /// The child does `work` again and again; what it returns the first time is said here. Nothing but system calls and memory: the other
    /// threads of this process are not there.
    template <typename Work>
    explicit forked_child(Work work) {
        int ends[2] = {-1, -1};
        BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
        const unique_fd here(ends[0]);
        unique_fd there(ends[1]);
        id_ = ::fork();
        if (id_ == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;; ::usleep(1000)) {
                const char said = work();
                if (there) static_cast<void>(!::write(there.get(), &said, 1));
                there.reset();
            }
        }
        BOOST_REQUIRE(id_ > 0);
        there.reset();
        BOOST_REQUIRE(::read(here.get(), &said_, 1) == 1);
    }
    forked_child(const forked_child&) = delete;
    ~forked_child() {
        ::kill(id_, SIGKILL);
        ::waitpid(id_, nullptr, 0);
    }
    char said() const noexcept { return said_; }

private:
    pid_t id_ = 0;
    char said_ = 0;
};

} // namespace corewire::test
