// How a program's shards do their I/O through the kernel: the options, and what is said of it at the start. Stateless.
#pragma once

#include <corewire/reactor/file/io_options.hh>

#include <string>

namespace corewire {

class command_line;

class log_writer;

/// Adds --io-in-flight, --io-helpers, --sqpoll and --sqpoll-idle-ms. `options` must outlive `to`; its values are the defaults.
void add_file_options(command_line& to, io_options& options);

struct uring_finding {
    std::string has;      ///< of what was wanted
    std::string why_none; ///< empty: there is one
};
/// Makes an io_uring and lets it go, before anything uses one. Where there is none and the log shows what log_file_io() will say, the first
/// use does not say it as well.
uring_finding look_for_uring(log_writer& log, const io_options& options);

/// Logs at info what was found.
void log_file_io(log_writer& log, const io_options& options, const uring_finding& is);

} // namespace corewire
