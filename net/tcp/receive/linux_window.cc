#include <corewire/net/tcp/receive/linux_window.hh>

#include <corewire/net/tcp/send/path_search.hh>

#include <array>

namespace corewire::tcp {

/// Of what waits to be read, in order or beyond a gap.
struct receive_account {
    struct cost {
        seq_number end;
        std::uint32_t bytes = 0;
    };
    static constexpr std::uint32_t most = 4096; ///< of more the last holds the cost
    ring<cost> held;                ///< by `end`
    std::uint32_t used = 0;         ///< bytes, of all held (sk_rmem_alloc)
    std::uint32_t tail = 0;         ///< bytes that find room in the last one's memory
    std::uint32_t memory = 0;       ///< as it was set
    std::uint32_t space = 0;        ///< and as it has grown (sk_rcvbuf)
    std::uint32_t buffer = 0;       ///< the window's, when `space` was last looked at
    std::uint32_t told = 0;         ///< the window, when a segment last left (rcv_wnd)
    std::uint32_t clamp = 0;        ///< no larger window (window_clamp)
    std::uint32_t threshold = 0;    ///< nor, for now, a larger one than this (rcv_ssthresh)
    std::uint32_t last_segment = 0; ///< the size of a smaller one, which the next may confirm
    std::uint32_t ratio = 128;      ///< payload of 256 bytes of memory (scaling_ratio)
    std::uint32_t round_space = 0;  ///< the most that was read in a round trip (rcvq_space.space)
    seq_number round_start;         ///< what was read when this one began
    time_point round_began{};
    bool has_read = false;          ///< since the last segment: of the first packet, up to here, with so much behind it
    seq_number read_to;
    std::uint32_t left = 0;
    seq_number reader;
};

void forget_account::operator()(receive_account* a) const noexcept { delete a; }

namespace {

constexpr std::uint32_t headers = 40;            ///< of IPv4 and TCP
constexpr std::uint32_t struct_size = 256;       ///< what Linux keeps beside a packet (struct sk_buff)
constexpr std::uint32_t shared_size = 320;       ///< and behind it (struct skb_shared_info)
constexpr std::uint32_t page = 4096;
constexpr std::uint32_t usual_most = 6'291'456;  ///< tcp_rmem[2]
constexpr std::uint32_t least_clamp = 1152;      ///< SOCK_MIN_RCVBUF / 2
constexpr std::uint32_t least_segment = 88, usual_segment = 536; ///< TCP_MIN_MSS, TCP_MSS_DEFAULT

/// The payload of a full segment of ours.
std::uint32_t full_payload(const control_block& c) noexcept {
    const std::uint32_t mss = asked_size(c), taken = c.option_bytes();
    return mss > taken ? mss - taken : 1;
}
std::uint32_t packet_in_front(const control_block& c, std::uint32_t payload) noexcept { return 64 + headers + c.option_bytes() + payload; }

/// What a TUN device's packet costs: its memory comes in blocks.
std::uint32_t memory_of(const control_block& c, std::uint32_t payload) noexcept {
    const std::uint32_t needed = (packet_in_front(c, payload) + 63) / 64 * 64 + shared_size;
    for (const std::uint32_t block : {576u, 1024u, 2048u, page})
        if (needed <= block) return block + struct_size;
    return (needed + page - 1) / page * page + struct_size;
}
/// What fits behind it: tcp_try_coalesce() copies it there. Larger packets lie in pages.
std::uint32_t room_behind(const control_block& c, std::uint32_t payload) noexcept {
    const std::uint32_t front = packet_in_front(c, payload);
    return front < page ? memory_of(c, payload) - struct_size - shared_size - front : 0;
}

/// tcp_win_from_space().
std::uint32_t window_of(const receive_account& m, std::uint32_t space) noexcept {
    return static_cast<std::uint32_t>(std::uint64_t{space} * m.ratio >> 8);
}
std::uint32_t free_space(const receive_account& m) noexcept { return m.used < m.space ? window_of(m, m.space - m.used) : 0; }

/// tcp_set_window_clamp().
void set_clamp(receive_account& m, std::uint32_t clamp) noexcept {
    clamp = std::max(clamp, least_clamp);
    if (clamp < m.clamp) m.threshold = std::min(m.threshold, clamp);
    else if (clamp > m.clamp) m.threshold = std::max(m.threshold, std::min(m.told, clamp));
    m.clamp = clamp;
}

std::uint32_t memory_limit(const parameters& p) noexcept { return p.receive_memory != 0 ? p.receive_memory : 2 * p.receive_buffer; }
std::uint32_t most_memory(const parameters& p) noexcept { return p.receive_growth_limit != 0 ? 2 * p.receive_growth_limit : usual_most; }

/// The socket's options may have changed, or the buffer has grown.
void heed_settings(const control_block& c, receive_account& m) noexcept {
    const parameters& p = *c.options;
    const std::uint32_t memory = memory_limit(p), buffer = c.receiving.window.buffer();
    if (memory != m.memory) m.memory = m.space = memory;
    if (buffer == m.buffer) return;
    m.buffer = buffer;
    if (buffer < memory / 2) return set_clamp(m, buffer); // TCP_WINDOW_CLAMP
    const auto grown = static_cast<std::uint32_t>(std::min<std::uint64_t>((std::uint64_t{buffer} << 8) / m.ratio, most_memory(p)));
    if (buffer <= memory / 2 || grown <= m.space) return;
    m.space = grown;
    set_clamp(m, window_of(m, grown));
}

seq_number reader_of(const receiver& r) noexcept { return r.next - r.queue.size() - (r.fin_received ? 1u : 0u); }

void forget_what_was_read(const control_block& c, receive_account& m) noexcept {
    const seq_number reader = reader_of(c.receiving);
    if (m.reader != reader && !m.has_read) {
        m.has_read = true;
        m.read_to = m.held.empty() ? reader : earlier(m.held.front().end, reader);
        m.left = c.receiving.next - m.read_to;
    }
    m.reader = reader;
    while (!m.held.empty() && m.held.front().end <= reader) {
        m.used -= m.held.front().bytes;
        m.held.drop_front();
    }
}

} // namespace

void forget_what_came_ahead(control_block& c) noexcept {
    if (c.sending.known().account == nullptr) return;
    receive_account& m = *c.sending.known().account;
    while (!m.held.empty() && m.held.back().end > c.receiving.next) {
        m.used -= m.held.back().bytes;
        m.held.erase(m.held.size() - 1);
    }
    m.tail = 0;
}

namespace {

receive_account& account_of(control_block& c) {
    if (c.sending.need().account == nullptr) begin_linux_window(c);
    receive_account& m = *c.sending.need().account;
    heed_settings(c, m);
    forget_what_was_read(c, m);
    return m;
}

/// tcp_rcvbuf_grow(): room for twice what was read in a round trip, as much more as that has grown, and what lies beyond a gap.
void grow_memory(control_block& c, receive_account& m, std::uint32_t read) noexcept {
    receiver& r = c.receiving;
    const std::uint32_t before = std::exchange(m.round_space, read);
    if (c.options->receive_growth_limit == 0 || before == 0) return;
    std::uint64_t window = std::uint64_t{2} * read;
    window += window * (read - before) / before * 2;
    if (!r.ahead.empty()) window += r.ahead.end() - r.next;
    const auto memory = static_cast<std::uint32_t>(std::min<std::uint64_t>((window << 8) / m.ratio, most_memory(*c.options)));
    if (memory <= m.space) return;
    const std::uint32_t buffer = memory / 2, has = r.window.buffer(); // the share of it that is window, as SO_RCVBUF has it
    if (buffer > has) {
        if (!c.share.take(c.options->budget, buffer - has)) return;
        r.set_buffer(buffer, *c.options);
        m.buffer = buffer;
    }
    m.space = memory;
    m.clamp = window_of(m, memory);
}

void hold(const control_block& c, receive_account& m, seq_number start, seq_number end, std::uint32_t payload) {
    if (!m.held.empty() && m.held.back().end == start && payload <= m.tail) {
        m.held.back().end = end;
        m.tail -= payload;
        return;
    }
    const std::uint32_t bytes = memory_of(c, payload);
    m.used += bytes;
    if (m.held.size() >= receive_account::most) {
        m.held.back().bytes += bytes;
        m.held.back().end = later(m.held.back().end, end);
        return;
    }
    std::uint32_t at = m.held.size();
    while (at != 0 && m.held[at - 1].end > end) --at;
    if (at == m.held.size()) m.tail = room_behind(c, payload);
    (at == m.held.size() ? m.held.push_back() : m.held.insert(at)) = {end, bytes};
}

/// tcp_measure_rcv_mss().
void measure(control_block& c, receive_account& m, const arrival& a) noexcept {
    ack_policy& acks = c.receiving.acks;
    acks.forget_ends_of_writes();
    const std::uint32_t size = a.seg.payload_size, last = std::exchange(m.last_segment, 0u);
    if (size >= acks.largest_segment()) {
        if (size != acks.largest_segment()) {
            const std::uint32_t ratio = std::max<std::uint32_t>((size << 8) / memory_of(c, size), 1);
            if (std::exchange(m.ratio, ratio) != ratio) set_clamp(m, window_of(m, m.space));
        }
        acks.expect_segments(std::min<std::uint32_t>(size, full_payload(c)));
        if (a.seg.has(tcp_flags::psh)) acks.note_end_of_write(false);
        return;
    }
    const std::uint32_t whole = size + c.option_bytes();
    const bool remnant = a.seg.has(tcp_flags::fin | tcp_flags::urg | tcp_flags::syn | tcp_flags::psh);
    if (whole >= usual_segment || (whole >= least_segment && !remnant)) {
        m.last_segment = size;
        if (size == last) return acks.expect_segments(size);
    }
    acks.note_end_of_write(true);
}

/// What is taken follows what is free, also backwards (net.ipv4.tcp_shrink_window); the kernel wants a scaled window for it.
bool shrinks(const control_block& c) noexcept { return c.options->shrinks_window && c.receiving.window.scale() != 0; }

/// __tcp_select_window().
std::uint32_t select_window(control_block& c, receive_account& m) noexcept {
    const std::uint32_t scale = c.receiving.window.scale();
    const std::uint32_t grain = 1u << scale;
    const std::uint32_t allowed = window_of(m, m.space), full = std::min(m.clamp, allowed);
    const std::uint32_t segment = std::min(c.receiving.acks.largest_segment(), full);
    if (segment == 0) return 0;
    std::uint32_t free = free_space(m);
    if (shrinks(c)) free -= free % grain;
    if (free < full / 2) {
        c.receiving.acks.no_more_quick();
        free -= free % grain;
        if (free < allowed >> 4 || free < segment || (shrinks(c) && free < grain)) return 0;
    }
    free = std::min(free, m.threshold);
    if (scale != 0) return (free + grain - 1) / grain * grain;
    const std::uint32_t window = m.told;
    if (window + segment <= free || window > free) return free - free % segment;
    return segment == full && free > window + full / 2 ? free : window;
}

} // namespace

void begin_linux_window(control_block& c) {
    seldom_needed& known = c.sending.need();
    if (known.account != nullptr) return;
    known.account.reset(new receive_account);
    receive_account& m = *known.account;
    receive_window& w = c.receiving.window;
    m.buffer = w.buffer();
    m.memory = m.space = memory_limit(*c.options);
    // The field of a SYN has no room for all that is promised.
    const std::uint32_t mss = std::max<std::uint32_t>(c.options->mss, 1), limit = 0xffffu << w.scale();
    const std::uint32_t unit = c.passive ? full_payload(c) : mss;
    const seq_number told_at = c.receiving.acks.last_sent();
    w.reach(told_at + std::min(m.buffer - m.buffer % unit, limit));
    m.told = w.edge() - told_at;
    const std::uint32_t largest = window_of(m, m.space), segment = c.passive ? mss : full_payload(c);
    m.clamp = std::min({limit, largest, m.buffer});
    if (m.clamp > 2 * segment && m.clamp + segment > largest) m.clamp = std::max(2 * segment, largest - segment); // room for one
    m.threshold = std::min(m.told, m.clamp);
    m.round_space = std::min(m.threshold, 10 * segment); // the first flight
    m.round_start = m.reader = reader_of(c.receiving);
    m.round_began = std::max(c.heard, c.sending.progress);
}

void note_cost(control_block& c, const arrival& a, bool in_order) {
    receive_account& m = account_of(c);
    hold(c, m, a.seq, a.seq + a.size, a.seg.payload_size);
    measure(c, m, a);
    if (in_order) return;
    if (c.receiving.sack) grow_linux_window(c, a);
    const bool has_user = !c.orphaned && (c.accepted || !c.passive);
    if (has_user) grow_memory(c, m, m.round_space);
}

void heed_reader(control_block& c, time_point now) {
    receive_account& m = account_of(c);
    const duration round_trip = std::chrono::microseconds{c.sending.known().receive_rtt.eighths / 8};
    if (!std::exchange(m.has_read, false) || round_trip == duration{0} || now - m.round_began < round_trip) return;
    const std::uint32_t read = m.read_to - m.round_start;
    if (read > m.left && read - m.left > m.round_space) grow_memory(c, m, read - m.left);
    m.round_start = m.read_to;
    m.round_began = now;
}

std::uint32_t linux_round_space(const control_block& c) noexcept {
    const seldom_needed& known = c.sending.known();
    return known.account != nullptr ? known.account->round_space : 0;
}

void grow_linux_window(control_block& c, const arrival& a) {
    receive_account& m = account_of(c);
    const std::uint32_t room = std::min(m.clamp, free_space(m));
    if (room <= m.threshold) return;
    const std::uint32_t size = a.seg.payload_size;
    std::uint32_t payload = window_of(m, memory_of(c, size)), more = 0;
    if (payload <= size) {
        more = 2 * full_payload(c);
    } else { // it costs much: __tcp_grow_window()
        payload /= 2;
        for (std::uint32_t w = window_of(m, most_memory(*c.options)) / 2; m.threshold <= w && more == 0; payload /= 2, w /= 2)
            if (payload <= size) more = 2 * c.receiving.acks.largest_segment();
    }
    if (more == 0) return;
    m.threshold += std::min(room - m.threshold, std::max(more, 2 * size));
    c.receiving.acks.keep_odd();
}

bool acknowledges_now(control_block& c) {
    const receiver& r = c.receiving;
    const bool more_than_one = r.next - r.acks.last_sent() > r.acks.largest_segment();
    receive_account& m = account_of(c);
    if (more_than_one && select_window(c, m) >= m.told) return true;
    return r.acks.quick_now();
}

bool acknowledges_read(control_block& c) {
    const receiver& r = c.receiving;
    if (r.acks.now() || !is_synchronized(c.state)) return false;
    receive_account& m = account_of(c);
    if (r.acks.due_when_read(r.next, m.used == 0)) return true;
    const std::uint32_t left = r.room();
    if (r.fin_received || c.reading_shut || 2 * left > m.clamp) return false;
    const std::uint32_t window = select_window(c, m);
    return window != 0 && window >= 2 * left;
}

void tell_linux_window(control_block& c, outgoing_segment& out) {
    receiver& r = c.receiving;
    const std::uint32_t scale = r.window.scale(), left = r.room(), grain = 1u << scale;
    receive_account& m = account_of(c);
    std::uint32_t window = select_window(c, m);
    if (window < left && !shrinks(c)) window = (left + grain - 1) / grain * grain;
    window = std::min(window, 0xffffu << scale);
    m.told = window;
    if (shrinks(c)) r.window.take_back(r.next + window);
    else r.window.reach(r.next + window);
    out.window = static_cast<std::uint16_t>(window >> scale);
}

std::uint32_t linux_threshold(const control_block& c) noexcept {
    const seldom_needed& known = c.sending.known();
    return known.account != nullptr ? known.account->threshold : c.receiving.room();
}

std::uint32_t linux_held_memory(const control_block& c) noexcept {
    const seldom_needed& known = c.sending.known();
    if (known.account == nullptr) return 0;
    const receive_account& m = *known.account;
    const seq_number reader = reader_of(c.receiving);
    std::uint32_t used = m.used;
    for (std::uint32_t i = 0; i < m.held.size() && m.held[i].end <= reader; ++i) used -= m.held[i].bytes; // read since
    return used;
}

std::uint32_t linux_clamp(const control_block& c) noexcept {
    const seldom_needed& known = c.sending.known();
    if (known.account != nullptr) return known.account->clamp;
    return 0xffffu << (c.options->window_scaling ? receive_window::scale_for(c.options->largest_window()) : 0);
}

} // namespace corewire::tcp
