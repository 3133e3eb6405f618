// Scripts on one TCP endpoint with virtual time: what comes in, what must go out, what the application does.
//
//     tcp_script s;                                   // plain(): MSS 1000, no timestamps, SACK, window scale 5
//     s.connect();                                    // active open, handshake done
//     s.receive("A 1:501 ack 1");                     // numbers count from the initial ones: 1 is the first byte
//     s.expect("A 1:1 ack 501");
//     s.expect_nothing();
//     s.advance(40ms);                                // timers run on the way, each at its time
//
// A segment is "FLAGS first:end" and then, in any order: ack N, win N, mss N, ws N, sackok, ts VALUE ECHO, nots,
// sack a-b,c-d, uto FIELD, fo N (Fast Open: 0 an empty cookie, else eight bytes of N), ce ect0 ect1 (the IP header's mark),
// acc0 E0B CEB E1B, acc1 E1B CEB E0B (AccECN's options), up N (urgent pointer). Flags are S F R P A U E C N (AE).
// What an expectation does not name is not compared (PSH too). Payload follows one pattern on
// both sides, and is verified. After each step check_invariants() runs; a failure prints the numbered history.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/tcp/tcb.hh>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace corewire::test {

using namespace std::chrono_literals;

/// The byte at `offset` of every test stream.
constexpr std::byte stream_byte(std::uint64_t offset) noexcept {
    return static_cast<std::byte>((offset * 2654435761u >> 13) ^ offset);
}

/// A segment as a script writes it; what is absent is not compared.
struct segment_text {
    std::string flags;
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::optional<std::int64_t> ack;
    std::optional<std::uint32_t> window;
    std::optional<std::uint32_t> mss;
    std::optional<std::uint32_t> scale;
    std::optional<std::uint32_t> user_timeout;
    std::optional<std::uint32_t> fast_open;
    std::optional<std::uint32_t> urgent;
    std::optional<wire::accurate_ecn_option> accurate_ecn;
    std::optional<std::pair<std::uint32_t, std::uint32_t>> timestamps;
    std::vector<std::pair<std::int64_t, std::int64_t>> sack;
    bool sack_permitted = false;
    wire::ecn_codepoint ecn = wire::ecn_codepoint::not_ect;
    bool no_timestamps = false;
    bool cut = false; ///< what it carried found no frame

    static segment_text parse(const std::string& text);
    bool has(char flag) const { return flags.find(flag) != std::string::npos; }
    std::uint32_t payload() const { return static_cast<std::uint32_t>(end - first) ; }
};

class tcp_script {
public:
    static tcp::parameters plain();

    explicit tcp_script(const tcp::parameters& p = plain(), std::uint32_t iss = 1'000'000, std::uint32_t irs = 5'000'000,
                        std::size_t frames = 8192);
    ~tcp_script();
    tcp_script(const tcp_script&) = delete;

    // ---- ways to begin ----
    void open(const tcp::fast_open_request& fast = {}); ///< active: SYN is wanted, nothing else
    void listen(const std::string& syn, const tcp::fast_open_answer& fast = {}); ///< passive: the SYN that came
    /// `round_trip`: the SYN-ACK comes so much later than the SYN left.
    void connect(const std::string& syn_ack = "SA 0:0 ack 1 win 65535 mss 1000 sackok ws 0", duration round_trip = {});
    void accept(const std::string& syn = "S 0:0 win 65535 mss 1000 sackok ws 0");

    // ---- steps ----
    tcp::event receive(const std::string& segment);
    /// The next segment must be this; returns what it was.
    tcp::outgoing_segment expect(const std::string& segment);
    void expect_nothing();
    /// Takes what it sends, without looking; returns how many segments.
    int drain();
    tcp::event advance(duration by);
    void write(std::uint32_t bytes);               ///< the next bytes of the pattern, in pieces of at most 1,800
    std::uint32_t read(std::uint32_t most = ~0u);  ///< one read, verified; returns its size
    std::uint32_t read_all();
    void shutdown() { note("shutdown"), block().shutdown_send(), check(); }
    void abort() { note("abort"), block().abort(), check(); }
    void orphan() { note("orphan"), block().orphan(now_), check(); }
    void reach(tcp::tcp_state state);              ///< brings a fresh script there
    void expect_state(tcp::tcp_state s);
    void require(bool condition, const std::string& what);

    tcp::tcb& block() { return *tcb_; }
    time_point now() const { return now_; }
    /// The right edge of the window as it was promised in what has been sent so far: the first number that we need not take.
    std::int64_t edge() const { return edge_; }
    tcp::event seen() const { return seen_; } ///< all events so far
    bool saw(tcp::event e) const { return tcp::has(seen_, e); }
    frame_pool& pool() { return pool_; }
    tcp::segment build(const segment_text& t, buffer& head) const;
    /// All events are forgotten.
    void forget_events() { seen_ = tcp::event::none; }

private:
    void note(const std::string& line);
    void check();
    [[noreturn]] void fail(const std::string& what);
    std::string describe(const tcp::outgoing_segment& s) const;
    void compare(const segment_text& want, const tcp::outgoing_segment& got);
    void verify_payload(const tcp::outgoing_segment& s);
    void heed_window(const tcp::outgoing_segment& s);

    frame_pool pool_;
    std::optional<tcp::tcb> tcb_;
    tcp::parameters parameters_;
    tcp::seq_number iss_;
    tcp::seq_number irs_;
    time_point now_ = from_ns(1'000'000'000'000);
    tcp::event seen_ = tcp::event::none;
    std::uint64_t written_ = 0;
    std::uint64_t read_ = 0;
    std::uint32_t last_window_ = 65535;
    std::uint32_t our_last_stamp_ = 0;
    std::int64_t edge_ = 0;
    unsigned our_scale_ = 0;
    bool scale_refused_ = false; ///< the peer's SYN had no scale: ours counts for nothing
    std::vector<std::string> history_;
};

} // namespace corewire::test
