#include <corewire/apps/runtime/file_options.hh>

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/file/uring_setup.hh>
#include <corewire/reactor/log/log_writer.hh>

#include <system_error>

namespace corewire {

namespace {

constexpr log_event<log_text<160>, unsigned> found{"file", "uring", log_level::info, "{}; at most {} file operations a shard at a time"};
constexpr log_event<unsigned, log_text<200>> none{"file", "no_uring", log_level::info,
                                                  "no io_uring: files and pipes go through {} helper threads a shard, "
                                                  "the kernel's sockets through epoll: {}"};

} // namespace

void add_file_options(command_line& to, io_options& options) {
    command_line group = to.add_option_group("Files");
    group
        .add_option("--io-in-flight", options.in_flight,
                    "File operations of a shard that the kernel has at a time; the rest wait in line (default 256)")
        .check_range(1u, 32'768u).type_name("N");
    group.add_option("--io-helpers", options.helpers, "Threads of a shard for what io_uring cannot do, at most (default 4)")
        .check_range(1u, 256u).type_name("N");
    group.add_flag("--sqpoll", options.sqpoll,
                   "A kernel thread takes each shard's submissions to io_uring: no system calls, for one more busy core a shard");
    group.add_option("--sqpoll-idle-ms", options.sqpoll_idle_ms,
                     "Milliseconds without a submission after which that thread sleeps (default 100)")
        .check_range(1u, 3'600'000u).type_name("N");
}

uring_finding look_for_uring(log_writer& log, const io_options& options) {
    uring_finding is;
    try {
        is.has = probe_uring(options); // should the ring of a shard fail all the same, it says so itself
    } catch (const std::system_error& why) {
        is.why_none = why.what();
        if (log.levels().of("file") <= log_level::info) without_ring_was_said();
    }
    return is;
}

void log_file_io(log_writer& log, const io_options& options, const uring_finding& is) {
    if (is.why_none.empty()) log.from_thread(found, is.has, options.in_flight);
    else log.from_thread(none, options.helpers, is.why_none);
}

} // namespace corewire
