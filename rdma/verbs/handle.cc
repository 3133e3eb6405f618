#include <corewire/rdma/verbs/handle.hh>

#include <pthread.h>

namespace corewire::verbs {

namespace {
std::uint32_t generation = 0; ///< written in the child of a fork only, where no other thread lives
} // namespace

std::uint32_t process_generation() noexcept { return generation; }

void watch_for_forks() noexcept {
    static const int once = ::pthread_atfork(nullptr, nullptr, [] { ++generation; });
    static_cast<void>(once);
}

} // namespace corewire::verbs
