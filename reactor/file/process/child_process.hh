// child_process: another program, started, fed, heard and waited for.
//
//     using enum cw::stdio;
//     cw::child_process sort = co_await cw::child_process::spawn(cw::command("sort"), {.input = pipe, .output = pipe});
//     co_await sort.input().write("b\na\n");
//     sort.input().close();
//     std::string text = co_await sort.output().read_all();
//     cw::exit_status how = co_await sort.wait();
//
// Belongs to the shard that made it. Destroying it before it has been waited for kills the child (SIGKILL) and reaps it: no child
// outlives its owner, none stays a zombie. Signals go through a pidfd: never to another process that got the same number.
#pragma once

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/file/process/pipe.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace corewire {

/// The words of a command. (Not a braced list: g++ 12 does not compile those inside a co_await.)
template <typename... Words>
std::vector<std::string> command(Words&&... words) {
    std::vector<std::string> all;
    all.reserve(sizeof...(words));
    (all.emplace_back(std::forward<Words>(words)), ...);
    return all;
}

enum class stdio {
    inherit, ///< ours
    null,    ///< /dev/null
    pipe,    ///< a pipe to us
};

struct spawn_options {
    stdio input = stdio::null;
    stdio output = stdio::inherit;
    stdio error = stdio::inherit;
    /// "NAME=value" each; null: ours. Lives until the await returns, like the next. (Nothing here owns anything: g++ 12 destroys what
    /// a braced list inside a co_await owns twice.)
    const std::vector<std::string>* environment = nullptr;
    const char* working_directory = nullptr; ///< null: ours
};

struct exit_status {
    int code = 0;   ///< of exit(3); meaningless when a signal ended it
    int signal = 0; ///< 0: it exited
    bool success() const noexcept { return code == 0 && signal == 0; }
};

class child_process {
public:
    child_process() = default;
    child_process(child_process&& other) noexcept;
    child_process& operator=(child_process&& other) noexcept;
    ~child_process();

    /// words[0] is looked for in PATH. Throws ENOENT, EACCES and what else posix_spawnp(3) says. The child has default signal
    /// dispositions, no blocked signals, and no descriptor but 0, 1, 2 of those that are close-on-exec, as all of ours are. A helper
    /// thread does the work: it takes a millisecond.
    static task<child_process> spawn(std::vector<std::string> words, spawn_options how = {}, wait_limits limits = {});

    /// Until it has ended; again: the same answer.
    task<exit_status> wait(wait_limits limits = {});
    /// Harmless when it has ended.
    void kill(int signal);

    pid_t id() const noexcept { return id_; }
    pipe_writer& input() noexcept { return input_; } ///< with stdio::pipe; else empty
    pipe_reader& output() noexcept { return output_; }
    pipe_reader& error() noexcept { return error_; }

private:
    void end() noexcept;

    pid_t id_ = 0;
    unique_fd pidfd_;
    std::optional<exit_status> status_;
    pipe_writer input_;
    pipe_reader output_;
    pipe_reader error_;
};

} // namespace corewire
