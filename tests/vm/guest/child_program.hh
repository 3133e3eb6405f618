// A program that nobody here wrote, run by a test as a child of its own.
#pragma once

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace corewire::test {

/// Ended with its handle, if it has not ended by itself.
class child_program {
public:
    explicit child_program(std::vector<std::string> words) {
        std::vector<char*> pointers;
        for (std::string& word : words) pointers.push_back(word.data());
        pointers.push_back(nullptr);
        BOOST_REQUIRE(::posix_spawnp(&id_, pointers[0], nullptr, nullptr, pointers.data(), environ) == 0);
    }
    child_program(const child_program&) = delete;
    ~child_program() {
        if (id_ == 0) return;
        ::kill(id_, SIGKILL);
        ::waitpid(id_, nullptr, 0);
    }
    /// Waits for its end.
    int status() {
        int ended = -1;
        ::waitpid(std::exchange(id_, 0), &ended, 0);
        return ended;
    }

private:
    pid_t id_ = 0;
};

} // namespace corewire::test
