// Pages of a process's own, as mmap() gives them.
#pragma once

#include <corewire/reactor/base/bytes.hh>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <sys/mman.h>

namespace corewire::test {

class pages {
public:
    /// `at`: there, and nowhere else.
    explicit pages(std::size_t count, std::byte* at = nullptr) : size_(count * 4096) {
        void* const got = ::mmap(at, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at != nullptr ? MAP_FIXED : 0), -1, 0);
        BOOST_REQUIRE(got != MAP_FAILED);
        data_ = static_cast<std::byte*>(got);
    }
    pages(const pages&) = delete;
    ~pages() { ::munmap(data_, size_); }
    mutable_byte_span all() const noexcept { return {data_, size_}; }
    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    void fill(char with) const noexcept { std::fill_n(data_, size_, static_cast<std::byte>(with)); }
    bool holds(char what) const noexcept {
        return std::all_of(data_, data_ + size_, [what](std::byte b) { return b == static_cast<std::byte>(what); });
    }

private:
    std::byte* data_ = nullptr;
    std::size_t size_;
};

} // namespace corewire::test
