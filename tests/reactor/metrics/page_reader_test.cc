// Pages of living, hung and dead processes, and pages that somebody hostile has written.
// ctest: timeout=120
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/metrics/page_reader.hh>
#include <corewire/reactor/metrics/registry.hh>
#include <tests/support/netns.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace corewire;
namespace fs = std::filesystem;

namespace {

struct folder_of_pages {
    fs::path folder = fs::temp_directory_path() / fmt::format("corewire-pages-{}", ::getpid());
    folder_of_pages() { fs::create_directory(folder); }
    ~folder_of_pages() { fs::remove_all(folder); }

    std::string path_of(pid_t pid) const { return fmt::format("{}/corewire-{}", folder.string(), pid); }
    std::size_t files() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {})); }

    /// A child process that publishes once and then ends as a crash would: without removing its page.
    pid_t crash() const {
        const pid_t child = ::fork();
        if (child == 0) {
            auto* left = new metrics_page("crasher", "wire", 1, folder.string());
            metric_registry registry(*left, 0, "shard=\"0\"");
            std::uint64_t value = 42;
            registry.add("test_total", "Help.", metric_kind::counter, value, metric_unit::count, {});
            registry.publish(0, 10);
            registry.end_round(250'000'000);
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
        return child;
    }
};

std::vector<std::byte> bytes_of(const std::string& path) {
    std::vector<std::byte> bytes(fs::file_size(path));
    const unique_fd file(::open(path.c_str(), O_RDONLY));
    BOOST_REQUIRE(::read(file.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    return bytes;
}

} // namespace

BOOST_FIXTURE_TEST_SUITE(page_reader, folder_of_pages)

BOOST_AUTO_TEST_CASE(what_a_process_publishes_is_read_back) {
    std::uint64_t value = 5;
    metrics_page page("reader-test", "tap", 2, folder.string());
    BOOST_REQUIRE(page.why_private() == "");
    struct stat about{};
    BOOST_REQUIRE(::stat(page.path().c_str(), &about) == 0);
    BOOST_TEST((about.st_mode & 0777) == 0600u);
    BOOST_TEST(about.st_blocks * 512 < 1'000'000); // what is not used takes no memory
    metric_registry first(page, 0, "shard=\"0\""), second(page, 1, "shard=\"1\"");
    metric_group group(&second, "reason=\"x\"");
    group.counter("test_total", "Help.", value);
    for (metric_registry* each : {&first, &second}) {
        each->publish(0, 100);
        each->end_round(250'000'000);
    }
    second.row(0).fields[3] = 77;
    second.head().row_count = 2;
    second.head().row_total = 9;
    second.row(1).end = 1; // being written

    page_report report;
    BOOST_REQUIRE(name_of(read_page(page.path(), report)) == "no error");
    BOOST_TEST(report.pid == static_cast<std::uint32_t>(::getpid()));
    BOOST_TEST(report.program == "reader-test");
    BOOST_TEST(report.network == "tap");
    BOOST_TEST(name_of(report.state) == "running");
    BOOST_REQUIRE(report.sections.size() == 2u);
    BOOST_TEST(report.sections[0].series.empty());
    BOOST_REQUIRE(report.sections[1].series.size() == 1u);
    const series_report& s = report.sections[1].series[0];
    BOOST_TEST(s.name == "test_total");
    BOOST_TEST(s.labels == "shard=\"1\",reason=\"x\"");
    BOOST_TEST(s.values[0] == 5u);
    BOOST_REQUIRE(report.sections[1].rows.size() == 1u);
    BOOST_TEST(report.sections[1].rows[0][3] == 77u);
    BOOST_TEST(report.sections[1].row_total == 9u);
}

BOOST_AUTO_TEST_CASE(the_page_goes_with_its_owner) {
    { metrics_page page("gone", "none", 1, folder.string()); }
    BOOST_TEST(files() == 0u);
}

BOOST_AUTO_TEST_CASE(a_process_that_does_not_publish_any_more_is_hung) {
    metrics_page page("hung", "none", 1, folder.string());
    metric_registry registry(page, 0, "shard=\"0\"");
    registry.end_round(250'000'000);
    registry.head().published = boot_time_ns() - 5'000'000'000;
    page_report report;
    BOOST_REQUIRE(read_page(page.path(), report) == page_error::none);
    BOOST_TEST(name_of(report.state) == "hung");
}

BOOST_AUTO_TEST_CASE(a_dead_process_can_still_be_read_and_is_collected_in_time) {
    const pid_t child = crash();
    page_report report;
    BOOST_REQUIRE(read_page(path_of(child), report) == page_error::none);
    BOOST_TEST(name_of(report.state) == "dead");
    BOOST_TEST(report.sections[0].series.at(0).values[0] == 42u);
    BOOST_TEST(collect_dead_pages(60'000'000'000, folder.string()) == 0u); // too young
    BOOST_TEST(find_pages(folder.string()).size() == 1u);
    BOOST_TEST(collect_dead_pages(0, folder.string()) == 1u);
    BOOST_TEST(files() == 0u);
}

BOOST_AUTO_TEST_CASE(a_living_process_is_never_collected) {
    metrics_page page("alive", "none", 1, folder.string());
    BOOST_TEST(collect_dead_pages(0, folder.string()) == 0u);
    BOOST_TEST(files() == 1u);
}

BOOST_AUTO_TEST_CASE(a_pid_that_is_used_again_is_told_by_its_start_time) {
    const pid_t child = crash();
    auto bytes = bytes_of(path_of(child));
    page::header head;
    std::memcpy(&head, bytes.data(), sizeof head);
    head.pid = static_cast<std::uint32_t>(::getpid()); // alive, but born at another time
    const unique_fd file(::open(path_of(child).c_str(), O_WRONLY));
    BOOST_REQUIRE(::pwrite(file.get(), &head, sizeof head, 0) == static_cast<ssize_t>(sizeof head));
    fs::rename(path_of(child), path_of(::getpid()));
    page_report report;
    BOOST_REQUIRE(read_page(path_of(::getpid()), report) == page_error::none);
    BOOST_TEST(name_of(report.state) == "dead");
    // The name is ours, and the one who used it is gone: whatever its age.
    BOOST_TEST(collect_dead_pages(UINT64_MAX, folder.string()) == 1u);
}

BOOST_AUTO_TEST_CASE(a_name_that_is_taken_leaves_the_process_without_a_file) {
    metrics_page first("first", "none", 1, folder.string());
    metrics_page second("second", "none", 1, folder.string());
    BOOST_TEST(second.path() == "");
    BOOST_TEST(second.why_private().find("File exists") != std::string::npos);
    metric_registry registry(second, 0, "shard=\"0\"");
    std::uint64_t value = 3;
    registry.add("test_total", "Help.", metric_kind::counter, value, metric_unit::count, {});
    registry.publish(0, 10);
    BOOST_TEST(registry.value(0) == 3u);
    metrics_page third("third", "none", 1, "/nowhere");
    BOOST_TEST(third.why_private().find("No such file") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(links_pipes_folders_and_huge_files_are_refused) {
    metrics_page page("target", "none", 1, folder.string());
    page_report report;
    fs::create_symlink(page.path(), folder / "corewire-1");
    BOOST_TEST(name_of(read_page(path_of(1), report)) == name_of(page_error::cannot_open));
    BOOST_REQUIRE(::mkfifo(path_of(2).c_str(), 0600) == 0);
    BOOST_TEST(name_of(read_page(path_of(2), report)) == name_of(page_error::not_ours_to_read));
    fs::create_directory(path_of(3));
    BOOST_TEST(name_of(read_page(path_of(3), report)) == name_of(page_error::not_ours_to_read));
    { const unique_fd file(::open(path_of(4).c_str(), O_CREAT | O_WRONLY, 0600)); }
    fs::resize_file(path_of(4), max_page + 1);
    BOOST_TEST(name_of(read_page(path_of(4), report)) == name_of(page_error::too_large));
    fs::resize_file(path_of(4), 100);
    BOOST_TEST(name_of(read_page(path_of(4), report)) == name_of(page_error::too_short));
    fs::resize_file(path_of(4), page::size_for(1));
    BOOST_TEST(name_of(read_page(path_of(4), report)) == name_of(page_error::not_a_page));
    BOOST_TEST(name_of(read_page(path_of(5), report)) == name_of(page_error::cannot_open));
    fs::remove(path_of(1)), fs::remove(path_of(2)), fs::remove(path_of(3));
    // No page, of a process that does not exist: collected.
    fs::rename(path_of(4), path_of(4'194'304 + 1));
    BOOST_TEST(collect_dead_pages(0, folder.string()) == 1u);
}

BOOST_AUTO_TEST_CASE(names_that_are_no_pages_are_left_alone) {
    for (const char* name : {"corewire-", "corewire-x", "corewire-12x", "corewire-0", "corewire-007", "corewire-99999999999999", "other"})
        const unique_fd file(::open((folder / name).c_str(), O_CREAT | O_WRONLY, 0600));
    BOOST_TEST(find_pages(folder.string()).empty());
    BOOST_TEST(collect_dead_pages(0, folder.string()) == 0u);
    BOOST_TEST(files() == 7u);
}

BOOST_AUTO_TEST_CASE(nobody_s_files_crowd_out_those_of_others) {
    if (!test::have_root()) return; // who makes files of others
    const auto leave = [&](pid_t pid, uid_t owner) {
        const unique_fd file(::open(path_of(pid).c_str(), O_CREAT | O_WRONLY, 0600));
        BOOST_REQUIRE(::fchown(file.get(), owner, owner) == 0);
    };
    for (pid_t pid = 1; pid <= 5'000; ++pid) leave(pid, 65'534);
    for (const pid_t pid : {7'001, 7'002}) leave(pid, 0);
    const auto found = find_pages(folder.string());
    BOOST_TEST(found.size() == 4'098u);
    BOOST_TEST(found.back().pid == 7'002u);
    BOOST_TEST(found[found.size() - 2].pid == 7'001u);
}

BOOST_AUTO_TEST_CASE(a_page_cut_anywhere_is_refused) {
    const auto bytes = bytes_of(path_of(crash()));
    page_report report;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, page::header_size - 1, page::header_size, bytes.size() - 1})
        BOOST_TEST((parse_page({bytes.data(), size}, report) != page_error::none));
    BOOST_TEST((parse_page(bytes, report) == page_error::none));
}

BOOST_AUTO_TEST_CASE(every_bound_is_checked) {
    const auto good = bytes_of(path_of(crash()));
    const std::size_t section = page::header_size, entry = section + page::series_at;
    const auto with = [&](std::size_t at, auto value) {
        auto bytes = good;
        std::memcpy(bytes.data() + at, &value, sizeof value);
        page_report report;
        return name_of(parse_page(bytes, report));
    };
    const auto damaged = name_of(page_error::damaged), other = name_of(page_error::not_a_page);
    BOOST_TEST(with(offsetof(page::header, magic), std::uint64_t{1}) == other);
    BOOST_TEST(with(offsetof(page::header, version), std::uint32_t{99}) == other);
    BOOST_TEST(with(offsetof(page::header, shards), std::uint32_t{0}) == other);
    BOOST_TEST(with(offsetof(page::header, shards), UINT32_MAX) == other);
    BOOST_TEST(with(offsetof(page::header, shards), std::uint32_t{2}) == name_of(page_error::too_short));
    BOOST_TEST(with(offsetof(page::header, section_size), std::uint64_t{64}) == other);
    BOOST_TEST(with(section + offsetof(page::section_header, series_count), UINT32_MAX) == damaged);
    BOOST_TEST(with(section + offsetof(page::section_header, row_count), page::row_capacity + 1) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, name), UINT32_MAX) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, labels), page::string_capacity) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, name_size), std::uint16_t{0}) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, name_size), std::uint16_t{101}) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, help_size), std::uint16_t{1000}) == "no error");
    BOOST_TEST(with(entry + offsetof(page::series, help_size), std::uint16_t{1001}) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, labels_size), std::uint16_t{1000}) == "no error");
    BOOST_TEST(with(entry + offsetof(page::series, labels_size), std::uint16_t{1001}) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, kind), std::uint8_t{9}) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, unit), std::uint8_t{9}) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, value), UINT32_MAX) == damaged);
    BOOST_TEST(with(entry + offsetof(page::series, buckets), std::uint16_t{5}) == damaged); // of a counter
    BOOST_TEST(with(entry + offsetof(page::series, live), std::uint16_t{0}) == "no error");
}

