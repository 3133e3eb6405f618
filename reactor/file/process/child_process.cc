#include <corewire/reactor/file/process/child_process.hh>

#include <corewire/reactor/file/process/stream_requests.hh>

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

// Not by <sys/pidfd.h>: glibc 2.36's is not for C++.
int pidfd_open(pid_t id) noexcept { return static_cast<int>(::syscall(SYS_pidfd_open, id, 0)); }
int pidfd_send_signal(int pidfd, int signal) noexcept {
    return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}

/// What a helper thread needs to start a program, and what comes of it. Whatever nobody has taken is cleaned up.
struct spawning {
    std::vector<std::string> words;
    spawn_options how;
    std::array<unique_fd, 3> childs{}; ///< its 0, 1, 2; empty: inherited
    pid_t id = 0;
    unique_fd pidfd{};

    ~spawning() {
        if (id <= 0) return; // nobody waits for the answer any more
        ::kill(id, SIGKILL);
        ::waitpid(id, nullptr, 0);
    }
    static int run(void* self) noexcept;
};

/// As posix_spawn(3) wants them; it changes nothing.
std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> all;
    for (const std::string& each : words) all.push_back(const_cast<char*>(each.c_str()));
    all.push_back(nullptr);
    return all;
}

/// posix_spawn_file_actions_t and posix_spawnattr_t, destroyed when it goes.
struct spawn_plan {
    spawn_plan() {
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        sigset_t none;
        sigset_t all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    }
    ~spawn_plan() {
        posix_spawn_file_actions_destroy(&actions);
        posix_spawnattr_destroy(&attributes);
    }
    spawn_plan(const spawn_plan&) = delete;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
};

int spawning::run(void* opaque) noexcept {
    auto& self = *static_cast<spawning*>(opaque);
    try {
        spawn_plan plan;
        int rc = 0;
        for (int i = 0; i < 3 && rc == 0; ++i) {
            const unique_fd& fd = self.childs[static_cast<std::size_t>(i)];
            if (fd) rc = posix_spawn_file_actions_adddup2(&plan.actions, fd.get(), i);
        }
        if (rc == 0 && self.how.working_directory != nullptr)
            rc = posix_spawn_file_actions_addchdir_np(&plan.actions, self.how.working_directory);
        std::vector<char*> arguments = pointers(self.words);
        std::vector<char*> environment;
        if (self.how.environment != nullptr) environment = pointers(*self.how.environment);
        if (rc == 0)
            rc = ::posix_spawnp(&self.id, arguments[0], &plan.actions, &plan.attributes, arguments.data(),
                                self.how.environment != nullptr ? environment.data() : environ);
        if (rc != 0) {
            self.id = 0;
            return -rc;
        }
        self.pidfd.reset(pidfd_open(self.id)); // it is ours and not reaped: the number is still its own
        return self.pidfd ? 0 : -errno;
    } catch (const std::exception&) {
        return -ENOMEM;
    }
}

/// Not 0, 1 or 2, which the child's dup2 would step on: they are free where a daemon has closed them.
unique_fd above_standard_ones(unique_fd fd, const char* what) {
    if (fd.get() > 2) return fd;
    unique_fd higher{::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3)};
    if (!higher) throw std::system_error(errno, std::generic_category(), what);
    return higher;
}

unique_fd null_device(int flags) {
    unique_fd fd{::open("/dev/null", flags | O_CLOEXEC)};
    if (!fd) throw std::system_error(errno, std::generic_category(), "/dev/null");
    return above_standard_ones(std::move(fd), "/dev/null");
}

/// A pipe, our end first.
std::pair<unique_fd, unique_fd> pipe_for_child(bool we_write) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe to a child");
    std::array<unique_fd, 2> all{unique_fd{ends[0]}, unique_fd{ends[1]}};
    for (unique_fd& each : all) each = above_standard_ones(std::move(each), "pipe to a child");
    if (we_write) std::swap(all[0], all[1]);
    return {std::move(all[0]), std::move(all[1])};
}

exit_status status_of(const siginfo_t& info) noexcept {
    if (info.si_code == CLD_EXITED) return {.code = info.si_status};
    return {.signal = info.si_status};
}

} // namespace

child_process::child_process(child_process&& other) noexcept
    : id_(std::exchange(other.id_, 0)), pidfd_(std::move(other.pidfd_)), status_(other.status_), input_(std::move(other.input_)),
      output_(std::move(other.output_)), error_(std::move(other.error_)) {}

child_process& child_process::operator=(child_process&& other) noexcept {
    if (this == &other) return *this;
    end();
    id_ = std::exchange(other.id_, 0);
    pidfd_ = std::move(other.pidfd_);
    status_ = other.status_;
    input_ = std::move(other.input_);
    output_ = std::move(other.output_);
    error_ = std::move(other.error_);
    return *this;
}

child_process::~child_process() { end(); }

void child_process::end() noexcept {
    if (id_ == 0 || status_) return;
    pidfd_send_signal(pidfd_.get(), SIGKILL);
    siginfo_t info{};
    while (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WEXITED) != 0 && errno == EINTR) {}
    status_ = status_of(info);
}

task<child_process> child_process::spawn(std::vector<std::string> words, spawn_options how, wait_limits limits) {
    if (words.empty()) throw std::system_error(EINVAL, std::generic_category(), "a command of no words");
    child_process made;
    spawning work{std::move(words), how};
    const std::array<stdio, 3> wanted{work.how.input, work.how.output, work.how.error};
    for (std::size_t i = 0; i < 3; ++i) {
        if (wanted[i] == stdio::null) work.childs[i] = null_device(i == 0 ? O_RDONLY : O_WRONLY);
        if (wanted[i] != stdio::pipe) continue;
        auto [ours, its] = pipe_for_child(i == 0);
        work.childs[i] = std::move(its);
        if (i == 0) made.input_ = pipe_writer{std::move(ours)};
        if (i == 1) made.output_ = pipe_reader{std::move(ours)};
        if (i == 2) made.error_ = pipe_reader{std::move(ours)};
    }
    io_arguments a;
    a.opcode = io_opcode::call;
    a.function = &spawning::run;
    a.address = &work;
    const int rc = co_await io_attempt(a, limits);
    if (rc < 0) throw std::system_error(-rc, std::generic_category(), "starting '" + work.words[0] + "'");
    made.id_ = std::exchange(work.id, 0);
    made.pidfd_ = std::move(work.pidfd);
    co_return made;
}

task<exit_status> child_process::wait(wait_limits limits) {
    if (id_ == 0) throw std::system_error(ECHILD, std::generic_category(), "waiting for no child");
    while (!status_) {
        co_await io_awaiter<void>(until_ready(pidfd_.get(), POLLIN), limits); // readable: it has ended (pidfd_open(2))
        if (status_) break; // another coroutine that waited has asked
        siginfo_t info{};
        if (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG) != 0)
            throw std::system_error(errno, std::generic_category(), "waiting for a child");
        if (info.si_pid != 0) status_ = status_of(info);
    }
    co_return *status_;
}

void child_process::kill(int signal) {
    if (id_ == 0 || status_) return;
    if (pidfd_send_signal(pidfd_.get(), signal) != 0 && errno != ESRCH)
        throw std::system_error(errno, std::generic_category(), "signal to a child");
}

} // namespace corewire
