#include "apply.hh"

#include <corewire/reactor/base/unique_fd.hh>
#include <corewire/reactor/topology/host_files.hh>
#include <corewire/reactor/topology/ranges.hh>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <sys/stat.h>
#include <unistd.h>

namespace corewire::topo {

namespace {

constexpr std::size_t most_state = 1u << 20;
constexpr std::size_t most_steps = 8192;
constexpr std::string_view kind_names[] = {"irqbalance", "channels", "hash", "interrupt"};

template <typename... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) {
    throw std::invalid_argument(fmt::format(text, std::forward<Args>(args)...));
}

/// Words of a command that contains none but ours and checked names.
command words_of(std::string_view text) {
    command words;
    for (std::string_view rest = text; !rest.empty();) {
        const std::size_t blank = std::min(rest.find(' '), rest.size());
        words.emplace_back(rest.substr(0, blank));
        rest.remove_prefix(std::min(blank + 1, rest.size()));
    }
    return words;
}

void perform(const host& on, const step& s, const std::string& text, const std::string& cpus) {
    if (s.what == step::kind::interrupt) {
        on.write(fmt::format("/proc/irq/{}/smp_affinity_list", s.number), cpus);
        return;
    }
    const command_result result = on.run(words_of(text));
    if (result.status == 127) refuse("`{}`: there is no such program: install it", text);
    if (result.status != 0)
        refuse("`{}` failed with exit status {} (run as root; it has said why)", text, result.status);
}

void save(const std::string& path, const std::vector<step>& steps, bool first) {
    nlohmann::json all = nlohmann::json::array();
    for (const step& s : steps)
        all.push_back({{"kind", kind_names[static_cast<std::size_t>(s.what)]},
                       {"interface", s.interface},
                       {"number", s.number},
                       {"name", s.name},
                       {"before", s.before},
                       {"separate", s.separate},
                       {"sending", s.sending}});
    const std::string text = nlohmann::json{{"version", 1}, {"steps", all}}.dump() + '\n';
    // The first time the name must be free; afterwards a whole file takes the place of a whole file.
    const std::string target = first ? path : path + ".new";
    if (!first) ::unlink(target.c_str());
    const unique_fd file(::open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file && errno == EEXIST && first)
        refuse("{} exists: advice is applied already; `cw-topo advise --restore` undoes it first", path);
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::fsync(file.get()) != 0)
        refuse("{} cannot be written: {}{}", target, std::strerror(errno),
               errno == EACCES ? " (run as root, or give --state)" : "");
    if (!first && std::rename(target.c_str(), path.c_str()) != 0)
        refuse("{} cannot be written: {}", path, std::strerror(errno));
}

step read_step(const nlohmann::json& entry) {
    step s;
    const std::string kind = entry.at("kind");
    std::size_t index = 0;
    while (index < std::size(kind_names) && kind_names[index] != kind)
        ++index;
    if (index == std::size(kind_names)) throw std::invalid_argument("unknown kind");
    s.what = static_cast<step::kind>(index);
    s.interface = entry.at("interface");
    s.number = entry.at("number").get<unsigned>();
    s.name = entry.value("name", "");
    s.before = entry.at("before");
    s.separate = entry.value("separate", false);
    s.sending = entry.value("sending", 0u); // 0 in files of before it was kept
    const bool of_interface = s.what == step::kind::channels || s.what == step::kind::hash;
    if (of_interface && !is_interface_name(s.interface)) throw std::invalid_argument("no interface");
    if (s.what == step::kind::channels && !parse_unsigned(s.before, placement_limits::most_queue_number))
        throw std::invalid_argument("no number of queues");
    if (s.sending > placement_limits::most_queue_number) throw std::invalid_argument("no number of sending queues");
    if (s.what == step::kind::interrupt && (s.before.size() > 4096 || s.before.empty() || !parse_ranges(s.before)))
        throw std::invalid_argument("no CPUs");
    if (!s.name.empty() && !is_interrupt_name(s.name)) throw std::invalid_argument("no name");
    return s;
}

std::vector<step> load(const std::string& path) {
    const unique_fd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (!file)
        refuse("{} cannot be opened: {}; there is nothing to restore unless --apply used another --state", path,
               std::strerror(errno));
    struct stat about {};
    if (::fstat(file.get(), &about) != 0 || !S_ISREG(about.st_mode) ||
        (about.st_uid != ::geteuid() && about.st_uid != 0) || (about.st_mode & 022) != 0)
        refuse("{} is not only yours to write: nothing is restored from it", path);
    std::string text(most_state + 1, '\0');
    std::size_t size = 0;
    for (ssize_t n; size < text.size() && (n = ::read(file.get(), text.data() + size, text.size() - size)) > 0;)
        size += static_cast<std::size_t>(n);
    if (size > most_state) refuse("{} has more than {} KiB: it is no state file", path, most_state >> 10);
    text.resize(size);
    try {
        const nlohmann::json all = nlohmann::json::parse(text);
        if (all.at("version") != 1 || all.at("steps").size() > most_steps) throw std::invalid_argument("version");
        std::vector<step> steps;
        for (const nlohmann::json& each : all.at("steps"))
            steps.push_back(read_step(each));
        return steps;
    } catch (const std::exception&) {
        refuse("{} is not a state file of this program: nothing is restored from it", path);
    }
}

