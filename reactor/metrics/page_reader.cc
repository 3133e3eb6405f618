#include <corewire/reactor/metrics/page_reader.hh>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

namespace corewire {

namespace {

constexpr std::size_t max_files = 4096; ///< of one user
constexpr std::uint64_t hour = 3'600'000'000'000;

std::string fixed_text(const std::array<char, 64>& raw) {
    return printable({raw.data(), ::strnlen(raw.data(), raw.size())});
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) noexcept {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

/// What may still be kept. Series can share their bytes in the file, so what is kept of them is counted, not what the file has.
struct allowance {
    std::size_t report = max_report;
    std::size_t labels = 0, values = 0; ///< of a section: each series has its own, as the registry hands them out

    page_error take(const page::series& raw, std::size_t value_count) noexcept {
        if (raw.labels_size > labels || value_count > values) return page_error::damaged;
        const std::size_t needs = sizeof(series_report) + raw.name_size + raw.labels_size + value_count * sizeof(std::uint64_t);
        if (needs > report) return page_error::too_much;
        labels -= raw.labels_size;
        values -= value_count;
        report -= needs;
        return page_error::none;
    }
};

page_error parse_series(std::span<const std::byte> section, const page::series& raw, series_report& out, allowance& left) {
    const auto inside = [](std::uint32_t at, std::uint16_t size, std::size_t most) {
        return size <= most && std::size_t{at} + size <= page::string_capacity;
    };
    const std::size_t values = raw.buckets == 0 ? 1 : 2u * raw.buckets + 2;
    if (!inside(raw.name, raw.name_size, max_metric_name) || !inside(raw.help, raw.help_size, max_metric_help) ||
        !inside(raw.labels, raw.labels_size, max_metric_labels) ||
        raw.kind > static_cast<std::uint8_t>(metric_kind::histogram) ||
        raw.unit > static_cast<std::uint8_t>(metric_unit::parts_per_million) ||
        (raw.kind == static_cast<std::uint8_t>(metric_kind::histogram)) != (raw.buckets != 0) ||
        std::size_t{raw.value} + values > page::value_capacity || raw.buckets > 64)
        return page_error::damaged;
    if (const page_error error = left.take(raw, values); error != page_error::none) return error;
    const auto text = [&](std::uint32_t at, std::uint16_t size) {
        return printable({reinterpret_cast<const char*>(section.data() + page::strings_at + at), size});
    };
    out.name = text(raw.name, raw.name_size);
    if (!valid_metric_name(out.name)) return page_error::damaged;
    out.labels = text(raw.labels, raw.labels_size);
    out.kind = static_cast<metric_kind>(raw.kind);
    out.unit = static_cast<metric_unit>(raw.unit);
    out.values.resize(values);
    for (std::size_t i = 0; i < values; ++i)
        out.values[i] = load<std::uint64_t>(section, page::values_at + (raw.value + i) * sizeof(std::uint64_t));
    return page_error::none;
}

page_error parse_section(std::span<const std::byte> section, section_report& out, allowance& left) {
    const auto head = load<page::section_header>(section, 0);
    if (head.series_count > page::series_capacity || head.row_count > page::row_capacity) return page_error::damaged;
    left.labels = page::string_capacity;
    left.values = page::value_capacity;
    out.published = head.published;
    out.publications = head.publications;
    out.interval = std::min(head.interval, hour);
    out.row_total = head.row_total;
    for (std::uint32_t i = 0; i < head.row_count; ++i) {
        const auto row = load<page::row>(section, page::rows_at + i * sizeof(page::row));
        if (row.begin == row.end) out.rows.push_back(row.fields);
    }
    for (std::uint32_t i = 0; i < head.series_count; ++i) {
        const auto raw = load<page::series>(section, page::series_at + i * sizeof(page::series));
        if (raw.live == 0) continue;
        const page_error error = parse_series(section, raw, out.series.emplace_back(), left);
        if (error != page_error::none) return error;
    }
    return page_error::none;
}

/// Whether the process that made the page lives still.
bool lives(const page_report& report) noexcept {
    const std::uint64_t started = report.pid == 0 ? 0 : process_start_time(report.pid);
    return started != 0 && started == report.start_time;
}

process_state state_of(const page_report& report) noexcept {
    if (!lives(report)) return process_state::dead;
    const std::uint64_t now = boot_time_ns();
    for (const section_report& s : report.sections) {
        const std::uint64_t last = std::min(s.published != 0 ? s.published : report.created, now);
        if (now - last > 2'000'000'000 + 3 * s.interval) return process_state::hung;
    }
    return process_state::running;
}

/// The owner of a process; false if there is none.
bool owner_of(std::uint32_t pid, uid_t& owner) noexcept {
    struct stat about{};
    const std::string path = fmt::format("/proc/{}", pid);
    if (::stat(path.c_str(), &about) != 0) return false;
    owner = about.st_uid;
    return true;
}

/// What is before the sections. `file_size`: of the whole page.
page_error parse_header(std::span<const std::byte> bytes, std::size_t file_size, page_report& out) {
    if (bytes.size() < page::header_size) return page_error::too_short;
    const auto head = load<page::header>(bytes, 0);
    if (head.magic != page::magic || head.version != page::version || head.header_size != page::header_size ||
        head.section_size != page::section_size || head.shards == 0 || head.shards > page::max_shards)
        return page_error::not_a_page;
    if (file_size < page::size_for(head.shards)) return page_error::too_short;
    out = {};
    out.pid = head.pid;
    out.start_time = head.start_time;
    out.created = head.created;
    out.program = fixed_text(head.program);
    out.network = fixed_text(head.network);
    out.sections.resize(head.shards);
    return page_error::none;
}

struct give_back {
    void operator()(std::byte* p) const noexcept { std::free(p); }
};
using bytes_copy = std::unique_ptr<std::byte, give_back>;

/// Of a file. Pages of it that were never written are not read: the copy is zero there already. Null: it was cut meanwhile.
bytes_copy copy_of(const unique_fd& file, std::size_t from, std::size_t size) {
    bytes_copy copy(static_cast<std::byte*>(std::calloc(size, 1)));
    if (!copy) throw std::bad_alloc();
    const auto end = static_cast<off_t>(from + size);
    for (auto at = static_cast<off_t>(from); at < end;) {
        const off_t data = ::lseek(file.get(), at, SEEK_DATA);
        if (data < 0 || data >= end) break; // a hole to the end
        off_t hole = ::lseek(file.get(), data, SEEK_HOLE);
        if (hole < 0 || hole > end) hole = end;
        for (at = data; at < hole;) {
            const auto to = copy.get() + (at - static_cast<off_t>(from));
            const ssize_t n = ::pread(file.get(), to, static_cast<std::size_t>(hole - at), at);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) return nullptr;
            at += n;
        }
    }
    return copy;
}

/// A file can say anything. It speaks for a process only if both belong to the same user.
bool speaks_for(const page_report& report, const struct stat& file) {
    uid_t owner;
    return !owner_of(report.pid, owner) || owner == file.st_uid || !lives(report);
}

page_error read_file(const unique_fd& file, const struct stat& about, page_report& out) {
    const auto size = static_cast<std::size_t>(about.st_size);
    if (size < page::header_size) return page_error::too_short;
    const bytes_copy head = copy_of(file, 0, page::header_size);
    if (!head) return page_error::too_short;
    if (const page_error error = parse_header({head.get(), page::header_size}, size, out); error != page_error::none) return error;
    if (!speaks_for(out, about)) return page_error::not_ours_to_read;
    allowance left;
    for (std::size_t shard = 0; shard < out.sections.size(); ++shard) {
        const bytes_copy section = copy_of(file, page::header_size + shard * page::section_size, page::section_size);
        if (!section) return page_error::too_short;
        const page_error error = parse_section({section.get(), page::section_size}, out.sections[shard], left);
        if (error != page_error::none) return error;
    }
    out.state = state_of(out);
    return page_error::none;
}

page_error open_page(const std::string& path, unique_fd& file, struct stat& about) noexcept {
    file = unique_fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!file || ::fstat(file.get(), &about) != 0) return page_error::cannot_open;
    if (!S_ISREG(about.st_mode)) return page_error::not_ours_to_read;
    if (about.st_size < 0 || static_cast<std::size_t>(about.st_size) > max_page) return page_error::too_large;
    return page_error::none;
}

} // namespace

std::string printable(std::string_view raw) {
    std::string text(raw);
    std::replace_if(text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

std::string_view name_of(process_state state) noexcept {
    switch (state) {
    case process_state::running: return "running";
    case process_state::hung: return "hung";
    case process_state::dead: return "dead";
    }
    return "?";
}

std::string_view name_of(page_error error) noexcept {
    switch (error) {
    case page_error::none: return "no error";
    case page_error::cannot_open: return "cannot be opened";
    case page_error::not_ours_to_read: return "is no regular file, or not of the process's owner";
    case page_error::too_large: return "is larger than any page";
    case page_error::too_short: return "is cut short";
    case page_error::not_a_page: return "is no page of this version";
    case page_error::damaged: return "is damaged";
    case page_error::too_much: return "says more than there is room for";
    }
    return "?";
}

page_error parse_page(std::span<const std::byte> bytes, page_report& out) {
    if (const page_error error = parse_header(bytes, bytes.size(), out); error != page_error::none) return error;
    allowance left;
    for (std::size_t shard = 0; shard < out.sections.size(); ++shard) {
        const auto section = bytes.subspan(page::header_size + shard * page::section_size, page::section_size);
        if (const page_error error = parse_section(section, out.sections[shard], left); error != page_error::none) return error;
    }
    return page_error::none;
}

page_error read_page(const std::string& path, page_report& out) {
    unique_fd file;
    struct stat about{};
    if (const page_error error = open_page(path, file, about); error != page_error::none) return error;
    try {
        return read_file(file, about, out);
    } catch (const std::bad_alloc&) { // where memory is short: the next page may be smaller
        out = {};
        return page_error::too_much;
    }
}

std::vector<page_file> find_pages(const std::string& folder) {
    std::vector<page_file> found;
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
    if (!listing) return found;
    std::map<uid_t, std::size_t> of_user; // the folder is everybody's: nobody's files are to crowd out another's
    while (const dirent* entry = ::readdir(listing.get())) {
        std::string_view name = entry->d_name;
        if (!name.starts_with(metrics_page::file_prefix)) continue;
        name.remove_prefix(metrics_page::file_prefix.size());
        std::uint32_t pid = 0;
        const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
        if (error != std::errc{} || end != name.data() + name.size() || name.front() == '0') continue;
        struct stat about{};
        if (::fstatat(::dirfd(listing.get()), entry->d_name, &about, AT_SYMLINK_NOFOLLOW) != 0) continue; // just removed
        if (++of_user[about.st_uid] > max_files) continue;
        found.push_back({fmt::format("{}/{}", folder, entry->d_name), pid});
    }
    std::sort(found.begin(), found.end(), [](const page_file& a, const page_file& b) { return a.pid < b.pid; });
    return found;
}

std::size_t collect_dead_pages(std::uint64_t age, const std::string& folder) {
    std::size_t removed = 0;
    for (const page_file& each : find_pages(folder)) {
        unique_fd file;
        struct stat about{};
        if (open_page(each.path, file, about) == page_error::cannot_open || about.st_uid != ::geteuid()) continue;
        page::header head;
        const bool a_page = ::pread(file.get(), &head, sizeof head, 0) == static_cast<ssize_t>(sizeof head) && head.magic == page::magic;
        const std::uint64_t started = process_start_time(each.pid);
        if (started != 0 && (!a_page || head.pid != each.pid || started == head.start_time)) continue;
        const bool name_is_wanted = each.pid == static_cast<std::uint32_t>(::getpid());
        std::uint64_t last = a_page ? head.created : 0;
        for (std::uint32_t shard = 0; a_page && shard < std::min(head.shards, page::max_shards); ++shard) {
            page::section_header section;
            const auto at = static_cast<off_t>(head.header_size + shard * head.section_size); // of whatever version it is
            if (::pread(file.get(), &section, sizeof section, at) == static_cast<ssize_t>(sizeof section))
                last = std::max(last, section.published);
        }
        const std::uint64_t now = boot_time_ns();
        if (!name_is_wanted && last <= now && now - last < age) continue;
        if (::unlink(each.path.c_str()) == 0) ++removed;
    }
    return removed;
}

} // namespace corewire
