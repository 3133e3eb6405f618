// What travels between two shards: one cache line, with the code to run and room for a small callable or result.
//
//     ring slot (64): | sequence 8 | handler 8 | call 8 | payload 40 |           the number of the caller's scheduling group stands
//                                                                                 in the lowest bits of `call`
//
// A request carries a callable, its reply the result. What is larger than 40 bytes goes in a block, and the payload is a
// pointer to it. A message is built in the ring by its sender and used and destroyed there by its receiver.
#pragma once

#include <corewire/reactor/base/spsc_ring.hh>
#include <corewire/reactor/loop/group_names.hh>

#include <cstddef>
#include <cstdint>

namespace corewire {

class mailbox;
class remote_call_base;
struct call_record;

/// A call's record, whose address ends in zeros, and in their place the group that it comes from.
class call_from {
public:
    call_from() = default;
    call_from(call_record* record, unsigned group = 0) noexcept : bits_(reinterpret_cast<std::uintptr_t>(record) | group) {}
    call_record& operator*() const noexcept { return *record(); }
    call_record* operator->() const noexcept { return record(); }
    unsigned group() const noexcept { return static_cast<unsigned>(bits_ & mask); }

private:
    static constexpr std::uintptr_t mask = group_names::most - 1;
    call_record* record() const noexcept { return reinterpret_cast<call_record*>(bits_ & ~mask); }
    std::uintptr_t bits_;
};

struct message {
    /// Runs the message on the receiving shard, then destroys its payload. `here` null: destroys it only.
    using handler = void (*)(message& self, mailbox* here, unsigned from) noexcept;
    static constexpr std::size_t payload_size = 40;

    handler run;
    call_from call; ///< the caller's; null for a message that wants no reply
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
static_assert(sizeof(call_record) == 2 * cache_line && alignof(call_record) >= group_names::most);

} // namespace corewire
