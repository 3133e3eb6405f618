// What every provider of the socket API must do, written once: over the kernel's sockets, over our own stack on a wire.
//
//     class my_world : public socket_suite::world { ... };
//     #define CASE(name) BOOST_FIXTURE_TEST_CASE(name, my_world) { run(socket_suite::name(*this)); }
//     CW_SOCKET_SUITE(CASE)
#pragma once

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/task/sleep.hh>
#include <corewire/reactor/task/task_group.hh>

#include <boost/test/unit_test.hpp>

#include <optional>

namespace corewire::socket_suite {

/// Two hosts that can reach each other, driven by one reactor: a server and a client.
class world {
public:
    virtual ~world() = default;
    virtual reactor& loop() = 0;
    virtual socket_provider& server() = 0;
    virtual socket_provider& client() = 0;
    /// Where the client reaches the server.
    virtual net_address server_address() = 0;
    /// Of the client, on the interface that leads there.
    virtual net_address client_address() = 0;
    /// Where a SYN is neither answered nor refused for a second at least.
    virtual socket_address silent_address() = 0;
    /// One turn of the loop. With a virtual clock: on to the next event when nothing is left to do.
    virtual void turn() { loop().poll_once(); }
    /// On a real clock a thread may not run for so long, and what is due is done so much later; nothing on a virtual one.
    virtual duration lateness() { return {}; }
    /// Until nothing that was closed lingers; called after each case. Checks that nothing has leaked.
    virtual void settle() {}
    /// How much the bulk case carries in each direction.
    virtual std::uint64_t bulk_bytes() { return 100'000'000; }

