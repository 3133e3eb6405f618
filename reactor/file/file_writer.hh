// file_writer: a file written from front to back, behind the caller's back, and honest about it.
//
//     cw::file_writer out(std::move(f));
//     co_await out.write(bytes);        // copied; waits only when all buffers are on their way
//     co_await out.flush();             // everything written so far is in the file, or it throws
//     co_await out.close();             // flush, then close(2); throws what has not been heard yet, and what has
//
// The contract:
//   write   accepts all bytes or throws. It throws the failure of an earlier write-back as soon as that is known: what a writer
//           accepted before is kept. Of what it is given now it may have accepted a part by then, also when a limit ends its wait:
//           position() tells where to go on.
//   flush   returns when every accepted byte is in the file (the kernel's, as after write(2)); sync() also when it is on the disk.
//   failure stays: each write, flush, sync and close throws it until retry() has written what had failed, or cut off the padding (below).
//           After a failed sync nothing can be said of what is on the disk (fsync(2)), and no retry helps.
//   close   closes the file also when it throws a failure, once nothing is on its way; not when a limit (deadline, stop) ends that wait:
//           call it again. A limit that ends the last step, close(2), is thrown as well, and the file is closed: what close(2) would have
//           said is not known then.
//   limits  end a wait and lose nothing: what was accepted stays on its way, and so does an fsync that has begun: what it says is kept,
//           whoever waits, since the kernel tells of a failed write-back once. A task that is destroyed is no different.
//   destroyed without close: what is on its way is taken back; if accepted bytes are not in the file, stderr says how many.
//
// One shard's, one coroutine's at a time. Bound: buffers x buffer_size bytes of memory, as many requests under way. With O_DIRECT the
// last block goes out padded with zeros, and the file is then cut to its size.
#pragma once

#include <corewire/reactor/file/file.hh>
#include <corewire/reactor/task/event.hh>

#include <memory>

namespace corewire {

struct file_writer_options {
    std::uint64_t offset = 0;             ///< where to begin; with O_DIRECT a multiple of the alignment
    std::size_t buffer_size = 128 * 1024; ///< bytes of one request; with O_DIRECT a multiple of the alignment
    unsigned buffers = 4;
};

class file_writer {
public:
    explicit file_writer(file to, file_writer_options options = {});
    ~file_writer();
    file_writer(const file_writer&) = delete;
    file_writer& operator=(const file_writer&) = delete;

    task<> write(byte_span from, wait_limits limits = {});
    task<> write(std::string_view text, wait_limits limits = {});
    task<> flush(wait_limits limits = {});
    task<> sync(wait_limits limits = {});
    /// Sends what had failed once more (there is room on the disk again), and flushes.
    task<> retry(wait_limits limits = {});
    task<> close(wait_limits limits = {});

    /// The first byte not yet accepted, counted from the start of the file.
    std::uint64_t position() const noexcept { return position_; }
    /// The first byte that is perhaps not in the file: all before it are.
    std::uint64_t written() const noexcept;
    /// 0, or the errno that everything throws.
    int failure() const noexcept { return failure_; }

private:
    struct slot final : io_request {
        slot(file_writer& o, io_piece m) noexcept : io_request({}, &slot::on_complete), owner(o), memory(m) { done.set(); }
        static void on_complete(io_request& r, int result) noexcept;
        file_writer& owner;
        io_piece memory;
        std::uint64_t offset = 0; ///< of its first byte
        std::size_t filled = 0;   ///< accepted
        std::size_t sent = 0;     ///< in the file
        std::size_t length = 0;   ///< to be sent: `filled`, or with padding
        bool failed = false;
        event done; ///< nothing of it is on its way
    };
    /// The fsync under way: the writer's as its slots are.
    struct sync_request final : io_request {
        explicit sync_request(file_writer& o) noexcept : io_request({}, &sync_request::on_complete), owner(o) { done.set(); }
        static void on_complete(io_request& r, int result) noexcept;
        file_writer& owner;
        std::uint64_t covers = 0; ///< position() when it began
        event done;
    };
    slot& current() noexcept { return *slots_[current_]; }
    void send(slot& s) noexcept;
    void go_on(slot& s) noexcept;
    task<> next_slot(wait_limits limits);
    task<> settle(wait_limits limits);
    task<> send_rest(wait_limits limits);
    task<> synced(wait_limits limits);
    void begin(slot& s, std::uint64_t offset) noexcept;
    void check() const;
    void note(int error) noexcept;

    file to_;
    std::uint64_t position_;
    std::size_t buffer_size_;
    io_memory memory_;
    std::vector<std::unique_ptr<slot>> slots_;
    sync_request sync_{*this};
    std::size_t current_ = 0;
    int failure_ = 0;
    bool sync_failed_ = false;
    bool cut_ = false; ///< the file is longer than what was written: padding
};

} // namespace corewire
