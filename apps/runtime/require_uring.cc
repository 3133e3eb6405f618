#include <corewire/apps/runtime/require_uring.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/reactor/file/uring_setup.hh>

#include <fmt/format.h>
#include <system_error>

namespace corewire {

void require_uring(std::string_view what, std::string_view otherwise) {
    try {
        static_cast<void>(probe_uring({}));
    } catch (const std::system_error& why) {
        throw setup_error(fmt::format("{} needs io_uring: {}; or {}", what, why.what(), otherwise));
    }
}

} // namespace corewire
