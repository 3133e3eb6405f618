// A reactor with its io_uring, or with epoll in its place, and operations that remember how they completed.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/uring.hh>

#include "tests/support/turn_until.hh"

#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace corewire {

struct by_kernel {
    static constexpr bool kernel = true;
    static io_options options() { return {}; }
};
struct by_epoll {
    static constexpr bool kernel = false;
    static io_options options() { return {.allow_uring = false}; }
};
using both_backends = boost::mpl::list<by_kernel, by_epoll>;

/// Remembers how it completed.
struct probe : uring_operation {
    probe() noexcept
        : uring_operation([](uring_operation& op, int r, unsigned f) noexcept {
              auto& self = static_cast<probe&>(op);
              ++self.completions;
              self.result = r;
              self.flags = f;
              self.all.emplace_back(r, f);
          }) {}
    bool goes_on() const { return (flags & IORING_CQE_F_MORE) != 0; }
    int completions = 0;
    int result = 0;
    unsigned flags = 0;
    std::vector<std::pair<int, unsigned>> all;
};

struct socket_pair {
    explicit socket_pair(int type = SOCK_STREAM) {
        std::array<int, 2> both{};
        BOOST_REQUIRE(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, both.data()) == 0);
        ours = unique_fd{both[0]};
        theirs = unique_fd{both[1]};
    }
    void say(std::string_view text) {
        BOOST_REQUIRE(::send(theirs.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    }
    unique_fd ours;
    unique_fd theirs;
};

struct ring_world {
    explicit ring_world(const io_options& options = {}, clock_source* clock = nullptr) : loop({.clock = clock, .io = options}) {}
    reactor loop;
    reactor::scope here{loop};
    uring& ring = loop.io();

    /// See test::turn_until().
    template <typename Done>
    void turn_until(Done done) {
        test::turn_until(loop, done);
    }
    /// So many that what has been caused happens.
    void some_turns() {
        for (int i = 0; i < 200; ++i) loop.poll_once();
    }
};

} // namespace corewire
