#include <corewire/reactor/base/huge_pages.hh>

#include <cerrno>
#include <cstdint>
#include <sys/mman.h>

namespace corewire {

std::byte* map_at_huge_page(std::size_t size) noexcept {
    if (size > SIZE_MAX - huge_page_size) {
        errno = ENOMEM;
        return nullptr;
    }
    void* const at = ::mmap(nullptr, size + huge_page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return nullptr;
    auto* const begin = static_cast<std::byte*>(at);
    const std::size_t before = (huge_page_size - reinterpret_cast<std::uintptr_t>(at) % huge_page_size) % huge_page_size;
    if (before != 0) ::munmap(begin, before);
    ::munmap(begin + before + size, huge_page_size - before); // at least a small page
    return begin + before;
}

} // namespace corewire
