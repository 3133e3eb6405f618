#include "tcp_pair.hh"

#include <corewire/net/tcp/fast_path.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <sstream>

namespace corewire::test {

tcp_pair::~tcp_pair() = default;

void tcp_pair::start(bool both) {
    sides_[0].tcb.emplace(now_, tcp::active_open{tcp::seq_number(static_cast<std::uint32_t>(random_.next()))}, parameters_[0]);
    if (both) {
        sides_[1].tcb.emplace(now_, tcp::active_open{tcp::seq_number(static_cast<std::uint32_t>(random_.next()))}, parameters_[1]);
    }
}

void tcp_pair::application(int i) {
    side& s = sides_[i];
    if (!s.tcb) return;
    while (s.written < s.to_write && s.tcb->writable() != 0 && pool_.free_count > 1000 &&
           (!s.lockstep || s.tcb->all_acknowledged())) {
        const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(s.write_size, s.to_write - s.written));
        buffer b = pool_.allocate_buffer();
        std::byte* at = b.append(n);
        for (std::uint32_t k = 0; k < n; ++k) at[k] = stream_byte(s.written + k);
        s.written += n;
        s.tcb->write(std::move(b));
    }
    if (s.closing && s.written == s.to_write) s.tcb->shutdown_send();
    while (!s.paused) {
        const buffer b = s.tcb->read();
        if (!b) break;
        take(s, b);
    }
}

void tcp_pair::take(side& s, const buffer& b) {
    for (std::uint32_t k = 0; k < b.size(); ++k) {
        if (b.data()[k] != stream_byte(s.read + k)) {
            why_ = "wrong byte at " + std::to_string(s.read + k);
            return;
        }
    }
    s.read += b.size();
}

namespace {

/// A plain segment in the general form.
tcp::outgoing_segment general(const tcp::plain_output& plain, const tcp::tcb& from) {
    tcp::outgoing_segment out;
    out.seq = plain.seq;
    out.ack = plain.ack;
    out.window = plain.window;
    out.flags = tcp::tcp_flags::ack | tcp::tcp_flags::psh;
    wire::tcp_options options;
    options.set_timestamps(plain.timestamp_value, plain.timestamp_echo);
    out.option_size = static_cast<std::uint8_t>(options.emit(out.options));
    out.retransmission = false;
    out.payload_offset = plain.seq - from.info().snd_una;
    out.payload_size = plain.payload_size;
    out.chunk_offset = plain.chunk_offset;
    out.chunk = plain.chunk;
    return out;
}

} // namespace

void tcp_pair::pump(int i) {
    side& s = sides_[i];
    if (!s.tcb) return;
    application(i);
    if (tcp::plain_output plain; s.tcb->wants_output() && s.tcb->next_plain(now_, plain)) {
        ++s.fast_out;
        BOOST_CHECK(!s.tcb->wants_output());
        send(i, general(plain, *s.tcb));
    }
    tcp::outgoing_segment out;
    while (s.tcb->wants_output() && s.tcb->next_segment(now_, out)) send(i, out);
    check();
}

void tcp_pair::send(int from, const tcp::outgoing_segment& out) {
    ++frames_;
    side& s = sides_[from];
    if (recording_) {
        std::ostringstream line;
        line << to_ns(now_) << " from " << from << ": " << to_string(out.flags) << " seq " << out.seq.value << " ack "
             << out.ack.value << " window " << out.window << " size " << out.payload_size << (out.retransmission ? " again" : "");
        for (unsigned k = 0; k < out.option_size; ++k) line << ' ' << std::to_integer<int>(out.options[k]);
        trace_.push_back(line.str());
    }
    s.line_free = std::max(s.line_free, now_) + faults_.frame_time;
    if (faults_.drop_every != 0 && frames_ % faults_.drop_every == 0) return;
    if (random_.chance(faults_.loss)) return;
    const int copies = random_.chance(faults_.duplicate) ? 2 : 1;
    for (int c = 0; c < copies; ++c) {
        in_flight f{1 - from, {}, {}};
        f.seg.seq = out.seq;
        f.seg.ack = out.ack;
        f.seg.window = out.window;
        f.seg.flags = out.flags;
        f.seg.payload_size = out.payload_size;
        if (wire::tcp_options::parse({out.options.data(), out.option_size}, f.seg.options) != wire::parse_error::none) {
            why_ = "bad options";
        }
        if (out.payload_size != 0) {
            f.data = pool_.allocate_buffer();
            if (f.data.underlying_frame() == nullptr) return;
            s.tcb->copy_payload(out.payload_offset, out.payload_size, f.data.append(out.payload_size));
        }
        time_point at = s.line_free + faults_.latency;
        if (random_.chance(faults_.reorder)) at += duration(static_cast<std::int64_t>(random_.below(faults_.jitter.count())));
        network_.emplace(at, std::move(f));
    }
}

