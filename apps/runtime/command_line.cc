#include <corewire/apps/runtime/command_line.hh>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

namespace corewire {

namespace {

constexpr int cannot_set_up = 2;
constexpr std::size_t width_of_names = 34;

/// Our word for "not this value" in CLI11's: it goes through its parser as an error of the command line.
template <typename F>
auto refusable(std::string names, F called) {
    return [name = names.substr(names.rfind(',') + 1), called = std::move(called)](const auto& value) {
        try {
            called(value);
        } catch (const option_refused& why) {
            throw CLI::ValidationError(name, why.what());
        }
    };
}

/// What a config file says that is no option: its words from CLI11's sentence, whose own marks for a section are "++" and "--".
std::string sentence_of(const CLI::App& app, const CLI::Error& error) {
    const std::string_view said = error.what();
    constexpr std::string_view unknown = "INI was not able to parse ";
    if (!said.starts_with(unknown)) return std::string(said);
    std::string_view key = said.substr(unknown.size());
    const bool section = key.ends_with(".++") || key.ends_with(".--");
    if (section) key.remove_suffix(3);
    const std::string file = app.get_config_ptr() == nullptr ? "" : app.get_config_ptr()->as<std::string>();
    return fmt::format("{}: '{}' is no {} of this program", file, key, section ? "section" : "option");
}

} // namespace

const command_option& command_option::check_range(std::int64_t least, std::int64_t most) const {
    option_->check(CLI::Range(least, most));
    return *this;
}

const command_option& command_option::check_range(double least, double most) const {
    option_->check(CLI::Range(least, most));
    return *this;
}

const command_option& command_option::check_one_of(std::vector<std::string> words) const {
    option_->check(CLI::IsMember(std::move(words)));
    return *this;
}

const command_option& command_option::type_name(std::string name) const {
    option_->type_name(std::move(name));
    return *this;
}

const command_option& command_option::capture_default_str() const {
    option_->capture_default_str();
    return *this;
}

const command_option& command_option::required() const {
    option_->required();
    return *this;
}

const command_option& command_option::take_last() const {
    option_->take_last();
    return *this;
}

const command_option& command_option::expected(int least, int most) const {
    option_->expected(least, most);
    return *this;
}

const command_option& command_option::delimiter(char between) const {
    option_->delimiter(between);
    return *this;
}

const command_option& command_option::one_value_each_time() const {
    option_->allow_extra_args(false);
    return *this;
}

const command_option& command_option::excludes(const command_option& other) const {
    option_->excludes(other.option_);
    return *this;
}

command_line::command_line(std::string program, std::string description)
    : app_(std::make_shared<CLI::App>(std::move(description), std::move(program))) {
    app_->get_formatter()->column_width(width_of_names);
}

template <option_value T>
command_option command_line::add_option(std::string names, T& variable, std::string help) {
    return command_option(app_->add_option(std::move(names), variable, std::move(help)));
}

template command_option command_line::add_option(std::string, std::uint8_t&, std::string);
template command_option command_line::add_option(std::string, std::uint16_t&, std::string);
template command_option command_line::add_option(std::string, std::uint32_t&, std::string);
template command_option command_line::add_option(std::string, std::uint64_t&, std::string);
template command_option command_line::add_option(std::string, std::int32_t&, std::string);
template command_option command_line::add_option(std::string, std::int64_t&, std::string);
template command_option command_line::add_option(std::string, double&, std::string);
template command_option command_line::add_option(std::string, std::string&, std::string);
template command_option command_line::add_option(std::string, std::optional<unsigned>&, std::string);
template command_option command_line::add_option(std::string, std::vector<std::string>&, std::string);
template command_option command_line::add_option(std::string, std::vector<unsigned>&, std::string);

command_option command_line::add_flag(std::string names, bool& variable, std::string help) {
    return command_option(app_->add_flag(std::move(names), variable, std::move(help)));
}

template <one_of<std::string, std::uint32_t, std::uint64_t> T>
command_option command_line::add_option_function(std::string names, std::function<void(const T&)> called, std::string help) {
    return command_option(app_->add_option_function<T>(names, refusable(names, std::move(called)), std::move(help)));
}

template command_option command_line::add_option_function(std::string, std::function<void(const std::string&)>, std::string);
template command_option command_line::add_option_function(std::string, std::function<void(const std::uint32_t&)>, std::string);
template command_option command_line::add_option_function(std::string, std::function<void(const std::uint64_t&)>, std::string);

command_option command_line::add_list_function(std::string names, std::function<void(const std::vector<std::string>&)> called,
                                               std::string help) {
    const auto read = [take = refusable(names, std::move(called))](const CLI::results_t& values) {
        take(values);
        return true;
    };
    return command_option(app_->add_option(std::move(names), read, std::move(help)));
}

command_line command_line::add_option_group(std::string heading) {
    return command_line(std::shared_ptr<CLI::App>(app_, app_->add_option_group(std::move(heading))));
}

command_option command_line::add_config_file(std::string names, std::string help) {
    app_->allow_config_extras(CLI::config_extras_mode::error);
    return command_option(app_->set_config(std::move(names), "", std::move(help)));
}

command_line command_line::add_subcommand(std::string name, std::string description) {
    return command_line(std::shared_ptr<CLI::App>(app_, app_->add_subcommand(std::move(name), std::move(description))));
}

void command_line::require_subcommand(int least, int most) {
    app_->require_subcommand(static_cast<std::size_t>(least), static_cast<std::size_t>(most));
}

void command_line::callback(std::function<void()> called) { app_->callback(std::move(called)); }
bool command_line::got_subcommand(const std::string& name) const { return app_->got_subcommand(name); }

bool command_line::given(const std::string& name) const {
    const CLI::Option* option = app_->get_option_no_throw(name);
    if (!option) throw std::out_of_range(fmt::format("no option {}", name));
    return !option->empty();
}

std::optional<int> command_line::parse(int argc, char** argv) {
    try {
        app_->parse(argc, argv);
        return std::nullopt;
    } catch (const CLI::Success& help) {
        return app_->exit(help);
    } catch (const CLI::Error& error) {
        return refuse(fmt::format("{} (--help lists the options)", sentence_of(*app_, error)));
    } catch (const std::exception& error) {
        return refuse(error.what());
    }
}

void command_line::read(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end()); // CLI11 takes them from the back
    try {
        app_->parse(words);
    } catch (const CLI::Error& error) {
        throw std::invalid_argument(sentence_of(*app_, error));
    }
}

int command_line::refuse(std::string_view why) const {
    // One line, whatever a library's message looks like.
    fmt::print(stderr, "{}: {}\n", app_->get_name(), why.substr(0, why.find('\n')));
    return cannot_set_up;
}

} // namespace corewire
