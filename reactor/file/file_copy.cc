#include <corewire/reactor/file/file_copy.hh>

#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/when_all.hh>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <system_error>

namespace corewire {

namespace {

/// Bytes of one request to the kernel that copies by itself. After each it stands in line again, and a limit ends it: small enough for
/// both, and so large that asking is nothing beside doing it (some ten milliseconds).
constexpr std::uint64_t copied_at_a_time = 32 << 20;

struct copying {
    const file& from;
    const file& to;
    copy_options options;
    wait_limits limits;
    std::uint64_t next = 0;             ///< the first byte that nobody has taken on
    std::uint64_t end = ~std::uint64_t{0};
    bool failed = false;
};

/// The kernel's own way. False: it has none between these two, and nothing was copied.
task<bool> by_the_kernel(copying& work) {
    while (work.next < work.end) {
        io_arguments a = work.from.bytes_at(io_opcode::copy, nullptr, copied_at_a_time, work.next, -1);
        a.other_fd = work.to.descriptor();
        a.other_offset = work.next;
        const int n = co_await io_attempt(a, work.limits, &work.from.name());
        if (n == 0 && work.next == 0) co_return false; // empty, or a file of /proc, which only read(2) can tell
        if (n < 0 && work.next == 0 && (n == -EXDEV || n == -EINVAL || n == -ENOSYS || n == -EOPNOTSUPP)) co_return false;
        if (n < 0) throw std::system_error(-n, std::generic_category(), "copying '" + work.from.name() + "'");
        if (n == 0) work.end = work.next;
        work.next += static_cast<std::uint64_t>(n);
    }
    co_return true;
}

/// Room for the whole of it: writes side by side do not extend the file then, which the kernel does one at a time, and a full disk is
/// found at the start. Not where the file system cannot.
task<> make_room(const copying& work, std::uint64_t size) {
    const auto made = co_await as_result(work.to.allocate(0, size, 0, work.limits));
    if (made || made.error() == std::errc::operation_not_supported || made.error() == std::errc::no_such_device ||
        made.error() == std::errc::invalid_seek)
        co_return;
    throw std::system_error(made.error(), "making room for a copy of '" + work.from.name() + "'");
}

/// One of several workers: reads a chunk into its memory, writes it, takes the next. The first failure stops them all.
task<> by_chunks(copying& work, io_piece memory) {
    try {
        while (work.next < work.end && !work.failed) {
            const std::uint64_t offset = work.next;
            work.next += work.options.chunk;
            std::size_t n = co_await work.from.read_exactly(memory, offset, work.limits);
            if (n < work.options.chunk) work.end = std::min(work.end, offset + n);
            if (n == 0) break;
            if (work.to.direct()) {
                const std::size_t whole = (n + work.to.alignment() - 1) / work.to.alignment() * work.to.alignment();
                std::memset(memory.bytes.data() + n, 0, whole - n);
                n = whole;
            }
            const io_piece piece(memory.bytes.first(n), memory.memory_index);
            co_await work.to.write(piece, offset, work.limits);
        }
    } catch (...) {
        work.failed = true;
        throw;
    }
}

/// The workers share one memory: what is large is made of huge pages, and a chunk is one request of the device then.
task<> side_by_side(copying& work) {
    const std::size_t chunk = work.options.chunk;
    for (const file* each : {&work.from, &work.to})
        if (each->direct() && chunk % each->alignment() != 0)
            throw std::system_error(EINVAL, std::generic_category(), "copying '" + each->name() + "': chunks not aligned for O_DIRECT");
    const file_status what = co_await work.from.status(work.limits);
    const bool size_known = what.type == file_type::regular && what.size != 0;
    if (work.to.direct() && size_known) co_await make_room(work, what.size);
    std::uint64_t count = std::max(work.options.in_flight, 1u);
    if (size_known) count = std::min(count, what.size / chunk + (what.size % chunk != 0));
    if (chunk > SIZE_MAX / count) throw std::bad_alloc();
    const io_memory memory(chunk * count);
    std::vector<task<>> workers;
    for (std::size_t i = 0; i < count; ++i) workers.push_back(by_chunks(work, memory.piece(i * chunk, chunk)));
    co_await when_all(std::move(workers));
}

} // namespace

task<std::uint64_t> copy(const file& from, const file& to, copy_options options, wait_limits limits) {
    CW_ASSERT(options.chunk != 0, "a copy by chunks of no bytes");
    copying work{from, to, options, limits};
    bool done = false;
    if (!from.direct() && !to.direct()) done = co_await by_the_kernel(work);
    if (!done) co_await side_by_side(work);
    co_await to.truncate(work.end, limits);
    co_return work.end;
}

} // namespace corewire
