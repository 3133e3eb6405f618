// What the tests of one primitive share: a coroutine that waits once and writes down how that ended.
#pragma once

#include "driven.hh"

#include <corewire/reactor/task/stop.hh>
#include <corewire/reactor/task/task.hh>

#include <csignal>
#include <optional>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace reactor_test {

/// The order in which things came about: "a b c".
struct journal {
    void note(const std::string& what) { text += (text.empty() ? "" : " ") + what; }
    std::string text;
};

/// One wait that the test starts, cancels or destroys. `Held` is what the wait gave: a guard, units, an optional value.
template <typename Held>
struct attempt {
    template <typename Wait>
    attempt(std::string n, journal& j, Wait wait) : name(std::move(n)), log(j) {
        run = go(*this, std::move(wait));
        run.handle().resume();
    }
    /// Ends the coroutine where it stands.
    void destroy() { run = {}; }
    bool holds() const { return held.has_value(); }

    std::string name;
    journal& log;
    corewire::stop_source stop;
    std::optional<Held> held;
    std::errc error{};
    corewire::task<> run;

private:
    template <typename Wait>
    static corewire::task<> go(attempt& self, Wait wait) {
        try {
            auto awaiter = [&] { return wait(self.stop.token()); };
            self.held.emplace(co_await awaiter());
            self.log.note(self.name);
        } catch (const std::system_error& e) {
            self.error = static_cast<std::errc>(e.code().value());
            self.log.note(self.name + "!");
        }
    }
};

/// True if `f()` ends in a failed assertion. It runs in a process of its own, whose stderr goes nowhere.
template <typename F>
bool aborts(F f) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGABRT, SIG_DFL);
        ::close(STDERR_FILENO);
        f();
        ::_exit(0);
    }
    int status = 0;
    return child > 0 && ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

} // namespace reactor_test