BOOST_AUTO_TEST_CASE(series_that_share_their_texts_do_not_make_a_report_of_any_size) {
    // 16,384 series of a section have the same few bytes of labels: megabytes from half of one, and so on in each section.
    const auto report_of = [&](std::uint32_t shards, page::series one) {
        const std::string path = path_of(9);
        const unique_fd file(::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR, 0600));
        const auto put = [&](std::size_t at, const void* from, std::size_t size) {
            BOOST_REQUIRE(::pwrite(file.get(), from, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size));
        };
        page::header head;
        head.magic = page::magic;
        head.version = page::version;
        head.header_size = page::header_size;
        head.section_size = page::section_size;
        head.shards = shards;
        BOOST_REQUIRE(::ftruncate(file.get(), static_cast<off_t>(page::size_for(shards))) == 0);
        put(0, &head, sizeof head);
        const std::vector<page::series> all(page::series_capacity, one);
        page::section_header told;
        told.series_count = page::series_capacity;
        for (std::uint32_t shard = 0; shard < shards; ++shard) {
            const std::size_t section = page::header_size + shard * page::section_size;
            put(section, &told, sizeof told);
            put(section + page::series_at, all.data(), all.size() * sizeof one);
            put(section + page::strings_at, "a", 1);
        }
        page_report report;
        return std::string(name_of(read_page(path, report)));
    };
    const std::size_t of_one = sizeof(series_report) + 1 + 128 + 8;
    const auto fit = static_cast<std::uint32_t>(max_report / (of_one * page::series_capacity));
    page::series one{.name_size = 1, .labels_size = page::string_capacity / page::series_capacity, .live = 1};
    BOOST_REQUIRE(one.labels_size == 128);
    BOOST_TEST(report_of(fit, one) == "no error");
    BOOST_TEST(report_of(fit + 1, one) == name_of(page_error::too_much));
    one.labels_size = 129; // more than a section has room for
    BOOST_TEST(report_of(1, one) == name_of(page_error::damaged));
    one.labels_size = 0;
    one.kind = static_cast<std::uint8_t>(metric_kind::histogram);
    one.buckets = 1; // four values each: twice as many as there is room for
    BOOST_TEST(report_of(1, one) == name_of(page_error::damaged));
}

