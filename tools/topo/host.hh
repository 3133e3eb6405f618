// What advice reads of a host and does to it: files below a root, and commands through one function, so that a test brings its own
// tree and only writes down what would be run. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace corewire::topo {

using command = std::vector<std::string>;

struct command_result {
    int status = 0;       ///< exit status; 127: there is no such program
    std::string output{}; ///< its standard output, 256 KiB at most
};

struct host {
    std::string root{};   ///< before every path
    std::function<command_result(const command&)> run;

    /// The first 64 KiB; nothing if there is no such file.
    std::optional<std::string> read(const std::string& path) const;
    /// All of it, 16 MiB at most: /proc/interrupts has a column for each CPU. Nothing if there is more, or reading it fails.
    std::optional<std::string> read_table(const std::string& path) const;
    /// Into a file that exists. Throws std::invalid_argument with a sentence.
    void write(const std::string& path, const std::string& text) const;
    /// The names in a folder, sorted, 65,536 at most; none if there is no such folder.
    std::vector<std::string> list(const std::string& path) const;

    /// This host.
    static host here();
};

/// "ethtool -X eth1 equal 4": as one types it in a shell.
std::string shell_text(const command& words);

} // namespace corewire::topo
