// tcp_information from the kernel's struct tcp_info: each field from its own place, and what an older kernel leaves out stays empty.
#include <corewire/net/socket/linux_tcp_info_fields.hh>
#include <corewire/net/socket/tcp_information.hh>

#include <boost/test/unit_test.hpp>

#include <cstring>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

using fields = linux_tcp_info_fields;

/// No two words are alike.
fields different() {
    fields t;
    std::memset(&t, 0, sizeof t);
    t.tcpi_state = 8; // TCP_CLOSE_WAIT
    t.tcpi_ca_state = TCP_CA_Recovery;
    t.tcpi_retransmits = 3;
    t.tcpi_probes = 4;
    t.tcpi_backoff = 5;
    t.tcpi_snd_wscale = 6;
    t.tcpi_rcv_wscale = 7;
    t.tcpi_delivery_rate_app_limited = 1;
    t.tcpi_fastopen_client_fail = 2;
    std::uint32_t next = 1'000;
    for (auto* const word : {&t.tcpi_rto, &t.tcpi_ato, &t.tcpi_snd_mss, &t.tcpi_rcv_mss, &t.tcpi_unacked, &t.tcpi_sacked, &t.tcpi_lost,
                             &t.tcpi_retrans, &t.tcpi_fackets, &t.tcpi_last_data_sent, &t.tcpi_last_ack_sent, &t.tcpi_last_data_recv,
                             &t.tcpi_last_ack_recv, &t.tcpi_pmtu, &t.tcpi_rcv_ssthresh, &t.tcpi_rtt, &t.tcpi_rttvar, &t.tcpi_snd_ssthresh,
                             &t.tcpi_snd_cwnd, &t.tcpi_advmss, &t.tcpi_reordering, &t.tcpi_rcv_rtt, &t.tcpi_rcv_space,
                             &t.tcpi_total_retrans, &t.tcpi_segs_out, &t.tcpi_segs_in, &t.tcpi_notsent_bytes, &t.tcpi_min_rtt,
                             &t.tcpi_data_segs_in, &t.tcpi_data_segs_out, &t.tcpi_delivered, &t.tcpi_delivered_ce, &t.tcpi_dsack_dups,
                             &t.tcpi_reord_seen, &t.tcpi_rcv_ooopack, &t.tcpi_snd_wnd, &t.tcpi_rcv_wnd, &t.tcpi_rehash,
                             &t.tcpi_total_rto_time, &t.tcpi_received_ce, &t.tcpi_delivered_e1_bytes, &t.tcpi_delivered_e0_bytes,
                             &t.tcpi_delivered_ce_bytes, &t.tcpi_received_e1_bytes, &t.tcpi_received_e0_bytes,
                             &t.tcpi_received_ce_bytes})
        *word = next++;
    for (auto* const word : {&t.tcpi_pacing_rate, &t.tcpi_max_pacing_rate, &t.tcpi_bytes_acked, &t.tcpi_bytes_received,
                             &t.tcpi_delivery_rate, &t.tcpi_busy_time, &t.tcpi_rwnd_limited, &t.tcpi_sndbuf_limited, &t.tcpi_bytes_sent,
                             &t.tcpi_bytes_retrans})
        *word = 5'000'000'000 + next++;
    t.tcpi_total_rto = 501;
    t.tcpi_total_rto_recoveries = 502;
    return t;
}

tcp_information told(const fields& t, std::size_t size = sizeof(fields)) { return information_from_linux(&t, size); }

constexpr auto us(std::uint64_t n) { return duration(std::chrono::microseconds(n)); }
constexpr auto ms(std::uint64_t n) { return duration(std::chrono::milliseconds(n)); }

} // namespace

BOOST_AUTO_TEST_SUITE(linux_information)

