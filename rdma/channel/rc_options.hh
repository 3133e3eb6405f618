// What a reliable channel is made with, and what its two ends tell each other of it while they connect.
#pragma once

#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <cstdint>
#include <optional>

namespace corewire::rdma {

struct rc_options {
    unsigned message_size = 4096; ///< bytes: of a receive buffer; a longer message is fetched by this end (rendezvous.hh)
    unsigned largest_message = 16u << 20; ///< bytes: the longest of those (1 GiB at most); what is not more than message_size: none;
                                  ///< less where the pool has no room for it beside copies and this connection's buffers
    unsigned large_messages = 4;  ///< of them under way at a time, each way, and as many kept by the receiver (0..64; 0: none)
    unsigned receive_depth = 64;  ///< messages the peer may send before it hears that one was consumed (2..4096)
    unsigned send_depth = 64;     ///< work requests of ours that may be outstanding (8..4096)
    unsigned inline_bytes = 128;  ///< messages this short go with their work request; the device may give less
    unsigned reads = 4;           ///< READs and atomics at a time, each way; the device may give less
    unsigned accept_backlog = 64; ///< listeners: connections that are being made, or wait for accept()
    duration fetch_within = std::chrono::minutes{1}; ///< a connection ends (ETIMEDOUT) when nothing comes for so long of what this end
                        ///< fetches, or when the peer leaves the oldest message announced to it unfetched for so long, counted from when
                        ///< it became the oldest: each is fetched whole within that time, however large it is and however slow the way,
                        ///< as this end sees only the end of a fetch. So the memory of either is not held for ever (0: it is)
    duration silence{}; ///< for how long at least the peer's device may leave what was sent unacknowledged (0: as rdma_cm has it, and
                        ///< without it usual_silence), and nothing may come before it is asked whether it is there (0: usual_silence)
};

/// Buffers beyond receive_depth: for what needs no credit (credits themselves, and the goodbye). Credits are told when half of
/// receive_depth is owed, so at most two such messages and the goodbye are on their way; one more for good measure.
constexpr unsigned control_receives = 4;
/// Work requests kept back for the same.
constexpr unsigned control_sends = 4;
/// Stretches of registered memory that one message is gathered from; the device may have fewer.
constexpr unsigned most_regions = 4;
constexpr unsigned most_large_messages = 64;
/// What announces and withdraws them needs so much of a send queue; shorter ones are made that long.
constexpr unsigned large_send_depth = 16;

/// A connection on which nothing has completed for so long asks, if it was not told for how long.
constexpr duration usual_silence = std::chrono::seconds{15};

/// How often the device sends anew what is not acknowledged. The field has three bits, but rdma_rxe (rxe_comp.c, COMPST_ERROR_RETRY)
/// takes 7 for "for ever", as every device does for a receiver that is not ready: a peer that has gone without a word would never be
/// noticed. Who connects says it for both ends.
constexpr unsigned retries = 6;
/// Credits see to it that a receive is always posted. Each end says it for the other.
constexpr unsigned not_ready_retries = 0;
/// Whether a peer may ask that of this end: else it would send, and never hear that nobody is there.
constexpr bool may_be_asked(unsigned unacknowledged, unsigned not_ready) noexcept {
    return unacknowledged <= retries && not_ready == not_ready_retries;
}

/// Sent with the request and with its acceptance, 20 bytes, big-endian: "CWRC", version, large messages at a time, receive depth, size
/// of a receive buffer, largest message.
struct rc_hello {
    static constexpr std::size_t wire_size = 20;
    static constexpr std::uint32_t magic = 0x43575243;
    static constexpr std::uint16_t version = 2;

    std::uint32_t receive_depth = 0;
    std::uint32_t message_size = 0;
    std::uint32_t largest_message = 0; ///< 0: none that is longer than message_size
    std::uint16_t large_messages = 0;

    std::array<std::byte, wire_size> to_wire() const noexcept {
        std::array<std::byte, wire_size> out{};
        store_be32(out.data(), magic);
        store_be16(out.data() + 4, version);
        store_be16(out.data() + 6, large_messages);
        store_be32(out.data() + 8, receive_depth);
        store_be32(out.data() + 12, message_size);
        store_be32(out.data() + 16, largest_message);
        return out;
    }
    /// rdma_cm may add zeros at the end. Nothing if this is no peer of ours.
    static std::optional<rc_hello> from_wire(byte_span bytes) noexcept {
        if (bytes.size() < wire_size || load_be32(bytes.data()) != magic || load_be16(bytes.data() + 4) != version)
            return std::nullopt;
        const std::byte* const b = bytes.data();
        const rc_hello h{load_be32(b + 8), load_be32(b + 12), load_be32(b + 16), load_be16(b + 6)};
        if (h.receive_depth == 0 || h.receive_depth > 4096 || h.message_size > (1u << 30)) return std::nullopt;
        if (h.largest_message > (1u << 30) || h.large_messages > most_large_messages) return std::nullopt;
        return h;
    }
};

/// The immediate data of every SEND: what it is, and how many credits come with it.
///     bits 31..28 kind, 27..16 slot of a large message, else zero, 15..0 credits: receives that the sender of this has posted anew
struct rc_header {
    enum class kind : std::uint32_t { data = 1, credits = 2, goodbye = 3, announcement = 4, fetched = 5 };
    kind what = kind::data;
    std::uint32_t credits = 0;
    std::uint32_t slot = 0;

    bool is_large() const noexcept { return what == kind::announcement || what == kind::fetched; }
    std::uint32_t to_wire() const noexcept { return static_cast<std::uint32_t>(what) << 28 | slot << 16 | credits; }
    static std::optional<rc_header> from_wire(std::uint32_t v) noexcept {
        const std::uint32_t kind = v >> 28;
        if (kind < 1 || kind > 5) return std::nullopt;
        const rc_header h{static_cast<enum kind>(kind), v & 0xffff, v >> 16 & 0xfff};
        if (h.slot != 0 && !h.is_large()) return std::nullopt;
        return h;
    }
};

} // namespace corewire::rdma
