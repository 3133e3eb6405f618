// Anonymous memory on the largest pages that the system gives, unmapped when destroyed. A forked child does not have it: its
// copy-on-write would move the pages away from the device.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace corewire::rdma {

enum class page_kind : std::uint8_t {
    small,       ///< 4 KiB
    transparent, ///< 2 MiB where the kernel finds some (madvise(2), MADV_HUGEPAGE)
    huge,        ///< 2 MiB from the system's reserve (vm.nr_hugepages)
};

class mapped_memory {
public:
    static constexpr std::size_t page = 4096;
    static constexpr std::size_t huge_page = std::size_t{2} << 20;

    mapped_memory() noexcept = default;
    /// `size` bytes, zeroed, rounded up to whole pages: to huge ones from that size on, and then at a multiple of that. Tries `best`,
    /// then what is below it. Throws std::system_error ENOMEM.
    explicit mapped_memory(std::size_t size, page_kind best = page_kind::huge);
    mapped_memory(mapped_memory&& other) noexcept : bytes_(std::exchange(other.bytes_, {})), pages_(other.pages_) {}
    mapped_memory& operator=(mapped_memory&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        std::swap(pages_, other.pages_);
        return *this;
    }
    ~mapped_memory();
    mutable_byte_span bytes() const noexcept { return bytes_; }
    page_kind pages() const noexcept { return pages_; }

private:
    mutable_byte_span bytes_{};
    page_kind pages_ = page_kind::small;
};

} // namespace corewire::rdma
