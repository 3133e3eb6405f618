#include <corewire/reactor/topology/host_files.hh>

#include <corewire/reactor/topology/ranges.hh>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace corewire {

namespace {

constexpr std::size_t most_read = 65'536;
constexpr std::size_t most_entries = 1024;

std::vector<unsigned> cpu_list(const std::string& path) {
    const auto text = read_small_file(path);
    if (!text) return {};
    return parse_ranges(*text).value_or(std::vector<unsigned>{}); // "(null)" on kernels without nohz_full
}

/// "400000 100000" (v2: the first may be "max"): quota over period.
std::optional<double> ratio(std::string_view text) {
    text = trimmed(text);
    const std::size_t blank = text.find(' ');
    if (blank == text.npos) return std::nullopt;
    const auto quota = parse_unsigned(text.substr(0, blank), 4'000'000'000U);
    const auto period = parse_unsigned(trimmed(text.substr(blank)), 4'000'000'000U);
    if (!quota || !period || *quota == 0 || *period == 0) return std::nullopt;
    return static_cast<double>(*quota) / *period;
}

std::optional<double> quota_of(const std::string& folder, bool v2) {
    if (v2) {
        const auto max = read_small_file(folder + "/cpu.max");
        return max ? ratio(*max) : std::nullopt;
    }
    const auto quota = read_small_file(folder + "/cpu.cfs_quota_us");
    const auto period = read_small_file(folder + "/cpu.cfs_period_us");
    return quota && period ? ratio(std::string(trimmed(*quota)) + ' ' + *period) : std::nullopt;
}

/// The tightest limit from the process's cgroup up to the root of what it can see.
std::optional<double> cpu_quota(const std::string& root) {
    const std::string groups = read_small_file(root + "/proc/self/cgroup").value_or("");
    std::optional<double> tightest;
    for (std::string_view rest = groups; !rest.empty();) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        const std::string_view line = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        const std::size_t first = line.find(':');
        const std::size_t second = first == line.npos ? first : line.find(':', first + 1);
        if (second == line.npos) continue;
        const std::string_view controllers = line.substr(first + 1, second - first - 1);
        const bool v2 = controllers.empty();
        if (!v2 && controllers != "cpu" && controllers != "cpu,cpuacct" && controllers != "cpuacct,cpu") continue;
        const std::string base = root + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu");
        for (std::string group{line.substr(second + 1)};;) {
            if (const auto here = quota_of(base + group, v2)) tightest = std::min(*here, tightest.value_or(*here));
            if (group.empty()) break;
            group.resize(group.find_last_of('/') == group.npos ? 0 : group.find_last_of('/'));
        }
    }
    if (!tightest || *tightest > most_quota) return std::nullopt;
    return std::max(*tightest, least_quota);
}

} // namespace

std::optional<std::string> read_small_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return std::nullopt;
    std::string text(most_read, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(in.gcount()));
    return text;
}

cpu_facts read_cpu_facts(const std::string& root) {
    return {.isolated = cpu_list(root + "/sys/devices/system/cpu/isolated"),
            .tickless = cpu_list(root + "/sys/devices/system/cpu/nohz_full"),
            .quota = cpu_quota(root)};
}

unsigned interface_queues(const std::string& interface, const std::string& root) {
    unsigned count = 0;
    std::error_code none;
    for (std::filesystem::directory_iterator each(root + "/sys/class/net/" + interface + "/queues", none), end;
         !none && each != end && count < most_entries; each.increment(none))
        if (each->path().filename().string().starts_with("rx-")) ++count;
    return count;
}

std::vector<std::string> interface_names(const std::string& root) {
    std::vector<std::string> names;
    std::error_code none;
    for (std::filesystem::directory_iterator each(root + "/sys/class/net", none), end;
         !none && each != end && names.size() < most_entries; each.increment(none))
        names.push_back(each->path().filename().string());
    std::ranges::sort(names);
    return names;
}

} // namespace corewire
