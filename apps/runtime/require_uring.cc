#include <corewire/apps/runtime/require_uring.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/reactor/file/uring_setup.hh>

#include <fmt/format.h>
#include <system_error>

namespace corewire {

std::string why_no_uring() {
    try {
        static_cast<void>(probe_uring({}));
        return {};
    } catch (const std::system_error& error) {
        return error.what();
    }
}

void require_uring(std::string_view what, std::string_view otherwise) {
    const std::string why = why_no_uring();
    if (!why.empty()) throw setup_error(fmt::format("{} needs io_uring: {}; or {}", what, why, otherwise));
}

} // namespace corewire
