// One request to a shard's io_engine: a node inside whoever asks, so that asking never allocates. It neither moves nor dies
// while active(); io_engine::abandon() takes it back.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/file/io_arguments.hh>
#include <corewire/reactor/file/uring_operation.hh>
#include <corewire/reactor/task/waiter.hh>

namespace corewire {

class io_engine;
class io_line;

class io_request : public list_hook {
public:
    /// `result` as the system call would return it, or -errno. May destroy the request.
    using completion = void (*)(io_request&, int result) noexcept;

    io_request(const io_arguments& what, completion on_complete) noexcept : arguments(what), on_complete_(on_complete) {}
    ~io_request() { CW_ASSERT(!active(), "an I/O request was destroyed while it was on its way"); }

    io_arguments arguments; ///< not to be changed while active()

    /// Submitted and not yet completed.
    bool active() const noexcept { return place_ != place::nowhere; }

private:
    friend class io_engine;
    friend class io_line;
    friend class helper_threads;
    friend class readiness;

    enum class place : std::uint8_t {
        nowhere,
        in_line,   ///< waits for its turn
        held,      ///< by a fault source
        refused,   ///< the ring was full: tried again next turn
        ring,      ///< the kernel has it
        helpers,   ///< a helper thread has it, or will
        readiness, ///< waits until its descriptor is ready (without a ring)
    };
    void on_ring(int result, unsigned flags) noexcept; // io_engine.cc

    completion on_complete_;
    io_engine* engine_ = nullptr;
    io_line* line_ = nullptr; ///< in which it stands, or has entered
    bound_operation<io_request, &io_request::on_ring> operation_{*this};
    int result_ = 0; ///< what a helper found
    int report_ = 0; ///< what a fault source wants answered
    place place_ = place::nowhere;
    bool cancelled_ = false;
    bool begun_ = false; ///< by a helper
    std::uint8_t group_ = 0;
    const run_queue* queue_ = detail::running_queue; ///< of the scheduling group in which it was made: it waits in line as that
};

} // namespace corewire