void tcp_pair::deliver(in_flight& f) {
    side& s = sides_[f.to];
    if (!s.tcb) {
        if (f.seg.has(tcp::tcp_flags::syn) && !f.seg.has(tcp::tcp_flags::ack)) {
            s.tcb.emplace(now_, tcp::passive_open{tcp::seq_number(static_cast<std::uint32_t>(random_.next())), f.seg},
                          parameters_[f.to]);
        }
        return;
    }
    buffer body; // sometimes the payload comes in two pieces
    if (f.data.size() > 1 && random_.chance(0.3)) {
        const auto cut = static_cast<std::uint32_t>(random_.below(f.data.size()));
        body = f.data.share(cut, f.data.size() - cut);
        f.data.truncate(cut);
    }
    if (!deliver_plain(f, body)) s.seen |= s.tcb->on_segment(now_, f.seg, f.data, body);
}

/// As a stack with header prediction does it: a plain segment that is expected goes the short way, and its payload now and
/// then straight to the reader.
bool tcp_pair::deliver_plain(in_flight& f, buffer& body) {
    side& s = sides_[f.to];
    const bool plain = (f.seg.flags & ~tcp::tcp_flags::psh) == tcp::tcp_flags::ack && s.tcb->uses_timestamps() &&
                       f.seg.options.present == wire::tcp_option_set::timestamps;
    const tcp::plain_arrival seg{f.seg.seq, f.seg.ack, f.seg.options.timestamp_value, f.seg.payload_size, f.seg.window, true};
    if (!plain || !s.tcb->expects(now_, seg) || !s.tcb->may_queue()) return false;
    ++s.fast_in;
    if (seg.payload_size != 0 && !s.paused && body.empty() && s.tcb->readable() == 0 && frames_ % 3 != 0) {
        s.seen |= s.tcb->on_expected_and_read(now_, seg) | tcp::event::readable;
        take(s, f.data);
    } else {
        s.seen |= s.tcb->on_expected(now_, seg, f.data, body);
    }
    return true;
}

bool tcp_pair::run(const std::function<bool()>& done, duration limit) {
    const time_point end = now_ + limit;
    for (;;) {
        pump(0);
        pump(1);
        if (!why_.empty() || done()) return why_.empty();
        time_point next = network_.empty() ? never : network_.begin()->first;
        for (side& s : sides_) {
            if (s.tcb) next = std::min(next, s.tcb->next_timeout());
        }
        if (next > end) {
            why_ = "time is over";
            return false;
        }
        now_ = std::max(now_, next);
        for (int i = 0; i < 2; ++i) {
            if (sides_[i].tcb && sides_[i].tcb->next_timeout() <= now_) {
                sides_[i].seen |= sides_[i].tcb->on_timer(now_);
                pump(i);
            }
        }
        while (!network_.empty() && network_.begin()->first <= now_) {
            in_flight f = std::move(network_.begin()->second);
            network_.erase(network_.begin());
            deliver(f);
            pump(f.to);
        }
    }
}

void tcp_pair::check() {
    for (side& s : sides_) {
        if (s.tcb) s.tcb->check_invariants();
    }
}

} // namespace corewire::test
