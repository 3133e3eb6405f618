// How a program's shards do their I/O through the kernel: the options, and what is said of it at the start. Stateless.
#pragma once

#include <corewire/reactor/file/io_options.hh>

namespace corewire {

class command_line;

class log_writer;

/// Adds --io-in-flight, --io-helpers, --sqpoll and --sqpoll-idle-ms. `options` must outlive `to`; its values are the defaults.
void add_file_options(command_line& to, io_options& options);

/// Before anything uses an io_uring: where the log shows what log_file_io() will say, the first use does not say it as well.
void expect_log_file_io(log_writer& log, const io_options& options);

/// Makes an io_uring, logs at info what it has of what was wanted (or why there is none), and lets it go.
void log_file_io(log_writer& log, const io_options& options);

} // namespace corewire
