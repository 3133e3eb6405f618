// A shard's I/O through the kernel, whatever the kernel allows:
//
//     io_request --line (limit, fair between groups)--> [fault source] --+--> io_uring                  the usual way
//                                                                        +--> helper threads            what it cannot do,
//                                                                        +--> readiness (waits)         or all, without it
//
// A line for each of: operations of the ring; what helpers do; waits, which last as long as somebody else pleases.
// One a reactor, made by reactor::files() on its own thread, which alone may use it. It falls back to helper threads where
// io_uring is forbidden. Bounds: io_options; what waits in line waits in its coroutine.
#pragma once

#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/file/helper_threads.hh>
#include <corewire/reactor/file/io_fault.hh>
#include <corewire/reactor/file/io_line.hh>
#include <corewire/reactor/file/io_request.hh>
#include <corewire/reactor/file/readiness.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <bitset>
#include <memory>
#include <string>

namespace corewire {

struct io_statistics {
    std::uint64_t submitted = 0;
    std::uint64_t completed = 0;
    std::uint64_t failed = 0;             ///< of these, with an error other than ECANCELED
    std::uint64_t cancelled = 0;          ///< of these, with ECANCELED
    std::uint64_t waited_in_line = 0;     ///< the limit was reached
    std::uint64_t refused = 0;            ///< the ring was full: tried again next turn
    std::uint64_t interrupted = 0;        ///< EINTR: done again
    std::uint64_t by_helpers = 0;         ///< went to a helper thread
    std::uint64_t unregistered = 0;        ///< wishes to register memory or a file that the kernel had no room for
};

class io_engine final : public poller {
public:
    static constexpr unsigned most_memories = 64;  ///< registered
    static constexpr unsigned most_files = 1024; ///< registered

    explicit io_engine(reactor& loop);
    /// Nothing is active any more.
    ~io_engine();

    /// The request is inactive. It completes exactly once, later: never from inside this call.
    void submit(io_request& r) noexcept;
    /// Asks for an end. It completes as always, perhaps now, with -ECANCELED unless it was done before. Harmless when inactive.
    void cancel(io_request& r) noexcept;
    /// Takes a request back: cancels it and blocks until neither kernel nor helper touches its memory. Returns what became of
    /// it instead of completing it; -ECANCELED: nothing was done. For destructors.
    int abandon(io_request& r) noexcept;

    /// Registers memory, so that the kernel need not map it for each operation; -1 when it will not.
    int register_memory(mutable_byte_span memory) noexcept;
    void unregister_memory(int index) noexcept;
    /// The same for an open file.
    int register_file(int fd) noexcept;
    void unregister_file(int index) noexcept;

    /// Tests: every request passes by `source` from now on; null: none any more.
    void inject(io_fault_source* source) noexcept { faults_ = source; }
    /// Blocks until all that is on its way has completed, and delivers it: the ring's requests, then the helpers'. Not those that wait for
    /// somebody else or that a source holds. True if there was anything. For a shard whose time stands still meanwhile.
    bool settle() noexcept;
    /// What a source holds goes on its way. True if there was anything.
    bool release_held() noexcept;

    reactor& loop() noexcept { return loop_; }
    /// False: io_uring is forbidden, or switched off.
    bool has_ring() const noexcept { return ring_ != nullptr; }
    /// "io_uring with SINGLE_ISSUER, ...", or "at most 4 helper threads: io_uring is forbidden here: ...".
    std::string description() const;
    const io_statistics& statistics() const noexcept { return statistics_; }
    const io_line& operations() const noexcept { return operations_; }
    const io_line& helped() const noexcept { return helped_; }
    const io_line& waits() const noexcept { return waits_; }
    unsigned helpers() const noexcept { return helpers_.threads(); }

    // ---- poller ----
    bool poll(time_point now) override;
    bool flush(time_point now) override;
    bool prepare_sleep() override;
    void finish_sleep() override;
    int wake_fd() const override { return readiness_ ? readiness_->wake_fd() : -1; }

private:
    friend class io_request;
    friend class helper_threads;
    friend class readiness;

    io_line& line_for(const io_arguments& a) noexcept;
    void dispatch(io_request& r) noexcept;
    bool disturb(io_request& r) noexcept;
    void issue(io_request& r) noexcept;
    void to_ring(io_request& r) noexcept;
    void start_in_ring(io_request& r) noexcept;
    void to_helpers(io_request& r) noexcept;
    void to_readiness(io_request& r) noexcept;
    void to_always_ready(io_request& r) noexcept;
    void answer_soon(io_request& r, int result) noexcept;
    bool take_back(io_request& r) noexcept;
    bool tell_answered() noexcept;
    bool is_moving(const io_line& line) noexcept;
    void finished(io_request& r, int result) noexcept;
    void end(io_request& r, int result) noexcept;
    void admit(io_line& line) noexcept;

    reactor& loop_;
    uring* ring_ = nullptr;
    std::string why_no_ring_;
    std::bitset<static_cast<std::size_t>(io_opcode::count)> by_ring_;
    io_line operations_; ///< of the ring
    io_line helped_;     ///< of the helper threads
    io_line waits_;
    io_fault_source* faults_ = nullptr;
    intrusive_list<io_request> held_;
    intrusive_list<io_request> refused_;
    intrusive_list<io_request> answered_; ///< `result_` says what; complete with the next turn
    helper_threads helpers_;
    std::unique_ptr<readiness> readiness_;
    std::bitset<most_memories> memories_;
    std::bitset<most_files> files_;
    bool memory_table_ = false;
    bool file_table_ = false;
    io_statistics statistics_;
};

} // namespace corewire
