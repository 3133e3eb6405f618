// A reactor with files below a directory of the test's own, over a ring or over helper threads; and faults on demand.
#pragma once

#include <corewire/reactor/file/file.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/run_until_complete.hh>

#include "tests/support/temporary_directory.hh"
#include "tests/support/turn_until.hh"

#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace corewire::testing {

struct over_ring {
    static constexpr bool ring = true;
    static io_options options() { return {}; }
};
struct over_helpers {
    static constexpr bool ring = false;
    static io_options options() { return {.allow_uring = false}; }
};
using both_backends = boost::mpl::list<over_ring, over_helpers>;

struct file_world {
    explicit file_world(const io_options& options = {}) : loop({.io = options}) {}
    template <typename T>
    T run(task<T> t) {
        return run_until_complete(loop, std::move(t));
    }
    /// See test::turn_until().
    template <typename Done>
    void turn_until(Done done) {
        test::turn_until(loop, done);
    }
    void turn(int times = 100) {
        for (int i = 0; i < times; ++i) loop.poll_once();
    }
    io_engine& engine() { return loop.files(); }

    temporary_directory directory;
    reactor loop;
    reactor::scope here{loop};
};

template <typename Backend>
struct file_world_over : file_world {
    file_world_over() : file_world(Backend::options()) {}
};

/// Asks a function about each request.
class faults final : public io_fault_source {
public:
    using question = std::function<io_fault(const io_arguments&)>;
    faults(file_world& world, question ask) : world_(world), ask_(std::move(ask)) { world_.engine().inject(this); }
    ~faults() { world_.engine().inject(nullptr); }
    io_fault next(const io_arguments& a) noexcept override { return ask_(a); }

private:
    file_world& world_;
    question ask_;
};

/// Turns until all requests have completed, and does `act` before anybody runs who waits for them.
inline void once_completed(file_world& world, const std::function<void()>& act) {
    event turn;
    const auto goes_first = [](io_engine& engine, event& each, const std::function<void()>& does) -> task<> {
        do {
            co_await each.wait();
            each.reset();
        } while (engine.statistics().completed != engine.statistics().submitted);
        does();
    };
    const task<> first = goes_first(world.engine(), turn, act);
    first.handle().resume();
    world.turn_until([&] {
        turn.set();
        return first.done();
    });
}
template <typename T>
void destroy_completed(file_world& world, task<T> victim) {
    victim.handle().resume();
    once_completed(world, [&] {
        BOOST_TEST(!victim.done());
        victim = {};
    });
}

/// The errno that a task fails with; 0 when it does not.
inline task<int> error_of(task<> t) {
    try {
        co_await t;
    } catch (const std::system_error& e) {
        co_return e.code().value();
    }
    co_return 0;
}

inline std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

inline void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

inline mutable_byte_span bytes_of(std::string& s) { return std::as_writable_bytes(std::span{s}); }
inline byte_span bytes_of(const std::string& s) { return std::as_bytes(std::span{s}); }

/// `size` bytes that differ from place to place.
inline std::string pattern(std::size_t size, unsigned seed = 1) {
    std::string s(size, '\0');
    std::uint32_t x = seed * 2654435761u + 1;
    for (char& c : s) c = static_cast<char>((x = x * 1664525u + 1013904223u) >> 24);
    return s;
}

} // namespace corewire::testing
