#include "tcp_script.hh"

#include <boost/test/unit_test.hpp>

#include <cstring>
#include <iostream>
#include <sstream>

namespace corewire::test {

using tcp::tcp_flags;

segment_text segment_text::parse(const std::string& text) {
    segment_text t;
    std::istringstream in(text);
    std::string range;
    in >> t.flags >> range;
    const auto colon = range.find(':');
    t.first = std::stoll(range.substr(0, colon));
    t.end = std::stoll(range.substr(colon + 1));
    for (std::string key; in >> key;) {
        if (key == "ack") { std::int64_t v; in >> v; t.ack = v; }
        else if (key == "win") { std::uint32_t v; in >> v; t.window = v; }
        else if (key == "mss") { std::uint32_t v; in >> v; t.mss = v; }
        else if (key == "ws") { std::uint32_t v; in >> v; t.scale = v; }
        else if (key == "fo") { std::uint32_t v; in >> v; t.fast_open = v; }
        else if (key == "uto") { std::uint32_t v; in >> v; t.user_timeout = v; }
        else if (key == "sackok") t.sack_permitted = true;
        else if (key == "ce") t.ecn = wire::ecn_codepoint::ce;
        else if (key == "ect0") t.ecn = wire::ecn_codepoint::ect_0;
        else if (key == "ect1") t.ecn = wire::ecn_codepoint::ect_1;
        else if (key == "acc0" || key == "acc1") {
            wire::accurate_ecn_option o{.order_1 = key == "acc1", .fields = 3};
            in >> o.bytes[0] >> o.bytes[1] >> o.bytes[2];
            t.accurate_ecn = o;
        }
        else if (key == "up") { std::uint32_t v; in >> v; t.urgent = v; }
        else if (key == "nots") t.no_timestamps = true;
        else if (key == "cut") t.cut = true;
        else if (key == "ts") { std::uint32_t v, e; in >> v >> e; t.timestamps = {v, e}; }
        else if (key == "sack") {
            std::string blocks, one;
            in >> blocks;
            for (std::istringstream list(blocks); std::getline(list, one, ',');) {
                const auto dash = one.find('-');
                t.sack.emplace_back(std::stoll(one.substr(0, dash)), std::stoll(one.substr(dash + 1)));
            }
        } else throw std::invalid_argument("unknown word in a segment: " + key);
    }
    return t;
}

tcp::parameters tcp_script::plain() {
    tcp::parameters p;
    p.mss = 1000;
    p.timestamps = false;
    p.quick_acks = 0;
    p.receive_buffer = 1u << 20;
    return p;
}

tcp_script::tcp_script(const tcp::parameters& p, std::uint32_t iss, std::uint32_t irs, std::size_t frames)
    : pool_(frames), parameters_(p), iss_(iss), irs_(irs) {}

tcp_script::~tcp_script() {
    tcb_.reset();
    BOOST_CHECK_MESSAGE(pool_.free_count == pool_.count(), "frames leaked: " << pool_.count() - pool_.free_count);
}

void tcp_script::open(const tcp::fast_open_request& fast) {
    note("open");
    tcb_.emplace(now_, tcp::active_open{iss_, fast}, parameters_);
    check();
}

void tcp_script::listen(const std::string& syn, const tcp::fast_open_answer& fast) {
    note("listen, receive " + syn);
    buffer data, nothing;
    const tcp::segment s = build(segment_text::parse(syn), data);
    last_window_ = s.window;
    tcb_.emplace(now_, tcp::passive_open{iss_, s, fast}, parameters_);
    if (fast.take_data) seen_ |= tcb_->take_syn_data(data, nothing);
    check();
}

void tcp_script::connect(const std::string& syn_ack, duration round_trip) {
    open();
    expect("S 0:0");
    if (round_trip != duration{}) advance(round_trip);
    receive(syn_ack);
    expect("A 1:1 ack 1");
    expect_state(tcp::tcp_state::established);
}

void tcp_script::accept(const std::string& syn) {
    listen(syn);
    expect("SA 0:0 ack 1");
    receive("A 1:1 ack 1");
    expect_state(tcp::tcp_state::established);
}

tcp::segment tcp_script::build(const segment_text& t, buffer& head) const {
    tcp::segment s;
    s.seq = irs_ + static_cast<std::uint32_t>(t.first);
    if (t.ack) s.ack = iss_ + static_cast<std::uint32_t>(*t.ack);
    s.window = static_cast<std::uint16_t>(t.window.value_or(last_window_));
    s.payload_size = t.payload();
    s.cut = t.cut;
    s.ecn = t.ecn;
    s.urgent = static_cast<std::uint16_t>(t.urgent.value_or(0));
    const std::pair<char, tcp_flags> letters[] = {{'S', tcp_flags::syn}, {'F', tcp_flags::fin}, {'R', tcp_flags::rst},
                                                  {'P', tcp_flags::psh}, {'A', tcp_flags::ack}, {'U', tcp_flags::urg},
                                                  {'E', tcp_flags::ece}, {'C', tcp_flags::cwr}, {'N', tcp_flags::ae}};
    for (const auto& [letter, bit] : letters) {
        if (t.has(letter)) s.flags |= bit;
    }
    if (t.mss) s.options.set_mss(static_cast<std::uint16_t>(*t.mss));
    if (t.scale) s.options.set_window_scale(static_cast<std::uint8_t>(*t.scale));
    if (t.sack_permitted) s.options.set_sack_permitted();
    if (t.fast_open) {
        const std::vector<std::byte> cookie(*t.fast_open == 0 ? 0 : 8, static_cast<std::byte>(*t.fast_open));
        s.options.set_fast_open(cookie);
    }
    if (t.accurate_ecn) s.options.set_accurate_ecn(*t.accurate_ecn);
    if (t.user_timeout) s.options.set_user_timeout(static_cast<std::uint16_t>(*t.user_timeout));
    if (t.timestamps) {
        s.options.set_timestamps(t.timestamps->first, t.timestamps->second);
    } else if (tcb_ && tcb_->info().timestamps && !t.no_timestamps) {
        s.options.set_timestamps(static_cast<std::uint32_t>(to_ns(now_) / 1'000'000), our_last_stamp_);
    }
    for (const auto& [left, right] : t.sack) {
        s.options.add_sack_block({(iss_ + static_cast<std::uint32_t>(left)).value,
                                  (iss_ + static_cast<std::uint32_t>(right)).value});
    }
    if (s.payload_size != 0) {
        head = const_cast<frame_pool&>(pool_).allocate_buffer();
        std::byte* at = head.append(s.payload_size);
        const auto first = static_cast<std::uint64_t>(t.first - (t.has('S') ? 0 : 1));
        for (std::uint32_t i = 0; i < s.payload_size; ++i) at[i] = stream_byte(first + i);
    }
    return s;
}

tcp::event tcp_script::receive(const std::string& text) {
    note("receive " + text);
    buffer head, body;
    const tcp::segment s = build(segment_text::parse(text), head);
    last_window_ = s.window;
    if (s.has(tcp_flags::syn) && !s.options.has_window_scale()) scale_refused_ = true;
    const tcp::event e = block().on_segment(now_, s, head, body);
    seen_ |= e;
    check();
    return e;
}

tcp::outgoing_segment tcp_script::expect(const std::string& text) {
    note("expect  " + text);
    tcp::outgoing_segment out;
    if (!block().next_segment(now_, out)) fail("nothing was sent");
    history_.back() += "   (" + describe(out) + ")";
    compare(segment_text::parse(text), out);
    heed_window(out);
    verify_payload(out);
    check();
    return out;
}

void tcp_script::expect_nothing() {
    note("expect nothing");
    tcp::outgoing_segment out;
    if (block().next_segment(now_, out)) fail("sent " + describe(out));
    require(!block().wants_output(), "wants_output() says there is something");
    check();
}

int tcp_script::drain() {
    int n = 0;
    for (tcp::outgoing_segment out; block().next_segment(now_, out); ++n) {
        note("sent    " + describe(out));
        heed_window(out);
        verify_payload(out);
        check();
    }
    return n;
}

tcp::event tcp_script::advance(duration by) {
    note("advance " + std::to_string(by.count() / 1000) + " us");
    const time_point until = now_ + by;
    if (tcp::outgoing_segment out; block().wants_output() && block().next_segment(now_, out)) {
        fail("before time goes on, it sends " + describe(out));
    }
    tcp::event all = tcp::event::none;
    for (int rounds = 0; block().next_timeout() <= until; ++rounds) {
        now_ = std::max(now_, block().next_timeout());
        all |= block().on_timer(now_);
        check();
        if (block().wants_output()) break; // what it sends, it sends now
        require(rounds < 100'000, "timers do not come to rest");
    }
    if (!block().wants_output()) now_ = until;
    seen_ |= all;
    return all;
}

void tcp_script::write(std::uint32_t bytes) {
    note("write " + std::to_string(bytes));
    while (bytes != 0) {
        const std::uint32_t n = std::min(bytes, 1800u);
        buffer b = pool_.allocate_buffer();
        std::byte* at = b.append(n);
        for (std::uint32_t i = 0; i < n; ++i) at[i] = stream_byte(written_ + i);
        written_ += n;
        bytes -= n;
        block().write(std::move(b));
    }
    check();
}

std::uint32_t tcp_script::read(std::uint32_t most) {
    note("read");
    const buffer b = block().read(most);
    for (std::uint32_t i = 0; i < b.size(); ++i) {
        require(b.data()[i] == stream_byte(read_ + i), "wrong byte at offset " + std::to_string(read_ + i));
    }
    read_ += b.size();
    check();
    return b.size();
}

std::uint32_t tcp_script::read_all() {
    std::uint32_t all = 0;
    while (const std::uint32_t n = read()) all += n;
    return all;
}

void tcp_script::reach(tcp::tcp_state state) {
    using enum tcp::tcp_state;
    switch (state) {
    case syn_sent: open(), expect("S 0:0"); break;
    case syn_received: this->listen("S 0:0 win 65535 mss 1000"), expect("SA 0:0"); break;
    case established: connect(); break;
    case fin_wait_1: connect(), shutdown(), expect("FA 1:1"); break;
    case fin_wait_2: reach(fin_wait_1), receive("A 1:1 ack 2"); break;
    case close_wait: connect(), receive("FA 1:1 ack 1"), expect("A 1:1 ack 2"); break;
    case closing: reach(fin_wait_1), receive("FA 1:1 ack 1"), expect("A 2:2 ack 2"); break;
    case last_ack: reach(close_wait), shutdown(), expect("FA 1:1 ack 2"); break;
    case time_wait: reach(fin_wait_1), receive("FA 1:1 ack 2"), expect("A 2:2 ack 2"); break;
    default: fail("no way there");
    }
    drain();
    expect_state(state);
}

void tcp_script::expect_state(tcp::tcp_state s) {
    if (block().state() != s) {
        fail("state is " + std::string(tcp::name_of(block().state())) + ", not " + std::string(tcp::name_of(s)));
    }
}

void tcp_script::require(bool condition, const std::string& what) {
    if (!condition) fail(what);
}

void tcp_script::note(const std::string& line) {
    history_.push_back("[" + std::to_string((to_ns(now_) - 1'000'000'000'000) / 1000) + " us] " + line);
}

void tcp_script::check() {
    if (tcb_) tcb_->check_invariants();
}

void tcp_script::fail(const std::string& what) {
    std::ostringstream out;
    out << what << "\n";
    for (std::size_t i = 0; i < history_.size(); ++i) out << "  " << i + 1 << ". " << history_[i] << "\n";
    BOOST_FAIL(out.str());
    std::abort();
}

namespace {

std::string letters_of(tcp_flags f) {
    std::string s;
    if (has(f, tcp_flags::syn)) s += 'S';
    if (has(f, tcp_flags::fin)) s += 'F';
    if (has(f, tcp_flags::rst)) s += 'R';
    if (has(f, tcp_flags::psh)) s += 'P';
    if (has(f, tcp_flags::ack)) s += 'A';
    return s;
}

std::int64_t relative(tcp::seq_number s, tcp::seq_number base) { return static_cast<std::int32_t>(s - base); }

} // namespace

std::string tcp_script::describe(const tcp::outgoing_segment& s) const {
    std::ostringstream out;
    const std::int64_t first = relative(s.seq, iss_);
    out << letters_of(s.flags) << ' ' << first << ':' << first + s.payload_size << " ack " << relative(s.ack, irs_) << " win "
        << s.window;
    wire::tcp_options o;
    if (wire::tcp_options::parse({s.options.data(), s.option_size}, o) != wire::parse_error::none) out << " BAD OPTIONS";
    if (o.has_mss()) out << " mss " << o.mss;
    if (o.has_window_scale()) out << " ws " << unsigned{o.window_scale};
    if (o.has_sack_permitted()) out << " sackok";
    if (o.has_timestamps()) out << " ts " << o.timestamp_value << ' ' << o.timestamp_echo;
    for (unsigned i = 0; o.has_sack() && i < o.sack_count; ++i) {
        out << (i == 0 ? " sack " : ",") << relative(tcp::seq_number(o.sack[i].left), irs_) << '-'
            << relative(tcp::seq_number(o.sack[i].right), irs_);
    }
    return out.str();
}

void tcp_script::compare(const segment_text& want, const tcp::outgoing_segment& got) {
    std::string sent = letters_of(got.flags);
    if (!want.has('P')) std::erase(sent, 'P');
    const auto sorted = [](std::string s) { std::sort(s.begin(), s.end()); return s; };
    require(sorted(sent) == sorted(want.flags), "flags differ");
    require(relative(got.seq, iss_) == want.first || want.has('R'), "sequence number differs");
    require(got.payload_size == want.payload(), "payload size differs");
    if (want.urgent) require(has(got.flags, tcp_flags::urg) && got.urgent == *want.urgent, "urgent pointer differs");
    if (want.ack) require(relative(got.ack, irs_) == *want.ack, "ACK number differs");
    if (want.window) require(got.window == *want.window, "window differs");
    wire::tcp_options o;
    require(wire::tcp_options::parse({got.options.data(), got.option_size}, o) == wire::parse_error::none, "bad options");
    if (o.has_timestamps()) our_last_stamp_ = o.timestamp_value;
    if (want.mss) require(o.has_mss() && o.mss == *want.mss, "MSS differs");
    if (want.scale) require(o.has_window_scale() && o.window_scale == *want.scale, "window scale differs");
    if (want.fast_open) {
        require(o.has_fast_open() && o.cookie_size == (*want.fast_open == 0 ? 0 : 8), "Fast Open differs");
        for (const std::byte b : o.fast_open_cookie()) require(b == static_cast<std::byte>(*want.fast_open), "cookie differs");
    }
    if (want.user_timeout) require(o.has_user_timeout() && o.user_timeout == *want.user_timeout, "user timeout differs");
    if (want.sack_permitted) require(o.has_sack_permitted(), "SACK-permitted is missing");
    if (want.no_timestamps) require(!o.has_timestamps(), "there are timestamps");
    if (want.timestamps) {
        require(o.has_timestamps() && o.timestamp_echo == want.timestamps->second, "timestamp echo differs");
    }
    if (!want.sack.empty()) {
        require(o.has_sack() && o.sack_count == want.sack.size(), "number of SACK blocks differs");
        for (std::size_t i = 0; i < want.sack.size(); ++i) {
            require(relative(tcp::seq_number(o.sack[i].left), irs_) == want.sack[i].first &&
                        relative(tcp::seq_number(o.sack[i].right), irs_) == want.sack[i].second,
                    "SACK block differs");
        }
    }
}

void tcp_script::heed_window(const tcp::outgoing_segment& s) {
    if (has(s.flags, tcp_flags::rst)) return;
    const bool syn = has(s.flags, tcp_flags::syn); // never scaled (RFC 7323 2.2)
    wire::tcp_options o;
    if (syn && wire::tcp_options::parse({s.options.data(), s.option_size}, o) == wire::parse_error::none)
        our_scale_ = o.has_window_scale() ? o.window_scale : 0;
    const std::int64_t from = has(s.flags, tcp_flags::ack) ? relative(s.ack, irs_) : 1; // our SYN speaks of the peer's first byte
    edge_ = std::max(edge_, from + (std::int64_t{s.window} << (syn || scale_refused_ ? 0 : our_scale_)));
}

void tcp_script::verify_payload(const tcp::outgoing_segment& s) {
    std::vector<std::byte> bytes(s.payload_size);
    if (s.payload_size == 0) return;
    block().copy_payload(s.payload_offset, s.payload_size, bytes.data());
    if (s.chunk != nullptr) {
        require(std::memcmp(bytes.data(), s.chunk->data() + s.chunk_offset, s.payload_size) == 0, "chunk and copy differ");
    }
    const auto at = static_cast<std::uint64_t>(relative(s.seq, iss_) - (has(s.flags, tcp_flags::syn) ? 0 : 1));
    for (std::uint32_t i = 0; i < s.payload_size; ++i) require(bytes[i] == stream_byte(at + i), "wrong payload byte");
}

} // namespace corewire::test
