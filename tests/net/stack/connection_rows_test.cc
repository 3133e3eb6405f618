// A connection as a row of the metrics page: addresses of both families come back as they went in; nonsense does not come through.
#include <corewire/net/socket/address.hh>
#include <corewire/net/stack/connection_row.hh>
#include <corewire/reactor/base/random.hh>

#include <boost/test/unit_test.hpp>

using namespace corewire;

namespace {

connection_row some_row(const socket_address& local, const socket_address& remote) {
    connection_row row;
    row.name = {local.net(), remote.net(), local.port, remote.port};
    tcp::connection_info& i = row.info;
    i.state = tcp::tcp_state::fin_wait_1;
    // Every field another value, so that two that change places are noticed.
    std::uint32_t n = 100;
    for (std::uint32_t* field : {&i.cwnd, &i.ssthresh, &i.backoff, &i.in_flight, &i.unsent, &i.unacknowledged, &i.unread, &i.out_of_order,
                                 &i.send_window, &i.receive_window, &i.segment_payload})
        *field = ++n;
    i.srtt = duration{201}, i.rttvar = duration{202}, i.rto = duration{203};
    i.bytes_received = 1ull << 40;
    row.retransmitted = 301;
    i.sack = true;
    return row;
}

void check_same(const connection_row& a, const connection_row& b) {
    const tcp::connection_info &x = a.info, &y = b.info;
    BOOST_TEST((a.name == b.name));
    BOOST_TEST((x.state == y.state && x.sack == y.sack && x.recovering == y.recovering && x.timestamps == y.timestamps));
    BOOST_TEST((x.cwnd == y.cwnd && x.ssthresh == y.ssthresh && x.backoff == y.backoff && x.in_flight == y.in_flight));
    BOOST_TEST((x.unsent == y.unsent && x.unacknowledged == y.unacknowledged && x.unread == y.unread));
    BOOST_TEST((x.out_of_order == y.out_of_order && x.send_window == y.send_window && x.receive_window == y.receive_window));
    BOOST_TEST((x.segment_payload == y.segment_payload && x.bytes_received == y.bytes_received));
    BOOST_TEST((x.srtt == y.srtt && x.rttvar == y.rttvar && x.rto == y.rto && a.retransmitted == b.retransmitted));
}

} // namespace

BOOST_AUTO_TEST_SUITE(connection_rows)

BOOST_AUTO_TEST_CASE(a_connection_of_either_family_comes_back_as_it_went_in) {
    for (const auto& [local, remote] : {std::pair{"192.0.2.1:7", "198.51.100.2:40000"},
                                        std::pair{"[2001:db8::1]:65535", "[2001:db8:1:2:3:4:5:6]:1"},
                                        std::pair{"[fe80::1]:7", "[fe80::fedc:ba98:7654:3210]:50000"}}) {
        const connection_row row = some_row(socket_address::parse(local), socket_address::parse(remote));
        connection_row back;
        BOOST_REQUIRE(connection_row::unpack(row.pack(), back));
        check_same(row, back);
        BOOST_TEST(socket_address(back.name.local, back.name.local_port).to_string() == local);
        BOOST_TEST(socket_address(back.name.remote, back.name.remote_port).to_string() == remote);
    }
}

BOOST_AUTO_TEST_CASE(a_row_that_means_nothing_is_refused) {
    connection_row row;
    const connection_row::fields good = row.pack();
    BOOST_TEST(connection_row::unpack(good, row));
    const auto with = [&](std::size_t field, std::uint64_t value) {
        connection_row::fields f = good;
        f[field] = value;
        return connection_row::unpack(f, row);
    };
    BOOST_TEST(with(4, UINT32_MAX));
    BOOST_TEST(!with(4, std::uint64_t{1} << 32)); // ports
    BOOST_TEST(with(5, tcp::tcp_state_count - 1));
    BOOST_TEST(!with(5, tcp::tcp_state_count));
    BOOST_TEST(!with(5, UINT64_MAX));
}

BOOST_AUTO_TEST_CASE(whatever_stands_in_a_row_becomes_a_printable_endpoint_or_nothing) {
    const std::uint64_t seed = 20261121;
    BOOST_TEST_MESSAGE("seed " << seed);
    random_generator random(seed);
    for (int round = 0; round < 2'000; ++round) {
        connection_row::fields f;
        for (std::uint64_t& each : f) each = random.below(4) == 0 ? random.below(16) : random.next();
        f[4] &= UINT32_MAX;
        f[5] %= static_cast<std::uint64_t>(tcp::tcp_state_count);
        connection_row row;
        BOOST_REQUIRE(connection_row::unpack(f, row));
        BOOST_REQUIRE(row.info.srtt >= duration{0});
        for (const std::string& text : {socket_address(row.name.local, row.name.local_port).to_string(),
                                        socket_address(row.name.remote, row.name.remote_port).to_string()})
            BOOST_REQUIRE((text.size() < 48 && text.find_first_not_of("0123456789abcdef[]:.") == text.npos));
    }
}

BOOST_AUTO_TEST_SUITE_END()
