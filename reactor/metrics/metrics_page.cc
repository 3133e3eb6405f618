#include <corewire/reactor/metrics/metrics_page.hh>

#include <corewire/reactor/base/assert.hh>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace corewire {

namespace {

template <std::size_t Size>
void copy_text(std::array<char, Size>& to, std::string_view text) noexcept {
    const std::size_t size = std::min(text.size(), to.size() - 1);
    std::memcpy(to.data(), text.data(), size);
    to[size] = 0;
}

std::string reason(const char* what) { return fmt::format("{}: {}", what, std::generic_category().message(errno)); }

} // namespace

std::uint64_t process_start_time(std::uint32_t pid) noexcept {
    std::array<char, 32> path{};
    fmt::format_to_n(path.data(), path.size() - 1, "/proc/{}/stat", pid == 0 ? static_cast<std::uint32_t>(::getpid()) : pid);
    const unique_fd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
    std::array<char, 1024> text{};
    if (!file || ::read(file.get(), text.data(), text.size() - 1) <= 0) return 0;
    // "PID (NAME) STATE ...": the name may hold anything, so count from the last parenthesis.
    const char* at = std::strrchr(text.data(), ')');
    if (at == nullptr) return 0;
    for (int field = 2; field < 22; ++field) {
        at = std::strchr(at + 1, ' ');
        if (at == nullptr) return 0;
    }
    return std::strtoull(at + 1, nullptr, 10);
}

std::uint64_t boot_time_ns() noexcept {
    timespec t{};
    ::clock_gettime(CLOCK_BOOTTIME, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

metrics_page::metrics_page(std::string_view program, std::string_view network, unsigned shards, const std::string& folder)
    : shards_(shards), size_(page::size_for(shards)) {
    CW_ASSERT(shards != 0 && shards <= page::max_shards, "a page of 1 to 1024 shards");
    if (!open_file(folder)) {
        file_ = unique_fd{};
        void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "memory for metrics");
        memory_ = static_cast<std::byte*>(memory);
    }
    auto& head = *reinterpret_cast<page::header*>(memory_);
    head.version = page::version;
    head.header_size = page::header_size;
    head.pid = static_cast<std::uint32_t>(::getpid());
    head.shards = shards;
    head.start_time = process_start_time(0);
    head.created = boot_time_ns();
    head.section_size = page::section_size;
    copy_text(head.program, program);
    copy_text(head.network, network);
    __atomic_store_n(&head.magic, page::magic, __ATOMIC_RELEASE);
}

bool metrics_page::open_file(const std::string& folder) {
    if (folder.empty()) {
        why_private_ = "no file was wanted";
        return false;
    }
    std::string path = fmt::format("{}/{}{}", folder, file_prefix, ::getpid());
    file_ = unique_fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!file_) {
        why_private_ = reason(path.c_str());
        return false;
    }
    // The headers and tables now, the rest as it is needed: reserve().
    bool ok = ::ftruncate(file_.get(), static_cast<off_t>(size_)) == 0 && ::fallocate(file_.get(), 0, 0, page::header_size) == 0;
    for (unsigned shard = 0; ok && shard < shards_; ++shard)
        ok = ::fallocate(file_.get(), 0, static_cast<off_t>(page::header_size + shard * page::section_size), page::series_at) == 0;
    void* memory = ok ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        why_private_ = reason(path.c_str());
        ::unlink(path.c_str());
        return false;
    }
    memory_ = static_cast<std::byte*>(memory);
    path_ = std::move(path);
    return true;
}

metrics_page::~metrics_page() {
    if (!path_.empty()) ::unlink(path_.c_str());
    ::munmap(memory_, size_);
}

page::request_box& metrics_page::requests() noexcept { return reinterpret_cast<page::header*>(memory_)->request; }

void metrics_page::take_requests(bool on) noexcept { __atomic_store_n(&requests().taken, on ? 1u : 0u, __ATOMIC_RELEASE); }

std::optional<std::string> metrics_page::next_request() {
    page::request_box& box = requests();
    request_ = __atomic_load_n(&box.asked, __ATOMIC_ACQUIRE);
    if (request_ == __atomic_load_n(&box.answered, __ATOMIC_RELAXED)) return std::nullopt;
    std::array<char, page::request_capacity> copy; // whoever asks may go on writing
    std::memcpy(copy.data(), box.levels.data(), copy.size());
    return std::string(copy.data(), ::strnlen(copy.data(), copy.size()));
}

void metrics_page::answer_request(bool granted, std::string_view text) noexcept {
    page::request_box& box = requests();
    box.refused = granted ? 0 : 1;
    copy_text(box.answer, text);
    __atomic_store_n(&box.answered, request_, __ATOMIC_RELEASE);
}

std::byte* metrics_page::section(unsigned shard) const noexcept {
    CW_ASSERT(shard < shards_, "a section a shard");
    return memory_ + page::header_size + shard * page::section_size;
}

bool metrics_page::reserve(unsigned shard, std::size_t offset, std::size_t size) noexcept {
    if (offset + size > page::section_size) return false;
    if (!file_) return true;
    const std::size_t at = page::header_size + shard * page::section_size + offset;
    return ::fallocate(file_.get(), 0, static_cast<off_t>(at), static_cast<off_t>(size)) == 0;
}

} // namespace corewire