BOOST_AUTO_TEST_CASE(small_fields_come_from_their_places) {
    const tcp_information i = told(different());
    BOOST_TEST((i.state == tcp_state::close_wait && i.repair == tcp_repair::recovery));
    BOOST_TEST(i.timeouts == 3u);
    BOOST_TEST(i.window_probes == 4u);
    BOOST_TEST(i.backoff == 5u);
    BOOST_TEST(i.send_scale == 6u);
    BOOST_TEST(i.receive_scale == 7u);
    BOOST_TEST(i.delivery_rate_limited_by_application);
    BOOST_TEST((i.fast_open == fast_open_failure::not_taken));
    BOOST_TEST(i.timeouts_total.value_or(0) == 501u);
    BOOST_TEST(i.timeout_rows.value_or(0) == 502u);
}

BOOST_AUTO_TEST_CASE(each_bit_of_the_options_is_its_own) {
    using option = bool tcp_information::*;
    constexpr option all[]{&tcp_information::timestamps, &tcp_information::sack,     &tcp_information::window_scaling,
                           &tcp_information::ecn,        &tcp_information::ecn_seen, &tcp_information::data_in_syn,
                           &tcp_information::opened_early};
    constexpr unsigned bits[]{1, 2, 4, 8, 16, 32, 128}; // linux/tcp.h: TCPI_OPT_*; 64: microseconds in timestamps
    for (std::size_t i = 0; i < std::size(all); ++i) {
        fields t = different();
        t.tcpi_options = static_cast<std::uint8_t>(bits[i]);
        const tcp_information it = told(t);
        for (std::size_t k = 0; k < std::size(all); ++k) BOOST_TEST((it.*all[k] == (k == i)), "bit " << bits[i] << ", field " << k);
    }
}

BOOST_AUTO_TEST_CASE(times_come_from_their_places) {
    const fields t = different();
    const tcp_information i = told(t);
    BOOST_TEST((i.rto == us(t.tcpi_rto) && i.delayed_ack == us(t.tcpi_ato)));
    BOOST_TEST((i.rtt == us(t.tcpi_rtt) && i.rtt_variation == us(t.tcpi_rttvar)));
    BOOST_TEST((i.min_rtt == us(t.tcpi_min_rtt) && i.receive_rtt == us(t.tcpi_rcv_rtt)));
    BOOST_TEST((i.since_received == ms(t.tcpi_last_ack_recv)));
    BOOST_TEST((i.since_data_sent == ms(t.tcpi_last_data_sent) && i.since_data_received == ms(t.tcpi_last_data_recv)));
    BOOST_TEST((i.busy == us(t.tcpi_busy_time) && i.limited_by_receiver == us(t.tcpi_rwnd_limited)));
    BOOST_TEST((i.limited_by_send_buffer == us(t.tcpi_sndbuf_limited) && i.in_timeouts == ms(t.tcpi_total_rto_time)));
}

BOOST_AUTO_TEST_CASE(sizes_and_counts_come_from_their_places) {
    const fields t = different();
    const tcp_information i = told(t);
    const std::uint64_t mss = t.tcpi_snd_mss;
    BOOST_TEST((i.send_segment == mss && i.received_segment == t.tcpi_rcv_mss && i.announced_segment == t.tcpi_advmss));
    BOOST_TEST(i.path_mtu == t.tcpi_pmtu);
    BOOST_TEST((i.congestion_window == t.tcpi_snd_cwnd * mss && i.slow_start_threshold == t.tcpi_snd_ssthresh * mss));
    BOOST_TEST((i.unacknowledged == t.tcpi_unacked * mss && i.sacked == t.tcpi_sacked * mss));
    BOOST_TEST((i.lost == t.tcpi_lost * mss && i.retransmitted == t.tcpi_retrans * mss));
    BOOST_TEST((i.unsent == t.tcpi_notsent_bytes && i.send_window == t.tcpi_snd_wnd));
    BOOST_TEST((i.receive_window == t.tcpi_rcv_space && i.receive_space == t.tcpi_rcv_space));
    BOOST_TEST((i.receive_threshold == t.tcpi_rcv_ssthresh && i.receive_buffer_room == t.tcpi_rcv_wnd));
    BOOST_TEST((i.bytes_acknowledged == t.tcpi_bytes_acked && i.bytes_received == t.tcpi_bytes_received));
    BOOST_TEST((i.bytes_sent == t.tcpi_bytes_sent && i.bytes_retransmitted == t.tcpi_bytes_retrans));
    BOOST_TEST((i.segments_retransmitted == t.tcpi_total_retrans && i.segments_out_of_order == t.tcpi_rcv_ooopack));
    BOOST_TEST((i.segments_sent == t.tcpi_segs_out && i.segments_received == t.tcpi_segs_in));
    BOOST_TEST((i.data_segments_sent == t.tcpi_data_segs_out && i.data_segments_received == t.tcpi_data_segs_in));
    BOOST_TEST((i.segments_delivered == t.tcpi_delivered && i.segments_delivered_marked == t.tcpi_delivered_ce));
    BOOST_TEST((i.duplicates_reported == t.tcpi_dsack_dups && i.reorderings == t.tcpi_reord_seen));
    BOOST_TEST((i.reordering_segments == t.tcpi_reordering && i.rehashes == t.tcpi_rehash));
    BOOST_TEST((i.pacing_rate == t.tcpi_pacing_rate && i.max_pacing_rate == t.tcpi_max_pacing_rate));
    BOOST_TEST((i.delivery_rate == t.tcpi_delivery_rate));
}

