// Asks a running process for other log levels, by way of its metrics page: what `cw-stat PID --log-level` does.
//
//     text --> page --> SIGUSR1 --> the process reads it, checks it, sets the levels --> its answer in the page
//
// Only the user to whom the process belongs may: the page's file is his, mode 0600, and nobody else's process is sent a signal. One asks
// at a time (flock(2)). The signal goes to the process that made the page and to no other that has its pid by now, and only while it
// says that it takes requests. Bounds: page::request_capacity bytes; `patience`.
#pragma once

#include <corewire/reactor/base/time.hh>

#include <string>
#include <string_view>

namespace corewire {

struct page_answer {
    bool granted = false;
    std::string text{}; ///< what the process says, or why it was not asked. Printable ASCII
};

page_answer ask_for_log_levels(const std::string& path, std::string_view levels, duration patience);

} // namespace corewire
