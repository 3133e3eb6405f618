#include <corewire/net/tcp/send/header.hh>

#include <corewire/net/tcp/send/path_search.hh>
#include <corewire/net/tcp/user_timeout.hh>

namespace corewire::tcp {

void append_sack(control_block& c, outgoing_segment& out) noexcept {
    receiver& r = c.receiving;
    const std::uint32_t size = sack_option_size(c);
    if (size == 0) return;
    const std::uint32_t begin = out.option_size & ~3u; // Linux's AccECN option takes the place of the padding
    const std::uint32_t left = static_cast<std::uint32_t>(wire::tcp_options::max_size) - begin; // AccECN's stand before it
    if (left < 12) return;
    const std::uint32_t room = (std::min(size, left) - 4) / 8;
    sack_block blocks[4];
    std::uint32_t count = 0;
    if (r.has_duplicate) {
        blocks[count++] = r.duplicate;
        if (r.duplicate.left > r.next) r.ahead.touch(r.duplicate.left); // the block that holds it is reported next (RFC 2883 4.2)
    }
    count += r.ahead.report(blocks + count, room - count);
    r.has_duplicate = false;
    if (c.options->like_linux() && r.fin_ahead && r.ahead.empty()) r.tell_of_fin_alone();
    std::byte* p = out.options.data() + begin;
    if (begin == out.option_size) store_be16(p, 0x0101);
    store_be16(p + 2, static_cast<std::uint16_t>(0x0500u | (2 + 8 * count)));
    for (std::uint32_t i = 0; i < count; ++i) {
        store_be32(p + 4 + 8 * i, blocks[i].left.value);
        store_be32(p + 8 + 8 * i, blocks[i].right.value);
    }
    out.option_size = static_cast<std::uint8_t>(begin + 4 + 8 * count);
}

bool append_user_timeout(control_block& c, outgoing_segment& out) noexcept {
    c.user_timeout_untold = false;
    const bool fits = out.option_size + 4u <= wire::tcp_options::max_size;
    if (!fits) out.option_size = static_cast<std::uint8_t>(c.option_bytes());
    store_be32(out.options.data() + out.option_size, 0x1c040000u | user_timeout_field(c.options->advertised_user_timeout));
    out.option_size = static_cast<std::uint8_t>(out.option_size + 4);
    return fits;
}

namespace {

/// What our SYN offers; a SYN-ACK offers what the SYN did too (RFC 7323 2.2, 3.2; RFC 2018 2).
wire::tcp_options offer(const control_block& c, time_point now) noexcept {
    const bool answer = c.state == tcp_state::syn_received;
    const parameters& p = *c.options;
    // Where both have opened it is our SYN once more: Linux and FreeBSD offer again what the peer's has not.
    const bool agreed = answer && (c.passive || p.habits == personality::standard);
    const bool agreed_sack = agreed || (answer && p.like_freebsd());
    const fast_open_state& fast = c.fast_open.get();
    wire::tcp_options o;
    o.set_mss(asked_size(c));
    if (agreed_sack ? c.receiving.sack : p.sack) o.set_sack_permitted();
    if (agreed ? c.timestamps : p.timestamps) {
        o.set_timestamps(timestamp_echo::clock(now, c.timestamp_offset), answer || p.like_linux() ? c.receiving.timestamps.recent() : 0);
    }
    // A SYN or SYN-ACK that goes unanswered is repeated without: some middleboxes drop what they do not know (RFC 7413 4.2.1, 7.1).
    if ((answer ? fast.give_cookie : fast.asked) && !c.syn_resent) o.set_fast_open(fast.cookie.bytes(), fast.cookie.experimental);
    if (answer && c.ecn.accurate != nullptr && !c.syn_resent) offer_counters(p, o); // RFC 9768 3.2.3.2.1
    if (p.advertised_user_timeout > duration{0}) o.set_user_timeout(user_timeout_field(p.advertised_user_timeout));
    if (agreed ? c.scaling : p.window_scaling) o.set_window_scale(receive_window::scale_for(p.largest_window()));
    return o;
}

} // namespace

std::uint32_t first_window_unit(const control_block& c) noexcept {
    if (!c.options->like_linux()) return 1;
    const bool answer = c.state == tcp_state::syn_received;
    const bool stamped = answer ? c.timestamps : c.receiving.timestamps.recent() != 0;
    return c.options->mss - wire::tcp_options::usual_size(stamped);
}

void fill_syn(control_block& c, time_point now, outgoing_segment& out) noexcept {
    const bool answer = c.state == tcp_state::syn_received;
    receiver& r = c.receiving;
    out.seq = c.sending.una;
    out.flags = answer ? tcp_flags::syn | tcp_flags::ack : tcp_flags::syn;
    out.flags |= ecn_setup_flags(c);
    if (c.fin_goes_ahead()) out.flags |= tcp_flags::fin;
    out.ack = answer ? r.next : seq_number(0);
    out.window = answer ? r.window.advertise_unscaled(r.next, first_window_unit(c))
                        : receive_window::unscaled(c.options->receive_buffer, first_window_unit(c));
    const auto order = c.options->habits == personality::freebsd ? wire::option_order::freebsd
                                                                : wire::option_order::linux_kernel;
    out.option_size = static_cast<std::uint8_t>(offer(c, now).emit(out.options, order));
    if (answer) r.acks.on_sent(r.next, false);
}

} // namespace corewire::tcp
