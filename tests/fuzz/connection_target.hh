// A whole TCP connection driven by a string of bytes: segments of every kind near and far from where they belong, time, and
// everything an application or ICMP can do. Also played by connection_corpus_test.cc, which needs no fuzzer.
//
// What must hold: check_invariants() after each step; what is read is the peer's stream, in order, whatever came twice, overlapping
// or out of order; what is sent is our own stream, inside what was written and inside one segment's bounds; each call comes to rest;
// a closed connection wants nothing any more.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/tcp/fast_path.hh>
#include <corewire/net/tcp/tcb.hh>

#include "decisions.hh"

#include <chrono>
#include <optional>

namespace connection_fuzz {

using namespace corewire;
using namespace std::chrono_literals;

using fuzz::decisions;

/// The byte of either stream at a sequence number.
inline std::byte stream_byte(tcp::seq_number at) noexcept { return static_cast<std::byte>((at.value * 2654435761u) >> 19 ^ at.value); }

class player {
public:
    player(byte_span input, frame_pool& pool) : in_(input), pool_(pool) {
        const tcp::parameters p = choose_parameters();
        const tcp::seq_number iss(in_.number());
        theirs_ = tcp::seq_number(in_.number());
        written_ = iss + 1;
        const std::uint8_t how = in_.byte();
        switch (how % 3) {
        case 0: tcb_.emplace(now_, tcp::active_open{iss, how & 128 ? our_request() : tcp::fast_open_request{}}, p); break;
        case 1: {
            tcp::segment syn = header(tcp::tcp_flags::syn);
            syn.seq = theirs_;
            const bool early = how & 128; // a good cookie was shown
            buffer head, body;
            if (early) head = text(theirs_ + 1, in_.byte() * 6u);
            syn.payload_size = head.size();
            tcb_.emplace(now_, tcp::passive_open{iss, syn, {.take_data = early, .give_cookie = (how & 64) != 0, .cookie = cookie()}}, p);
            if (early) tcb_->take_syn_data(head, body);
            else if (how & 32 && p.like_linux()) tcb_->defer_handshake(1 + (how >> 3 & 3));
            break;
        }
        default:
            tcb_.emplace(now_, tcp::cookie_open{.iss = iss, .irs = theirs_, .peer_mss = in_.word(), .window = in_.word(),
                                                .sack_permitted = (in_.byte() & 1) != 0, .timestamps = p.timestamps,
                                                .window_scale = std::min<std::uint8_t>(in_.byte(), 14), .peer_timestamp = in_.number()}, p);
        }
    }

