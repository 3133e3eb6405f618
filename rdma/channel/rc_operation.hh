// One request of a coroutine to a connection: a send, a WRITE, a READ, an atomic. It stands in the coroutine's own frame.
//
//     start() --> done at once (a message that was copied)
//             `-> waiting for a credit or room --> posted --> done: its completion has come
//
// Cut short while it waits: it never happened. Cut short when it was posted: it happens, and nobody hears of it; the memory it
// reads or writes is the device's until then.
#pragma once

#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/task/waiter.hh>
#include <corewire/rdma/verbs/api.hh>

#include <cstdint>
#include <span>

namespace corewire::rdma {

class rc_connection;
struct exposed_window;
struct local_region;
struct memory_block;

struct rc_request {
    enum class kind : std::uint8_t {
        send,           ///< a message; its bytes are copied (or sent inline)
        send_in_place,  ///< a message from registered memory; done when the peer has it
        write,
        write_with_immediate,
        read,
        fetch_and_add,
        compare_and_swap,
        bind_window,
    };
    kind what = kind::send;
    const std::byte* data = nullptr;   ///< ours; of a READ where it goes
    std::uint32_t size = 0;
    std::uint32_t local_key = 0;       ///< of `data`, where that is registered
    memory_block* block = nullptr;     ///< and what it is part of
    std::span<const byte_span> parts{};      ///< of `send`, instead of `data`: copied one behind the other; `size` in all
    std::span<const local_region> regions{}; ///< of `send_in_place`, likewise: gathered by the device
    std::uint64_t remote_address = 0;
    std::uint32_t remote_key = 0;
    std::uint32_t immediate = 0;
    std::uint64_t operand = 0;         ///< what to add, or to compare with
    std::uint64_t swap = 0;
    exposed_window* window = nullptr;  ///< to bind: `data`, `size` and these
    ibv_mr* region = nullptr;
    unsigned access = 0;
    std::uint32_t window_key = 0;
    std::errc refused{};               ///< it makes no sense: not even tried
};

class rc_operation : public bounded_waiter {
public:
    rc_operation(rc_connection* on, const rc_request& what, const wait_limits& limits) noexcept
        : bounded_waiter(limits), request(what), connection_(on) {}

    bool await_ready() noexcept;
    bool await_suspend(std::coroutine_handle<> h) noexcept;

    const rc_request request;
    /// What await_resume() would throw (as_result asks).
    std::error_code failure_code() const noexcept { return std::make_error_code(failure() != std::errc{} ? failure() : error_); }

    // ---- for the connection ----
    /// A large message that waits to be fetched.
    void announced_at(std::uint32_t slot) noexcept {
        place_ = place::announced;
        sequence_ = slot;
    }
    /// It is over: with an error, or well. `value` is what an atomic found.
    void finish(std::errc why, std::uint64_t value = 0) noexcept;
    void posted_at(std::uint32_t sequence) noexcept {
        place_ = place::posted;
        sequence_ = sequence;
    }

protected:
    ~rc_operation() { leave(); }
    void check() const;
    std::uint64_t value_ = 0;

private:
    enum class place : std::uint8_t { nowhere, in_line, posted, announced };
    void abandon() noexcept override { leave(); }
    void leave() noexcept;

    rc_connection* connection_;
    std::errc error_{};
    std::uint32_t sequence_ = 0; ///< or slot
    place place_ = place::nowhere;
};

class rc_awaiter final : public rc_operation {
public:
    using rc_operation::rc_operation;
    void await_resume() const { check(); }
};

/// The same for atomics: gives the value that was there before.
class atomic_operation final : public rc_operation {
public:
    using rc_operation::rc_operation;
    std::uint64_t await_resume() const {
        check();
        return value_;
    }
};

} // namespace corewire::rdma
