// What travels between two shards: one cache line, with the code to run and room for a small callable or result.
//
//     ring slot (64): | sequence 8 | handler 8 | call 8 | payload 40 |
//
// A request carries a callable, its reply the result. What is larger than 40 bytes goes in a block, and the payload is a
// pointer to it. A message is built in the ring by its sender and used and destroyed there by its receiver.
#pragma once

#include <corewire/reactor/base/spsc_ring.hh>

#include <cstddef>

namespace corewire {

class mailbox;
class remote_call_base;
struct call_record;

struct message {
    /// Runs the message on the receiving shard, then destroys its payload. `here` null: destroys it only.
    using handler = void (*)(message& self, mailbox* here, unsigned from) noexcept;
    static constexpr std::size_t payload_size = 40;

    handler run;
    call_record* call; ///< the caller's; null for a message that wants no reply
    alignas(8) std::byte payload[payload_size];
};
static_assert(sizeof(message) == cache_line - sizeof(std::uint64_t));

/// True if a T travels inside the message; it must not throw when moved there.
template <typename T>
inline constexpr bool travels_inline =
    sizeof(T) <= message::payload_size && alignof(T) <= 8 && std::is_nothrow_move_constructible_v<T>;

/// A call that has been sent and not answered. Owned by the calling shard's call_table; it outlives the caller's frame if that
/// gives up, so that the reply always finds something.
struct alignas(cache_line) call_record {
    remote_call_base* caller = nullptr; ///< null: nobody waits any more. The calling shard's alone.
    call_record* next_free = nullptr;
    /// Lent to the called shard until it replies: where the reply stands when the ring back is full. So a reply
    /// needs no memory of the called shard's, and their number is bounded by the caller's table.
    alignas(cache_line) message parked;
    call_record* next_parked;
};
static_assert(sizeof(call_record) == 2 * cache_line);

} // namespace corewire
