// AccECN by Linux's habits (6.18, switched on since 7.0), where they are others than RFC 9768's advice: what the option carries and when,
// which ACKs are hurried, how the counters are read, and which marks of the handshake count. Asked for under like_linux() alone.
#pragma once

#include <corewire/net/tcp/control_block.hh>

#include <optional>

namespace corewire::tcp::linux_accurate {

/// The option of the next segment, and how many SACK blocks stay beside it.
struct option_plan {
    std::optional<unsigned> fields; ///< none: no option
    std::uint32_t size = 0;         ///< bytes by which the header grows; less than the option's where SACK's padding has room for it
    std::uint32_t blocks = 0;
};

/// The SYN-ACK has put us into AccECN mode. `ace`: its flags as a number.
void take_answer(control_block& c, const segment& syn_ack, unsigned ace) noexcept;
/// The ACK of our SYN-ACK, which may carry data.
void settle_server(control_block& c, const arrival& a) noexcept;
/// What came with the SYN (tcp_ecn_openreq_child()).
void count_syn_data(control_block& c, std::uint32_t bytes) noexcept;
/// Another SYN of the same handshake.
void take_repeated_offer(accurate_ecn& e, const segment& syn) noexcept;
/// A SYN that comes again later.
void note_repeated_answer(control_block& c, const segment& syn) noexcept;

void count_arrival(control_block& c, const arrival& a) noexcept;
void take_feedback(control_block& c, const arrival& a, const delivery& d) noexcept;
void finish(control_block& c, outgoing_segment& out) noexcept;
/// Data came twice: the option of the ACK before may be what the path does not let through.
void suspect_lost_option(control_block& c, seq_number begin) noexcept;

/// `blocks`: of SACK, that there is room for and something to tell.
option_plan plan_option(const control_block& c, std::uint32_t blocks) noexcept;
void append_option(control_block& c, outgoing_segment& out) noexcept;

} // namespace corewire::tcp::linux_accurate
