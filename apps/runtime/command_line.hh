// command_line: what a program was asked to do. A thin cover over CLI11, whose header costs four seconds of compiling in each
// source that includes it: only command_line.cc does. Where a name here is CLI11's, it means what CLI11's manual says.
//
//     command_line line("cw-ant", "Carries leaves.");
//     line.add_option("--leaves", leaves, "How many").check_range(1, 1000).capture_default_str();
//     const auto quick = line.add_flag("--quick", in_haste, "Run");
//     line.add_flag("--slow", at_ease, "Stroll").excludes(quick);
//     if (const auto status = line.parse(argc, argv)) return *status;    // --help, or an error (already printed)
//
// Both classes are handles: copies are of the same command line and the same option. Variables are written by parse() and
// outlive it. One thread.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
} // namespace CLI

namespace corewire {

template <typename T, typename... Of>
concept one_of = (std::same_as<T, Of> || ...);

/// What an option's value may be: a number, text, a number that is not set before, a list.
template <typename T>
concept option_value = one_of<T, std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::int32_t, std::int64_t, double, std::string,
                              std::optional<unsigned>, std::vector<std::string>, std::vector<unsigned>>;

/// Thrown by what an option calls: why its value is refused. The user reads "--option: why".
struct option_refused : std::invalid_argument {
    using std::invalid_argument::invalid_argument;
};

/// An option while it is being described.
class command_option {
public:
    const command_option& check_range(std::int64_t least, std::int64_t most) const;
    const command_option& check_range(double least, double most) const;
    const command_option& check_range(std::integral auto least, std::integral auto most) const {
        return check_range(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most));
    }
    /// The value is one of these words.
    const command_option& check_one_of(std::vector<std::string> words) const;
    const command_option& type_name(std::string name) const;
    const command_option& capture_default_str() const; ///< the help shows what the variable has now
    const command_option& required() const;
    const command_option& take_last() const; ///< given twice, the last counts
    const command_option& expected(int least, int most) const;
    const command_option& delimiter(char between) const;     ///< of a list: "1,2"
    const command_option& one_value_each_time() const;       ///< of a list: "--shard 1 --shard 2"
    const command_option& excludes(const command_option& other) const;

private:
    friend class command_line;
    explicit command_option(CLI::Option* option) noexcept : option_(option) {}
    CLI::Option* option_; // the command line's
};

class command_line {
public:
    command_line(std::string program, std::string description);

    /// `names`: "--port", "-p,--port", or "port" for one without a dash. Throws std::logic_error when there is such an option already.
    template <option_value T>
    command_option add_option(std::string names, T& variable, std::string help = {});
    command_option add_flag(std::string names, bool& variable, std::string help = {});
    /// Calls with the value, each time the option is given.
    template <one_of<std::string, std::uint32_t, std::uint64_t> T>
    command_option add_option_function(std::string names, std::function<void(const T&)> called, std::string help = {});
    /// Calls once, with all its values: as many as expected() says, otherwise one.
    command_option add_list_function(std::string names, std::function<void(const std::vector<std::string>&)> called, std::string help = {});
    /// Options under a heading of their own in the help.
    command_line add_option_group(std::string heading);
    /// An option that names a TOML file with options in it; anything else in it is refused.
    command_option add_config_file(std::string names, std::string help);

    command_line add_subcommand(std::string name, std::string description = {});
    void require_subcommand(int least, int most);
    /// Of a subcommand: called by parse() when it was given.
    void callback(std::function<void()> called);
    bool got_subcommand(const std::string& name) const;

    /// This option was given. Throws std::out_of_range when there is none of that name.
    bool given(const std::string& name) const;
    /// Nothing: go on. Otherwise the exit code: 0 after --help, which is printed; 2 after one line on stderr.
    std::optional<int> parse(int argc, char** argv);
    /// The same for the words behind the program's name. Throws std::invalid_argument with the line, or what an option's function throws.
    void read(std::vector<std::string> words);
    /// One line on stderr: "program: why". The exit code: 2.
    int refuse(std::string_view why) const;

private:
    explicit command_line(std::shared_ptr<CLI::App> app) noexcept : app_(std::move(app)) {}
    std::shared_ptr<CLI::App> app_;
};

} // namespace corewire