    void play() {
        after();
        for (int steps = 0; !in_.done() && tcb_->state() != tcp::tcp_state::closed; ++steps) {
            CW_ASSERT(steps < 100'000, "an input without an end");
            step();
            after();
        }
        // The application goes, and so does time: it must end.
        tcb_->shutdown_send();
        tcb_->orphan(now_);
        after();
        for (int rounds = 0; tcb_->state() != tcp::tcp_state::closed && tcb_->next_timeout() != never; ++rounds) {
            CW_ASSERT(rounds < 10'000, "an orphan does not end");
            now_ = std::max(now_, tcb_->next_timeout());
            tcb_->on_timer(now_);
            after();
        }
        CW_ASSERT(tcb_->state() == tcp::tcp_state::closed, "an orphan waits for nothing, for ever");
    }

private:
    static tcp::fast_open_cookie cookie() {
        constexpr std::byte eight[8]{};
        return tcp::fast_open_cookie::of(byte_span(eight));
    }
    /// What our SYN says of Fast Open.
    tcp::fast_open_request our_request() {
        const std::uint8_t b = in_.byte();
        tcp::fast_open_request r{.asked = b % 3 == 0, .without_cookie = b % 3 == 1, .cookie = {}, .peer_mss = 0};
        r.peer_mss = static_cast<std::uint16_t>(b * 8);
        if (b % 3 == 2) r.cookie = cookie();
        return r;
    }

    tcp::parameters choose_parameters() {
        const std::uint8_t a = in_.byte(), b = in_.byte();
        tcp::parameters p;
        p.timestamps = a & 1;
        p.sack = a & 2;
        p.window_scaling = a & 4;
        p.ecn = a & 8;
        p.accurate_ecn = (a & 8) && (b & 64);
        if (a & 16) p.mtu_probing = tcp::path_probing::always;
        p.no_delay = a & 16;
        p.keepalive = a & 32;
        p.tail_loss_probe = a & 64;
        if (a & 128) p.habits = b & 128 ? tcp::personality::freebsd : tcp::personality::linux_;
        p.mss = b & 1 ? 536 : 1460;
        if (b & 2) p.receive_buffer = 3000;
        if (b & 4) p.send_buffer = 5000;
        if (b & 8) p.receive_pieces = p.reassembly_pieces = 4;
        p.pacing = b % 32 == 31;
        p.fast_path = !(b & 16);
        if (b & 32) p.congestion = tcp::reno_congestion;
        if (b & 64) p.congestion = b & 32 ? tcp::bbr_congestion : tcp::dctcp_congestion;
        if (b & 128) p.quick_acks = 0;
        return p;
    }

    /// A segment's fields but for its numbers and text.
    tcp::segment header(tcp::tcp_flags flags) {
        tcp::segment s;
        s.flags = flags;
        s.window = in_.word();
        s.urgent = s.window; // drawn together: the corpus keeps its meaning
        const std::uint8_t kind = in_.byte();
        if (kind < 128) { // what the connection expects
            if (tcb_ && tcb_->uses_timestamps()) s.options.set_timestamps(stamp_ += kind & 3, in_.byte());
        } else {
            s.ecn = static_cast<wire::ecn_codepoint>(kind & 3);
            // As in a frame: the wire's own parser takes them, or the segment is dropped before it comes here.
            if (wire::tcp_options::parse(in_.bytes(kind % 41), s.options) != wire::parse_error::none) s.options.clear();
        }
        return s;
    }

    /// Mostly what keeps a connection going: random bytes shall get far, too.
    tcp::tcp_flags choose_flags() {
        using enum tcp::tcp_flags;
        const std::uint8_t b = in_.byte();
        if (b >= 248) return static_cast<tcp::tcp_flags>(in_.byte() | (b & 1u) << 8);
        if (tcb_->state() == tcp::tcp_state::syn_sent) return b < 200 ? syn | ack : syn;
        if (b < 225) return b & 1 ? ack | psh : ack;
        if (b < 235) return ack | ece;
        return b < 243 ? fin | ack : syn | ack;
    }

    void segment() {
        const tcp::tcp_flags flags = choose_flags();
        const std::uint8_t where = in_.byte(), numbers = in_.byte();
        tcp::segment s = header(flags);
        const tcp::seq_number next = tcb_->state() == tcp::tcp_state::syn_sent ? theirs_ : tcb_->expected();
        const auto small = [this] { return static_cast<std::uint32_t>(static_cast<std::int16_t>(in_.word())); };
        switch (numbers & 7) {
        case 5:
        case 6: s.seq = next + small(); break;
        case 7: s.seq = numbers & 8 ? tcp::seq_number(in_.number()) : next + small() % 8; break;
        default: s.seq = next;
        }
        const tcp::connection_info i = tcb_->info();
        switch (numbers >> 4 & 7) {
        case 4:
        case 5: s.ack = i.snd_una; break;
        case 6: s.ack = i.snd_una + small() % 2000; break;
        case 7: s.ack = numbers & 128 ? tcp::seq_number(in_.number()) : i.snd_max + small() % 8; break;
        default: s.ack = i.snd_max;
        }
        buffer head, body;
        if (where & 16) head = text(s.seq + (s.has(tcp::tcp_flags::syn) ? 1 : 0), in_.byte() * (where & 64 ? 6u : 1u));
        if (where & 32 && !head.empty()) body = text(s.seq + (s.has(tcp::tcp_flags::syn) ? 1 : 0) + head.size(), in_.byte());
        s.payload_size = head.size() + body.size();
        const bool fresh = tcb_->state() == tcp::tcp_state::syn_sent;
        tcb_->on_segment(now_, s, head, body);
        if (fresh && tcb_->state() != tcp::tcp_state::syn_sent) read_ = s.seq + 1;
    }

    buffer text(tcp::seq_number from, std::uint32_t size) {
        if (pool_.free_count == 0) return {};
        buffer b = pool_.allocate_buffer();
        std::byte* at = b.append(std::min(size, b.tailroom()));
        for (std::uint32_t i = 0; i < b.size(); ++i) at[i] = stream_byte(from + i);
        return b;
    }

    void write(std::uint32_t size) {
        if (tcb_->writable() == 0 || shut_) return;
        buffer b = text(written_, size);
        if (b.empty()) return;
        const std::uint32_t copied = size & 1 ? tcb_->append_copy({b.data(), b.size()}) : 0;
        written_ = written_ + b.size();
        b.remove_prefix(copied);
        tcb_->write(std::move(b));
    }

    void read(std::uint32_t most) {
        if (!read_) read_ = theirs_ + 1; // it began with the peer's SYN known
        for (buffer b; !(b = tcb_->read(most)).empty();) {
            for (std::uint32_t i = 0; i < b.size(); ++i)
                CW_ASSERT(b.data()[i] == stream_byte(*read_ + i), "a byte that is not the peer's at this place");
            *read_ = *read_ + b.size();
        }
    }

    void pass(duration time) {
        const time_point until = now_ + time;
        for (int rounds = 0; tcb_->next_timeout() <= until; ++rounds) {
            CW_ASSERT(rounds < 10'000, "timers do not come to rest");
            now_ = std::max(now_, tcb_->next_timeout());
            tcb_->on_timer(now_);
            after();
        }
        now_ = until;
    }

    void step() {
        const std::uint8_t what = in_.byte();
        switch (what % 16) {
        case 8: write(in_.word() % 2000); break;
        case 9: write(in_.byte()); break;
        case 10: read(in_.byte() * 16u + 1); break;
        case 11: pass(std::chrono::microseconds{1} * (1u << in_.byte() % 27)); break;
        case 12: pass(std::chrono::microseconds{in_.word()}); break;
        case 13: command(what >> 4); break;
        default: segment();
        }
    }

    void command(unsigned which) {
        switch (which) {
        case 0: tcb_->shutdown_send(), shut_ = true; break;
        case 1: tcb_->on_path_mtu(now_, in_.word(), tcb_->acknowledged()); break;
        case 2: tcb_->on_icmp_error(std::errc::host_unreachable, in_.byte() & 1, tcp::seq_number(in_.number())); break;
        case 3: tcb_->on_icmp_error(std::errc::connection_refused, in_.byte() & 1, tcb_->acknowledged() + in_.byte()); break;
        case 4: tcb_->set_no_delay(in_.byte() & 1); break;
        case 5: tcb_->set_cork(in_.byte() & 1); break;
        case 6: tcb_->set_keepalive(now_, in_.byte() & 1, 1s * in_.byte(), 1s + 1s * in_.byte(), in_.byte()); break;
        case 7: tcb_->set_quick_acks(in_.byte() & 1); break;
        case 8: tcb_->set_user_timeout(1s * in_.byte()); break;
        case 9: tcb_->set_buffers(in_.word() + 1u, in_.word() + 1u); break;
        case 10: if (in_.byte() < 32) tcb_->abort(); break;
        case 11: if (in_.byte() < 64) tcb_->shutdown_send(), shut_ = true, tcb_->orphan(now_); break;
        case 12: stamp_ += in_.number(); break; // the peer's clock jumps
        case 13: rarely(in_.byte()); break;
        case 14: tcb_->set_urgent(); break;
        default:
            if (tcb_->defers_handshake()) tcb_->defer_handshake(in_.byte() % 4);
        }
    }

    void rarely(std::uint8_t which) {
        const tcp::congestion_factory all[] = {tcp::reno_congestion, tcp::cubic_congestion, tcp::bbr_congestion, tcp::dctcp_congestion};
        switch (which % 8) {
        case 0: tcb_->set_congestion(all[which >> 3 & 3]); break;
        case 1: tcb_->on_no_route(now_, tcb_->acknowledged() + (which >> 3 & 1)); break;
        case 2: tcb_->shutdown_receive(); break;
        case 3: tcb_->advertise_user_timeout(1s * in_.word()); break;
        case 4: tcb_->set_max_pacing_rate(now_, which & 128 ? tcp::congestion_controller::not_paced : in_.word() * 100u + 1000u); break;
        case 5: tcb_->hurry_syn(); break;
        case 6: tcb_->set_fin_wait_2(1s * (which >> 3) - 1s); break;
        default: CW_ASSERT(tcb_->urgent_ahead() <= 1u << 30, "urgent bytes beyond every window");
        }
    }

    /// Everything it wants to send, and what holds after every call.
    void after() {
        tcb_->check_invariants();
        int sent = 0;
        while (tcb_->wants_output()) {
            CW_ASSERT(++sent < 10'000, "output does not come to rest");
            tcp::plain_output plain;
            if ((sent & 1) != 0 && tcb_->next_plain(now_, plain)) {
                CW_ASSERT(plain.chunk != nullptr && plain.chunk_offset + plain.payload_size <= plain.chunk->size(),
                          "a plain segment of no chunk");
                ours(plain.seq, {plain.chunk->data() + plain.chunk_offset, plain.payload_size});
            } else {
                tcp::outgoing_segment out;
                if (!tcb_->next_segment(now_, out)) break;
                CW_ASSERT(out.option_size <= 40 && out.option_size % 4 == 0, "options that are no header's");
                CW_ASSERT(out.payload_size <= std::max<std::uint32_t>(tcb_->segment_payload(), tcb_->options().mss), // or a path probe
                          "a segment that is too large");
                if (out.payload_size != 0) {
                    std::byte bytes[65'536];
                    tcb_->copy_payload(out.payload_offset, out.payload_size, bytes);
                    ours(out.seq + (wire::has(out.flags, tcp::tcp_flags::syn) ? 1 : 0), {bytes, out.payload_size});
                }
            }
            tcb_->check_invariants();
        }
        tcp::outgoing_segment none;
        if (tcb_->state() == tcp::tcp_state::closed)
            CW_ASSERT(!tcb_->next_segment(now_, none) && tcb_->next_timeout() == never, "a closed connection wants something");
    }

    void ours(tcp::seq_number from, byte_span bytes) {
        CW_ASSERT(from + static_cast<std::uint32_t>(bytes.size()) <= written_, "text that nobody wrote");
        for (std::uint32_t i = 0; i < bytes.size(); ++i)
            CW_ASSERT(bytes[i] == stream_byte(from + i), "a byte that is not ours at this place");
    }

    decisions in_;
    frame_pool& pool_;
    std::optional<tcp::tcb> tcb_;
    time_point now_ = from_ns(1'000'000'000'000);
    tcp::seq_number theirs_{};           ///< the peer's ISN, as it first thinks
    std::optional<tcp::seq_number> read_; ///< the number of the next byte to be read
    tcp::seq_number written_{};          ///< behind the last byte written
    std::uint32_t stamp_ = 1000;
    bool shut_ = false;
};

inline void connection(byte_span input) {
    static frame_pool pool(512); // libFuzzer plays millions of connections; none may keep a frame
    player(input, pool).play();
    CW_ASSERT(pool.free_count == pool.count(), "a connection keeps frames");
}

} // namespace connection_fuzz
