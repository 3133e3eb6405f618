#include "host.hh"

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/topology/host_files.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace corewire::topo {

namespace {

constexpr std::size_t most_output = 262'144;
constexpr std::size_t most_entries = 65'536;
constexpr std::size_t most_table = 16u << 20;

/// Waits for it; its standard output through a pipe, its complaints to ours.
command_result spawn(const command& words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made for a command");
    const unique_fd reading(ends[0]);
    unique_fd writing(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_t child = 0;
    const int failed = ::posix_spawnp(&child, argv.front(), &actions, nullptr, argv.data(), ::environ);
    posix_spawn_file_actions_destroy(&actions);
    writing = unique_fd();
    if (failed != 0) return {.status = 127};
    command_result result;
    char bytes[4096];
    for (ssize_t n; (n = ::read(ends[0], bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR);)
        if (n > 0 && result.output.size() < most_output) result.output.append(bytes, static_cast<std::size_t>(n));
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    return result;
}

} // namespace

std::optional<std::string> host::read(const std::string& path) const { return read_small_file(root + path); }

std::optional<std::string> host::read_table(const std::string& path) const {
    const unique_fd file(::open((root + path).c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return std::nullopt;
    std::string text;
    char bytes[65'536];
    for (;;) {
        const ssize_t n = ::read(file.get(), bytes, sizeof bytes);
        if (n == 0) return text;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 || text.size() >= most_table) return std::nullopt; // a part of it would tell what is not so
        text.append(bytes, static_cast<std::size_t>(n));
    }
}

void host::write(const std::string& path, const std::string& text) const {
    const unique_fd file(::open((root + path).c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC));
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        throw std::invalid_argument(fmt::format("{} cannot be set to {}: {}{}", path, text, std::strerror(errno),
                                                errno == EACCES || errno == EPERM ? " (run as root)" : ""));
}

std::vector<std::string> host::list(const std::string& path) const {
    std::vector<std::string> names;
    std::error_code none;
    for (std::filesystem::directory_iterator each(root + path, none), end; !none && each != end && names.size() < most_entries;
         each.increment(none))
        names.push_back(each->path().filename().string());
    std::ranges::sort(names);
    return names;
}

host host::here() { return {.root = {}, .run = spawn}; }

std::string shell_text(const command& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
    return text;
}

} // namespace corewire::topo