    /// Drives the loop until `body` has ended; rethrows what it threw. Fails the test after two minutes.
    void run(task<> body);
};

// ---- the cases ----
#define CW_SOCKET_SUITE(X)                                                                                             \
    X(one_connection_echoes)                                                                                           \
    X(a_hundred_connections_echo)                                                                                      \
    X(bulk_arrives_unchanged_both_ways)                                                                                \
    X(a_slow_reader_gets_everything)                                                                                   \
    X(a_thousand_short_connections_come_and_go)                                                                        \
    X(both_ends_agree_on_the_addresses)                                                                                \
    X(a_read_takes_no_more_than_was_asked_for)                                                                         \
    X(a_gather_write_keeps_the_order)                                                                                  \
    X(an_allocated_buffer_is_sent)                                                                                     \
    X(options_are_kept)                                                                                                \
    X(what_was_chosen_before_the_handshake_is_told_back)                                                               \
    X(a_buffer_of_no_size_carries_bytes_all_the_same)                                                                  \
    X(each_socket_chooses_its_congestion_control)                                                                      \
    X(a_connection_tells_about_itself)                                                                                 \
    X(half_close_lets_the_other_side_finish)                                                                           \
    X(end_of_stream_stays)                                                                                             \
    X(close_waits_for_the_acknowledgement)                                                                             \
    X(a_read_after_a_reset_fails)                                                                                      \
    X(a_write_after_a_reset_fails)                                                                                     \
    X(what_came_before_a_reset_is_read_though_a_write_failed)                                                          \
    X(a_close_after_a_reset_fails)                                                                                     \
    X(bytes_before_end_of_stream_are_read_first)                                                                       \
    X(unread_bytes_at_close_reset_the_peer)                                                                            \
    X(a_stream_that_resets_on_close_does)                                                                              \
    X(abort_fails_who_waits)                                                                                           \
    X(a_write_after_shutdown_fails)                                                                                    \
    X(a_shutdown_goes_behind_a_write_that_waits)                                                                       \
    X(a_shutdown_goes_behind_what_a_cancelled_write_has_written)                                                       \
    X(everything_after_close_fails)                                                                                    \
    X(a_closed_port_refuses)                                                                                           \
    X(a_port_is_bound_once)                                                                                            \
    X(closing_a_listener_cancels_accept)                                                                               \
    X(a_connection_nobody_accepted_dies_with_the_listener)                                                             \
    X(those_nobody_accepted_are_reset_behind_one_that_was)                                                             \
    X(readable_and_writable_tell_the_truth)                                                                            \
    X(a_cancelled_read_leaves_the_stream_usable)                                                                       \
    X(a_cancelled_write_leaves)                                                                                        \
    X(a_cancelled_accept_leaves_the_listener_usable)                                                                   \
    X(a_cancelled_connect_leaves)                                                                                      \
    X(a_cancelled_close_leaves)                                                                                        \
    X(cancelled_waits_for_readiness_leave)                                                                             \
    X(an_expired_read_leaves_the_stream_usable)                                                                        \
    X(an_expired_write_leaves)                                                                                         \
    X(an_expired_accept_leaves)                                                                                        \
    X(an_expired_connect_leaves)                                                                                       \
    X(an_expired_close_leaves)                                                                                         \
    X(expired_waits_for_readiness_leave)                                                                               \
    X(a_reader_destroyed_while_it_waits_leaves)                                                                        \
    X(datagrams_echo)                                                                                                  \
    X(a_datagram_to_a_closed_port_is_refused)                                                                          \
    X(a_connected_socket_hears_its_peer_only)                                                                          \
    X(datagram_errors_are_told)                                                                                        \
    X(whole_datagrams_arrive_and_the_paths_mtu_is_told)                                                                \
    X(a_datagram_says_where_it_was_sent_to_and_is_answered_from_there)                                                 \
    X(cancelled_and_expired_receives_leave)                                                                            \
    X(a_member_of_a_group_hears_it_until_it_leaves)                                                                    \
    X(datagrams_to_a_group_loop_back_unless_told_not_to)                                                               \
    X(memberships_are_checked_and_bounded)                                                                             \
    X(closing_a_datagram_socket_cancels_receive)                                                                       \
    X(a_stop_ends_a_hundred_idle_sessions)                                                                             \
    X(a_stop_lets_a_talking_peer_finish)                                                                               \
    X(a_stop_ends_a_talking_peer_after_the_grace)                                                                      \
    X(a_stop_gives_unacknowledged_bytes_their_time)                                                                    \
    X(a_stop_leaves_who_waits_for_an_answer_the_grace)                                                                 \
    X(a_stop_ends_waits_for_readiness_and_handshakes)                                                                  \
    X(a_stop_ends_waits_for_datagrams)

#define CW_DECLARE_SOCKET_CASE(name) task<> name(world& w);
CW_SOCKET_SUITE(CW_DECLARE_SOCKET_CASE)
#undef CW_DECLARE_SOCKET_CASE

// ---- the vocabulary ----

/// Makes a host's provider the current one: what connect() and bind() ask for when they begin.
void use(world& w, socket_provider& provider);
tcp_listener listen(world& w, std::uint16_t port = 0, const listen_options& options = {});
udp_socket bind_udp_server(world& w);
udp_socket bind_udp_client(world& w);
/// Where the client reaches a server's port.
socket_address at_server(world& w, std::uint16_t port);
task<tcp_stream> dial(world& w, socket_address to, wait_limits limits = {}, tcp_options_set options = {});

struct ends {
    tcp_stream client;
    tcp_stream server;
};
/// A connection, seen from both ends.
task<ends> connected(world& w, tcp_options_set client_options = {});

/// Echoes until end of stream; a reset ends it too.
task<> echo(tcp_stream peer);
/// Writes until the peer's and our own buffers are full.
task<> fill(tcp_stream& stream);

inline wait_limits soon(duration d = std::chrono::milliseconds{30}) { return {.deadline = reactor::current().now() + d}; }
/// A few turns: what has been caused can happen.
task<> some_turns();

/// What awaiting `make()` throws, as an errc; errc{} if nothing.
template <typename Make>
task<std::errc> error_of(Make make) {
    try {
        co_await make();
    } catch (const std::system_error& e) {
        co_return static_cast<std::errc>(e.code().value());
    }
    co_return std::errc{};
}
/// The same for one that runs beside us.
template <typename Make>
task<> note_error(std::optional<std::errc>& into, Make make) {
    const std::errc why = co_await error_of(std::move(make));
    into = why;
}

} // namespace corewire::socket_suite

namespace std {
inline ostream& boost_test_print_type(ostream& out, errc e) { return out << make_error_code(e).message(); }
inline ostream& boost_test_print_type(ostream& out, const optional<errc>& e) {
    return e.has_value() ? boost_test_print_type(out, *e) : out << "not yet";
}
} // namespace std
