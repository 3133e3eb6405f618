#include <corewire/apps/runtime/require_uring.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/reactor/file/uring_setup.hh>

#include <fmt/format.h>
#include <system_error>

namespace corewire {

std::string why_no_uring() {
    io_uring ring{};
    try {
        set_up_uring(ring, 2, 4);
    } catch (const std::system_error& error) {
        return error.what();
    }
    io_uring_queue_exit(&ring);
    return {};
}

void require_uring(std::string_view what, std::string_view otherwise) {
    const std::string why = why_no_uring();
    if (!why.empty()) throw setup_error(fmt::format("{} needs io_uring: {}; or {}", what, why, otherwise));
}

} // namespace corewire
