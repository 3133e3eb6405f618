// file_reader: a file from front to back, read ahead.
//
//     cw::file_reader in(f);
//     for (byte_span part = co_await in.read(); !part.empty(); part = co_await in.read()) use(part);
//
//     buffers:  [being used] [read] [being read] [being read]      each is asked for again, further on, when it has been used
//
// A view stays good until the next read(). What failed ahead is read once more when its place is reached, and thrown if it fails
// again; the reader stays there, and tries again when asked again. One shard's, one coroutine's at a time; the file outlives it.
// Bound: buffers x buffer_size bytes of memory, as many requests under way.
#pragma once

#include <corewire/reactor/file/file.hh>
#include <corewire/reactor/task/event.hh>

#include <memory>

namespace corewire {

struct file_reader_options {
    std::uint64_t offset = 0;                      ///< where to begin; with O_DIRECT a multiple of the alignment
    std::uint64_t length = ~std::uint64_t{0};      ///< how much to read at most
    std::size_t buffer_size = 128 * 1024;          ///< bytes of one request; with O_DIRECT a multiple of the alignment
    unsigned buffers = 4;
};

class file_reader {
public:
    explicit file_reader(const file& from, file_reader_options options = {});
    /// Takes back what is being read.
    ~file_reader();
    file_reader(const file_reader&) = delete;
    file_reader& operator=(const file_reader&) = delete;

    /// The next bytes, as many as are there without waiting more than once; none at the end.
    task<byte_span> read(wait_limits limits = {});
    /// Fills `into`; fewer only at the end. When it throws, what it had taken so far is lost to the caller: position() says where.
    task<std::size_t> read_exactly(mutable_byte_span into, wait_limits limits = {});
    /// Bytes given out, counted from the start of the file.
    std::uint64_t position() const noexcept { return position_; }

private:
    struct slot final : io_request {
        slot(file_reader& o, io_piece m) noexcept : io_request({}, &slot::on_complete), owner(o), memory(m) {}
        static void on_complete(io_request& r, int result) noexcept;
        file_reader& owner;
        io_piece memory;
        std::uint64_t offset = 0;
        std::size_t wanted = 0;
        std::size_t filled = 0;
        std::size_t used = 0;
        int failure = 0; ///< -errno
        event done;
    };
    void ask(slot& s) noexcept;
    void go_on(slot& s) noexcept;
    task<byte_span> view(std::size_t at_most, wait_limits limits);

    const file& from_;
    std::uint64_t next_;     ///< the first byte not yet asked for
    std::uint64_t end_;      ///< the first byte not wanted, or not there
    std::uint64_t position_;
    std::size_t buffer_size_;
    io_memory memory_;
    std::vector<std::unique_ptr<slot>> slots_;
    std::size_t current_ = 0;
};

} // namespace corewire