/// `ethtool -x`: rows "    8:      0     1     2 ...". True if entry i is queue i modulo the number of queues. Below them stands the
/// hash's key, "12:34:...", whose first byte may look like a number: no blank is behind its colon.
bool hash_is_default(const host& on, const std::string& interface) {
    const command_result table = on.run({"ethtool", "-x", interface});
    if (table.status != 0)
        refuse("`ethtool -x {}` failed with exit status {}: install ethtool, and run as root", interface, table.status);
    const unsigned queues = interface_queues(interface, on.root);
    for (std::string_view rest = table.output; !rest.empty();) {
        std::string_view line = trimmed(rest.substr(0, rest.find('\n')));
        rest.remove_prefix(std::min(rest.find('\n'), rest.size() - 1) + 1);
        const std::size_t colon = line.find(':');
        auto index = parse_unsigned(line.substr(0, colon));
        if (colon == line.npos || !index || (colon + 1 < line.size() && line[colon + 1] != ' ')) continue;
        for (line = trimmed(line.substr(colon + 1)); !line.empty(); ++*index) {
            const std::size_t blank = std::min(line.find(' '), line.size());
            if (parse_unsigned(line.substr(0, blank)) != *index % queues) return false;
            line = trimmed(line.substr(blank));
        }
    }
    return true;
}

/// Why an interrupt is not the one that was changed, as a sentence; empty if it is, as far as can be known.
std::string other_interrupt(const std::map<unsigned, std::string>& names, const step& s) {
    if (s.what != step::kind::interrupt || s.name.empty()) return {};
    if (names.empty()) refuse("/proc/interrupts cannot be read, which would say whose interrupt {} is now", s.number);
    const auto now = names.find(s.number);
    if (now == names.end()) return fmt::format("interrupt {} ({}) is gone: there is nothing to put back", s.number, s.name);
    if (now->second == s.name) return {};
    return fmt::format("interrupt {} was {} and is {} now: it is left as it is", s.number, s.name,
                       is_interrupt_name(now->second) ? now->second : "another's");
}

/// What cannot be undone is not done.
void check_hashes(const host& on, const advice& wanted) {
    for (const step& s : wanted.steps)
        if (s.what == step::kind::hash && !hash_is_default(on, s.interface))
            refuse("the table of {}'s hash was set by hand and could not be put back: `ethtool -X {} default` first, "
                   "or do it by hand",
                   s.interface, s.interface);
}

} // namespace

std::size_t apply(const host& on, const machine& cpus, const placement& placed, const std::string& state,
                  const report& say) {
    advice wanted = make_advice(on, cpus, placed);
    check_hashes(on, wanted);
    if (wanted.steps.empty()) return 0;
    std::vector<step> done;
    save(state, done, true);
    try {
        for (;;) {
            for (const step& s : wanted.steps) {
                done.push_back(s);
                save(state, done, false);
                try {
                    perform(on, s, do_text(s), s.cpus);
                } catch (const std::invalid_argument&) { // it has changed nothing: there is nothing to undo
                    done.pop_back();
                    save(state, done, false);
                    throw;
                }
                say(do_text(s));
            }
            if (!wanted.again) return done.size();
            wanted = make_advice(on, cpus, placed);
            if (wanted.again)
                refuse("{} did not get the queues that it was asked for: `ethtool -l {}` says how many it can have",
                       placed.interface, placed.interface);
            check_hashes(on, wanted);
        }
    } catch (const std::exception& error) {
        std::string left;
        try {
            restore(on, state, say);
        } catch (const std::exception& more) {
            left = fmt::format("; and not all is undone: {}", more.what());
        }
        refuse("{}{}", error.what(), left.empty() ? "; everything is as before" : left);
    }
}

std::size_t restore(const host& on, const std::string& state, const report& say) {
    std::vector<step> steps = load(state);
    std::vector<step> failed;
    std::string why;
    const std::size_t count = steps.size();
    std::size_t skipped = 0;
    const auto names = interrupt_names(on);
    for (; !steps.empty(); steps.pop_back()) {
        const step& s = steps.back();
        try {
            if (const std::string why_not = other_interrupt(names, s); !why_not.empty()) {
                say("# " + why_not);
                ++skipped;
                continue;
            }
            perform(on, s, undo_text(s), s.before);
            say(undo_text(s));
        } catch (const std::invalid_argument& error) {
            failed.insert(failed.begin(), s);
            if (why.empty()) why = error.what();
        }
    }
    if (!failed.empty()) {
        save(state, failed, false);
        refuse("{} of {} steps could not be undone and stay in {}: {}", failed.size(), count, state, why);
    }
    if (::unlink(state.c_str()) != 0) refuse("{} cannot be removed: {}", state, std::strerror(errno));
    return count - skipped;
}

} // namespace corewire::topo
