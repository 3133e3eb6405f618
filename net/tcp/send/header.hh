// The header fields and options of outgoing segments. Everything that acknowledges goes through fill_header(), which
// tells the ack policy and the window that it did.
#pragma once

#include <corewire/net/tcp/control_block.hh>
#include <corewire/net/tcp/linux_accurate_ecn.hh>
#include <corewire/reactor/base/bytes.hh>

namespace corewire::tcp {

/// AccECN's counters have changed: a SACK block less, so that there is room to say so (RFC 9768 3.2.3.3).
inline bool leaves_room_for_counters(const control_block& c) noexcept {
    const accurate_ecn* e = c.ecn.accurate.get();
    return e != nullptr && e->options_out && !c.options->like_linux() && !e->received.same_bytes(e->told);
}

/// SACK blocks that there is something to tell in, and room for beside the usual options.
inline std::uint32_t sack_blocks(const control_block& c) noexcept {
    const receiver& r = c.receiving;
    if (!r.has_duplicate && r.ahead.empty()) [[likely]] return 0;
    if (!r.sack) return 0;
    std::uint32_t most = c.timestamps ? 3 : 4;
    if (leaves_room_for_counters(c)) --most;
    return std::min(most, r.ahead.reportable() + (r.has_duplicate ? 1u : 0u));
}

/// Bytes of SACK option that the next segment carries beside the usual options.
inline std::uint32_t sack_option_size(const control_block& c) noexcept {
    std::uint32_t blocks = sack_blocks(c);
    if (blocks == 0) [[likely]] return 0;
    if (c.ecn.accurate != nullptr && c.options->like_linux()) [[unlikely]] blocks = linux_accurate::plan_option(c, blocks).blocks;
    return 4 + 8 * blocks;
}

/// Largest payload beside all the options of the next segment (RFC 9293 3.7.1, MUST-16).
inline std::uint32_t payload_limit(const control_block& c) noexcept {
    const std::uint32_t limit = c.sending.payload_limit - sack_option_size(c);
    if (c.ecn.accurate != nullptr) [[unlikely]] return limit - accurate_option_size(c, true);
    return limit;
}

/// D-SACK first, then the ranges beyond the gap (RFC 2018 4, RFC 2883 4).
void append_sack(control_block& c, outgoing_segment& out) noexcept;
/// The user timeout option (RFC 5482) behind the others. False: there was no room, and SACK's has given way.
bool append_user_timeout(control_block& c, outgoing_segment& out) noexcept;
/// Bytes: Linux's first window is a multiple of what a segment carries.
std::uint32_t first_window_unit(const control_block& c) noexcept;
/// SYN or SYN-ACK, by the connection's state.
void fill_syn(control_block& c, time_point now, outgoing_segment& out) noexcept;

/// The first option, behind two NOPs (RFC 7323 3.2, appendix A).
[[gnu::always_inline]] inline void begin_with_timestamps(const control_block& c, time_point now, outgoing_segment& out) noexcept {
    store_be32(out.options.data(), wire::tcp_options::nop_nop_timestamps);
    store_be32(out.options.data() + 4, timestamp_echo::clock(now, c.timestamp_offset));
    store_be32(out.options.data() + 8, c.receiving.timestamps.recent());
    out.option_size = wire::tcp_options::timestamps_size;
}

/// All but sequence number and payload. `with_data`: the segment carries data, for the ack policy.
[[gnu::always_inline]] inline void fill_header(control_block& c, time_point now, outgoing_segment& out, bool with_data) noexcept {
    receiver& r = c.receiving;
    out.ack = r.next;
    out.window = r.window.advertise(r.next, r.queue.size());
    out.option_size = 0;
    if (c.timestamps) begin_with_timestamps(c, now, out);
    if (c.ecn.accurate != nullptr) [[unlikely]] append_accurate(c, out, with_data);
    if (r.has_duplicate || !r.ahead.empty()) [[unlikely]] append_sack(c, out);
    r.acks.on_sent(r.next, with_data);
}

} // namespace corewire::tcp
