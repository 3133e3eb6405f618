// Large messages: what is longer than the peer's buffers stays where it is until the peer fetches it.
//
//     sender                                              receiver
//     key for the bytes (a window of this queue pair)
//     announcement: slot, where, how much, key ---------> checked; memory from the pool, when there is some; its place in the order
//        (takes a credit, as any message)          <----- READs of up to `piece` bytes
//     the key is withdrawn, then the send is over  <----- fetched: slot; the message is whole, and received in its turn
//
// The receiver reads: no peer ever gets to write to its memory, and it reads when it has room. The sender shows its peer these bytes,
// for reading, until it hears that they have been fetched. Both ends bound it: `large_messages` announced and not fetched, each way;
// as many fetched and not let go of; `largest_message` bytes each; and `fetch_within` the time in which the oldest announced one is not
// fetched, or nothing comes of what is being fetched. Belongs to its connection.
#pragma once

#include <corewire/rdma/channel/rc_options.hh>
#include <corewire/rdma/verbs/memory_region.hh>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace corewire::rdma {

class rc_operation;
struct memory_block;

/// The bytes of a SEND that announces a large message: the number of stretches, and each one's address, key and size, big-endian.
struct rc_announcement {
    struct stretch {
        std::uint64_t address = 0;
        std::uint32_t key = 0;
        std::uint32_t size = 0; ///< bytes
    };
    static constexpr std::size_t stretch_size = 16;
    static constexpr std::size_t largest_wire = 4 + most_regions * stretch_size;

    std::array<stretch, most_regions> stretches{};
    std::uint32_t count = 0;

    std::uint64_t size() const noexcept {
        std::uint64_t all = 0;
        for (std::uint32_t i = 0; i < count; ++i) all += stretches[i].size;
        return all;
    }
    /// Returns the number of bytes written: largest_wire at most.
    std::uint32_t to_wire(std::byte* out) const noexcept;
    /// Nothing if these are no such bytes: another length, no stretch or too many, an empty one, or one beyond the end of memory.
    static std::optional<rc_announcement> from_wire(byte_span bytes) noexcept;
};

struct rendezvous {
    /// Of one READ, bytes. Devices have a longest message (rdma_rxe: 8 MiB), other work wants its turn, and the answers to one come in
    /// one burst, of which a software device's host drops what its backlog has no room for (docs/HARDWARE.md).
    static constexpr std::uint32_t piece = 64u << 10;

    struct window {
        ibv_mw* handle = nullptr;
        std::uint32_t key = 0; ///< of its latest binding
    };
    /// A message of ours.
    struct outgoing {
        enum class state : std::uint8_t { idle, announced, to_withdraw, withdrawing };
        struct opened {
            window by;                    ///< the key's; or
            verbs::memory_region region;  ///< where there are no windows: registered once more
            memory_block* block = nullptr;
        };
        state now = state::idle;
        rc_operation* op = nullptr;       ///< who waits, if anyone still does
        std::errc result{};
        time_point since{};               ///< when it was announced
        std::array<opened, most_regions> keys;
        std::uint32_t count = 0;          ///< of `keys`
        std::uint32_t posted = 0;         ///< of them, those whose withdrawal was
        unsigned under_way = 0;           ///< withdrawals that the device has not done yet
    };
    /// One of the peer's.
    struct incoming {
        enum class state : std::uint8_t { idle, announced, fetching, to_tell };
        state now = state::idle;
        rc_announcement what;
        memory_block* block = nullptr;
        std::uint32_t at = 0, offset = 0; ///< the next READ: of which stretch, from where on
        std::uint32_t into = 0;           ///< and where to
        unsigned under_way = 0;           ///< READs
    };

    std::vector<outgoing> out;            ///< by slot: as many as both ends allow
    std::vector<incoming> in;
    std::vector<window> spare;            ///< not bound to anything
    std::vector<std::uint32_t> order;     ///< slots of `in` that are announced or being fetched, oldest first
    unsigned announced = 0;               ///< of `out`, not idle
    unsigned to_withdraw = 0, to_tell = 0;
    time_point last_fetched{}; ///< when the oldest of `out` became the oldest: what goes past it is no progress
    time_point last_piece{};   ///< when what is being fetched has got on last
    unsigned kept = 0;                    ///< blocks that are being filled, or hold messages that nobody has let go of

    bool anything_to_do() const noexcept { return to_withdraw != 0 || to_tell != 0 || !order.empty(); }
    std::uint32_t idle_slot() const noexcept {
        std::uint32_t i = 0;
        while (i < out.size() && out[i].now != outgoing::state::idle) ++i;
        return i;
    }
};

} // namespace corewire::rdma
