#include <corewire/net/tcp/open/syn_cookies.hh>

#include <corewire/net/tcp/receive/timestamps.hh>
#include <corewire/net/tcp/receive/window.hh>

namespace corewire::tcp {

namespace {

constexpr std::uint32_t hash_mask = 0x00ff'ffff;
constexpr std::uint32_t no_scale = 15;

std::uint64_t minute_of(time_point now) noexcept {
    return static_cast<std::uint64_t>(now.time_since_epoch() / syn_cookies::lifetime_step);
}

std::uint32_t index_for(std::uint16_t peer_mss) noexcept {
    std::uint32_t index = 7;
    while (index != 0 && syn_cookies::mss_table[index] > peer_mss) --index;
    return index;
}

/// Our clock with its low six bits replaced, and never ahead of itself: time must not run backwards for PAWS.
std::uint32_t stamp(std::uint32_t clock, bool sack, std::uint32_t scale) noexcept {
    const std::uint32_t bits = (sack ? 32u : 0u) | scale << 1 | 1u;
    const std::uint32_t value = (clock & ~63u) | bits;
    return static_cast<std::int32_t>(value - clock) > 0 ? value - 64 : value;
}

} // namespace

std::uint32_t syn_cookies::hash(std::uint64_t minute, const cookie_flow& f, seq_number irs,
                                std::uint32_t index) const noexcept {
    const auto when = static_cast<std::uint32_t>(minute) << 3 | index;
    return static_cast<std::uint32_t>(
               hash_flow(key_, f.local_address, f.local_port, f.remote_address, f.remote_port, irs.value, when)) &
           hash_mask;
}

seq_number syn_cookies::encode(time_point now, const cookie_flow& flow, seq_number irs,
                               std::uint16_t peer_mss) const noexcept {
    const std::uint64_t minute = minute_of(now);
    const std::uint32_t index = index_for(peer_mss);
    return seq_number((static_cast<std::uint32_t>(minute) & 31u) << 27 | index << 24 | hash(minute, flow, irs, index));
}

std::optional<std::uint16_t> syn_cookies::decode(time_point now, const cookie_flow& flow, seq_number irs,
                                                 seq_number cookie) const noexcept {
    const std::uint64_t minute = minute_of(now);
    const std::uint32_t age = (static_cast<std::uint32_t>(minute) - (cookie.value >> 27)) & 31u;
    const std::uint32_t index = cookie.value >> 24 & 7u;
    if (age > 1 || age > minute) return std::nullopt;
    if ((cookie.value & hash_mask) != hash(minute - age, flow, irs, index)) return std::nullopt;
    return mss_table[index];
}

void syn_cookies::answer(time_point now, const cookie_flow& flow, const segment& syn, const parameters& ours,
                         outgoing_segment& out) const noexcept {
    const bool timestamps = ours.timestamps && syn.options.has_timestamps();
    // Without timestamps there is no room to remember them, so they are not agreed on.
    const bool sack = timestamps && ours.sack && syn.options.has_sack_permitted();
    const bool scaling = timestamps && ours.window_scaling && syn.options.has_window_scale();
    wire::tcp_options o;
    o.set_mss(ours.mss);
    if (sack) o.set_sack_permitted();
    if (scaling) o.set_window_scale(receive_window::scale_for(ours.receive_buffer));
    if (timestamps) {
        const std::uint32_t clock = timestamp_echo::clock(now, ours.timestamp_offset);
        o.set_timestamps(stamp(clock, sack, scaling ? syn.options.window_scale : no_scale), syn.options.timestamp_value);
    }
    const auto order = ours.habits == personality::freebsd ? wire::option_order::freebsd
                                                           : wire::option_order::linux_kernel;
    out.seq = encode(now, flow, syn.seq, syn.options.has_mss() ? syn.options.mss : std::uint16_t{536});
    out.ack = syn.seq + 1;
    out.window = static_cast<std::uint16_t>(std::min<std::uint32_t>(ours.receive_buffer, 0xffff));
    out.flags = tcp_flags::syn | tcp_flags::ack;
    out.option_size = static_cast<std::uint8_t>(o.emit(out.options, order));
    out.retransmission = false;
    out.payload_offset = out.payload_size = out.chunk_offset = 0;
    out.chunk = nullptr;
}

std::optional<cookie_open> syn_cookies::accept(time_point now, const cookie_flow& flow, const segment& ack,
                                               const parameters& ours) const noexcept {
    if (!ack.has(tcp_flags::ack) || ack.has(tcp_flags::syn | tcp_flags::rst)) return std::nullopt;
    const seq_number iss = ack.ack - 1u;
    const seq_number irs = ack.seq - 1u;
    const std::optional<std::uint16_t> mss = decode(now, flow, irs, iss);
    if (!mss) return std::nullopt;
    cookie_open open{.iss = iss, .irs = irs, .peer_mss = *mss, .window = ack.window};
    if (ours.timestamps && ack.options.has_timestamps() && (ack.options.timestamp_echo & 1u) != 0) {
        const std::uint32_t bits = ack.options.timestamp_echo & 63u;
        open.timestamps = true;
        open.peer_timestamp = ack.options.timestamp_value;
        open.sack_permitted = ours.sack && (bits & 32u) != 0;
        const std::uint32_t scale = bits >> 1 & 15u;
        if (ours.window_scaling && scale != no_scale) open.window_scale = static_cast<std::uint8_t>(scale);
    }
    return open;
}

} // namespace corewire::tcp