BOOST_AUTO_TEST_CASE(marks_come_from_their_places) {
    const fields t = different();
    const mark_tally m = told(t).marks.value_or(mark_tally{});
    BOOST_TEST((m.received == t.tcpi_received_ce && m.delivered == t.tcpi_delivered_ce));
    BOOST_TEST((m.received_ect_1 == t.tcpi_received_e1_bytes && m.received_ect_0 == t.tcpi_received_e0_bytes));
    BOOST_TEST((m.delivered_ect_1 == t.tcpi_delivered_e1_bytes && m.delivered_ect_0 == t.tcpi_delivered_e0_bytes));
    BOOST_TEST((m.received_ce == t.tcpi_received_ce_bytes && m.delivered_ce == t.tcpi_delivered_ce_bytes));
}

BOOST_AUTO_TEST_CASE(all_ones_are_no_value) {
    fields t = different();
    t.tcpi_pacing_rate = t.tcpi_max_pacing_rate = ~std::uint64_t{0};
    t.tcpi_min_rtt = ~std::uint32_t{0};
    t.tcpi_snd_ssthresh = 0x7fff'ffff;
    const tcp_information i = told(t);
    BOOST_TEST((!i.pacing_rate && !i.max_pacing_rate && !i.min_rtt && !i.slow_start_threshold));
}

BOOST_AUTO_TEST_CASE(what_an_older_kernel_leaves_out_is_empty) {
    const fields t = different();
    const tcp_information v5 = told(t, offsetof(fields, tcpi_rcv_wnd)); // 5.4 to 6.1
    BOOST_TEST((v5.send_window == t.tcpi_snd_wnd && !v5.receive_buffer_room && !v5.rehashes && !v5.timeouts_total && !v5.marks));
    const tcp_information v6_2 = told(t, offsetof(fields, tcpi_total_rto));
    BOOST_TEST((v6_2.receive_buffer_room && v6_2.rehashes && !v6_2.timeouts_total && !v6_2.in_timeouts && !v6_2.marks));
    const tcp_information v6_7 = told(t, offsetof(fields, tcpi_received_ce));
    BOOST_TEST((v6_7.rehashes && v6_7.timeouts_total && v6_7.timeout_rows && v6_7.in_timeouts && !v6_7.marks));
    BOOST_TEST(told(t, sizeof t - 1).marks.has_value()); // whatever stands in the last word
    const tcp_information none = told(t, 0);
    BOOST_TEST((none.state == tcp_state::closed && none.send_segment == 0u && !none.marks));
}

BOOST_AUTO_TEST_CASE(states_that_nobody_knows_are_none) {
    fields t = different();
    t.tcpi_state = 200;
    t.tcpi_ca_state = 200;
    BOOST_TEST((told(t).state == tcp_state::closed && told(t).repair == tcp_repair::loss));
}

BOOST_AUTO_TEST_SUITE_END()