BOOST_AUTO_TEST_CASE(whose_file_it_is_is_asked_before_its_sections_are_looked_at) {
    if (!test::have_root()) return; // only root can be two users
    metrics_page page("a process", "none", 1, folder.string());
    auto& section = *reinterpret_cast<page::section_header*>(page.section(0));
    section.series_count = UINT32_MAX;
    page_report report;
    BOOST_TEST(name_of(read_page(page.path(), report)) == name_of(page_error::damaged));
    BOOST_REQUIRE(::chown(page.path().c_str(), 1, 1) == 0);
    BOOST_TEST(name_of(read_page(page.path(), report)) == name_of(page_error::not_ours_to_read));
}

#ifndef __SANITIZE_ADDRESS__ // which wants terabytes of addresses
BOOST_AUTO_TEST_CASE(a_page_that_memory_is_too_short_for_is_refused_and_the_next_is_read) {
    const pid_t small = crash();
    const pid_t child = ::fork();
    if (child == 0) {
        int wrong = 0;
        {
            metrics_page large("large", "none", 64, folder.string());
            for (unsigned shard = 0; shard < 64; ++shard) {
                auto* const table = reinterpret_cast<page::series*>(large.section(shard) + page::series_at);
                reinterpret_cast<page::section_header*>(large.section(shard))->series_count = page::series_capacity;
                large.section(shard)[page::strings_at] = std::byte{'a'};
                for (std::uint32_t i = 0; i < page::series_capacity; ++i) {
                    table[i].name_size = 1;
                    table[i].live = 1;
                }
            }
            // Their report takes 100 MiB and more.
            std::ifstream sizes("/proc/self/statm");
            std::uint64_t pages = 0;
            sizes >> pages;
            const rlimit space{pages * 4096 + (32u << 20), pages * 4096 + (32u << 20)};
            ::setrlimit(RLIMIT_AS, &space);
            page_report report;
            if (read_page(large.path(), report) != page_error::too_much) wrong |= 1;
            if (read_page(path_of(small), report) != page_error::none) wrong |= 2;
        }
        ::_exit(wrong);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    BOOST_TEST(WIFEXITED(status));
    BOOST_TEST(WEXITSTATUS(status) == 0);
}
#endif

BOOST_AUTO_TEST_CASE(a_page_of_another_version_is_not_read_and_collected_by_its_own_layout) {
    const pid_t child = crash();
    auto bytes = bytes_of(path_of(child));
    page::header head;
    std::memcpy(&head, bytes.data(), sizeof head);
    head.version = page::version - 1;
    head.shards = 2;
    head.section_size = 8192; // shorter sections: where ours would be, nothing is
    head.created = 1;
    page::section_header section{.published = boot_time_ns()};
    std::memcpy(bytes.data(), &head, sizeof head);
    bytes.resize(page::header_size + 2 * head.section_size);
    std::memcpy(bytes.data() + page::header_size + head.section_size, &section, sizeof section);
    const unique_fd file(::open(path_of(child).c_str(), O_WRONLY | O_TRUNC));
    BOOST_REQUIRE(::pwrite(file.get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    page_report report;
    BOOST_TEST(name_of(read_page(path_of(child), report)) == name_of(page_error::not_a_page));
    BOOST_TEST(collect_dead_pages(60'000'000'000, folder.string()) == 0u); // it published just now
    BOOST_TEST(collect_dead_pages(0, folder.string()) == 1u);
}

BOOST_AUTO_TEST_CASE(texts_keep_nothing_that_a_terminal_obeys) {
    auto bytes = bytes_of(path_of(crash()));
    const std::string escape = "\x1b]0;gotcha\x07";
    std::memcpy(bytes.data() + offsetof(page::header, program), escape.data(), escape.size());
    page_report report;
    BOOST_REQUIRE(parse_page(bytes, report) == page_error::none);
    for (const char c : report.program) BOOST_TEST((c >= ' ' && c <= '~'));
}

BOOST_AUTO_TEST_CASE(a_page_changed_at_random_is_refused_or_read_and_never_more) {
    auto bytes = bytes_of(path_of(crash()));
    const std::uint64_t seed = 20261121;
    BOOST_TEST_MESSAGE("seed " << seed);
    random_generator random(seed);
    // Where the numbers stand: headers, the first rows and series, the first texts.
    const std::size_t spots[] = {0, page::header_size, page::header_size + page::rows_at, page::header_size + page::series_at,
                                 page::header_size + page::strings_at};
    for (int round = 0; round < 3'000; ++round) {
        std::array<std::pair<std::size_t, std::byte>, 4> undo;
        for (auto& [at, before] : undo) {
            at = spots[random.below(5)] + random.below(96);
            before = bytes[at];
            bytes[at] = static_cast<std::byte>(random.below(256));
        }
        page_report report;
        parse_page(bytes, report);
        for (auto each = undo.rbegin(); each != undo.rend(); ++each) bytes[each->first] = each->second;
    }
    page_report report;
    BOOST_TEST((parse_page(bytes, report) == page_error::none));
}

BOOST_AUTO_TEST_SUITE_END()
