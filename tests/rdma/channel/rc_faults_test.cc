// What a failing device does to a channel, on fake NICs and a virtual clock: each fault ends the one it meets, with the code that says what
// has happened, or costs it time; no other channel of the same context notices.
// ctest: timeout=60
#include "tests/rdma/ends.hh"
#include "tests/rdma/fake_fabric.hh"

#include <array>
#include <poll.h>
#include <vector>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

using rdma::rc_channel;
using state = rdma::rc_connection::state;

constexpr auto everything = verbs::access::local_write | verbs::access::remote_read | verbs::access::remote_write |
                            verbs::access::remote_atomic;

task<std::errc> write(rc_channel& by, rdma::local_region ours, rdma::remote_region theirs, std::uint64_t offset = 0) {
    const std::errc how = co_await failure_of(by.write(ours, theirs, offset));
    co_return how;
}

task<std::errc> add_one(rc_channel& by, rdma::remote_region to) {
    const std::errc how = co_await failure_of(by.fetch_and_add(to, 0, 1));
    co_return how;
}

task<> there_and_back(rc_channel& a, rc_channel& b) {
    for (int i = 0; i < 8; ++i)
        for (const bool there : {true, false}) {
            rc_channel &from = there ? a : b, &to = there ? b : a;
            co_await from.send(bytes_of("innocent"));
            const auto m = co_await to.receive();
            BOOST_REQUIRE(m.has_value());
            BOOST_TEST(text_of(m->bytes()) == "innocent");
        }
}

task<std::errc> send_numbers(rc_channel& to, int count) {
    std::errc how{};
    for (int i = 0; i < count && how == std::errc{}; ++i) {
        const std::string text = std::to_string(i);
        how = co_await failure_of(to.send(bytes_of(text)));
    }
    co_return how;
}

task<int> receive_numbers(rc_channel& from, int count) {
    int right = 0;
    for (int i = 0; i < count; ++i) {
        const auto m = co_await from.receive();
        if (!m) break;
        right += text_of(m->bytes()) == std::to_string(i);
    }
    co_return right;
}

/// `client` and `server` meet the fault. Beside them a pair on the same two devices, and one that the second device has to itself.
struct faulty_world : basic_channel_world<fake_fabric> {
    struct pair {
        rc_channel a, b;
        std::optional<task<std::optional<rdma::message>>> waiting;
    };
    faulty_world() : basic_channel_world(soon(), soon()) {
        run(meet(address_of_client, beside));
        run(meet(address_of_server, apart));
        settle();
    }
    /// Nobody has anything under way. In the pairs beside it somebody waits for a message.
    void settle() {
        for (pair* each : {&beside, &apart}) {
            run(there_and_back(each->a, each->b));
            each->waiting.emplace(next_of(each->b));
            each->waiting->handle().resume();
        }
        for (int i = 0; i < 10; ++i) turn();
    }
    void goes_on(pair& other) {
        BOOST_REQUIRE(!other.waiting->done());
        BOOST_TEST((run(failure_of(other.a.send(bytes_of("awaited")))) == std::errc{}));
        until([&] { return other.waiting->done(); });
        BOOST_TEST(text_of(other.waiting->handle().promise().take()->bytes()) == "awaited");
        run(there_and_back(other.a, other.b));
        for (const rc_channel* each : {&other.a, &other.b}) {
            BOOST_TEST((each->connection().phase() == state::open));
            BOOST_TEST(each->statistics().violations == 0u);
            each->connection().check_invariants();
        }
    }
    void others_go_on() {
        goes_on(beside);
        goes_on(apart);
    }
    std::errc end(task<std::errc>& of) {
        until([&] { return of.done(); });
        return of.handle().promise().take();
    }
    /// All that is asked of it says so.
    void has_ended(rc_channel& channel, std::errc why) {
        BOOST_TEST((channel.connection().phase() == state::broken));
        BOOST_TEST((channel.connection().why() == why));
        BOOST_TEST((run(failure_of(channel.send(bytes_of("x")))) == why));
        BOOST_TEST((run(failure_of(channel.receive())) == why));
        BOOST_TEST((run(failure_of(channel.close())) == why));
    }
    task<> meet(ipv4 from, pair& into) {
        rdma::connector ours(in, soon());
        auto accepted = listening.accept();
        auto made = ours.connect({address_of_server, listening.port()}, {}, {from, 0});
        auto [b, a] = co_await when_all(std::move(accepted), std::move(made));
        into.a = std::move(a);
        into.b = std::move(b);
    }
    pair beside, apart;
};

task<std::errc> begun(task<std::errc> work) {
    work.handle().resume();
    return work;
}

} // namespace

BOOST_AUTO_TEST_SUITE(rc_faults)

BOOST_AUTO_TEST_CASE(a_send_that_fails_ends_its_channel_with_what_the_status_means) {
    struct row {
        ibv_wc_status status;
        std::errc told;
    };
    constexpr std::array rows{row{IBV_WC_RETRY_EXC_ERR, std::errc::timed_out},
                              row{IBV_WC_RNR_RETRY_EXC_ERR, std::errc::no_buffer_space},
                              row{IBV_WC_REM_ACCESS_ERR, std::errc::permission_denied},
                              row{IBV_WC_MW_BIND_ERR, std::errc::permission_denied},
                              row{IBV_WC_LOC_PROT_ERR, std::errc::bad_address},
                              row{IBV_WC_LOC_LEN_ERR, std::errc::message_size},
                              row{IBV_WC_REM_INV_REQ_ERR, std::errc::message_size},
                              row{IBV_WC_WR_FLUSH_ERR, std::errc::connection_reset},
                              row{IBV_WC_REM_OP_ERR, std::errc::io_error},
                              row{IBV_WC_LOC_QP_OP_ERR, std::errc::io_error},
                              row{IBV_WC_FATAL_ERR, std::errc::io_error},
                              row{IBV_WC_GENERAL_ERR, std::errc::io_error}};
    for (const row& each : rows) {
        BOOST_TEST_CONTEXT(ibv_wc_status_str(each.status)) {
            faulty_world w;
            auto theirs = w.server.allocate(4096);
            auto ours = w.client.allocate(64);
            const auto window = w.run(w.server.expose(theirs, 0, 4096, everything));
            auto here = begun(end_of(w.client)), there = begun(end_of(w.server));
            w.first().fail_sends(each.status);
            auto first = begun(write(w.client, ours.all(), window.region()));
            auto second = begun(write(w.client, ours.all(), window.region(), 64)); // flushed behind it
            BOOST_TEST((w.end(first) == each.told));
            BOOST_TEST((w.end(second) == each.told));
            BOOST_TEST((w.end(here) == each.told));
            w.has_ended(w.client, each.told);
            BOOST_TEST((w.end(there) == std::errc::connection_reset));
            w.has_ended(w.server, std::errc::connection_reset);
            w.others_go_on();
        }
    }
}

BOOST_AUTO_TEST_CASE(a_receive_that_fails_ends_its_channel_at_both_ends) {
    struct row {
        ibv_wc_status status;
        std::errc here, there;
    };
    constexpr std::array rows{row{IBV_WC_LOC_LEN_ERR, std::errc::protocol_error, std::errc::message_size}, // longer than was agreed
                              row{IBV_WC_LOC_PROT_ERR, std::errc::bad_address, std::errc::io_error},
                              row{IBV_WC_GENERAL_ERR, std::errc::io_error, std::errc::io_error}};
    for (const row& each : rows) {
        BOOST_TEST_CONTEXT(ibv_wc_status_str(each.status)) {
            faulty_world w;
            auto here = begun(end_of(w.server)), there = begun(end_of(w.client));
            w.second().fail_receives(each.status);
            BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("lost")))) == std::errc{})); // posted
            BOOST_TEST((w.end(here) == each.here));
            BOOST_TEST((w.end(there) == each.there));
            w.has_ended(w.server, each.here);
            w.has_ended(w.client, each.there);
            BOOST_TEST(w.server.statistics().violations == (each.here == std::errc::protocol_error ? 1u : 0u));
            w.others_go_on();
        }
    }
}

BOOST_AUTO_TEST_CASE(a_queue_pair_that_breaks_ends_its_channel_with_what_was_under_way) {
    for (const bool of_client : {true, false}) {
        faulty_world w;
        rc_channel &broken = of_client ? w.client : w.server, &peer = of_client ? w.server : w.client;
        fake::nic& nic = of_client ? w.first() : w.second();
        auto theirs = peer.allocate(4096);
        auto ours = broken.allocate(64);
        const auto window = w.run(peer.expose(theirs, 0, 4096, everything));
        auto here = begun(end_of(broken)), there = begun(end_of(peer));
        w.first().set_link(false); // so that it is under way
        auto writing = begun(write(broken, ours.all(), window.region()));
        w.turn();
        w.first().set_link(true);
        nic.break_queue_pair(broken.connection().pair()->qp_num);
        BOOST_TEST((w.end(writing) == std::errc::io_error));
        BOOST_TEST((w.end(here) == std::errc::io_error));
        BOOST_TEST((w.end(there) == std::errc::connection_reset));
        w.has_ended(broken, std::errc::io_error);
        w.has_ended(peer, std::errc::connection_reset);
        w.others_go_on();
    }
}

BOOST_AUTO_TEST_CASE(what_is_flushed_ends_with_what_the_device_says_though_nobody_has_listened_yet) {
    for (const bool removed : {false, true}) {
        faulty_world w;
        poller& device = w.in.adapter_for(address_of_client);
        auto theirs = w.server.allocate(64);
        auto ours = w.client.allocate(64);
        const auto window = w.run(w.server.expose(theirs, 0, 64, everything));
        auto here = begun(end_of(w.client));
        w.first().set_link(false); // so that it is under way
        auto writing = begun(write(w.client, ours.all(), window.region()));
        w.turn();
        if (removed) w.first().remove();
        else w.first().break_queue_pair(w.client.connection().pair()->qp_num);
        static_cast<void>(device.poll(w.r.now())); // before anything else is polled
        const std::errc why = removed ? std::errc::no_such_device : std::errc::io_error;
        BOOST_TEST((w.end(writing) == why));
        BOOST_TEST((w.end(here) == why));
        w.goes_on(w.apart);
    }
}

BOOST_AUTO_TEST_CASE(a_device_all_of_whose_queue_pairs_break_serves_the_next_channel) {
    faulty_world w;
    auto here = begun(end_of(w.client)), there = begun(end_of(w.server)), neighbour = begun(end_of(w.beside.a));
    w.first().break_queue_pairs();
    BOOST_TEST((w.end(here) == std::errc::io_error));
    BOOST_TEST((w.end(there) == std::errc::connection_reset));
    BOOST_TEST((w.end(neighbour) == std::errc::io_error));
    w.goes_on(w.apart);
    faulty_world::pair next;
    w.run(w.meet(address_of_client, next));
    w.run(there_and_back(next.a, next.b));
}

BOOST_AUTO_TEST_CASE(an_event_that_is_lost_delays_what_it_was_for_to_the_next_keepalive_at_most) {
    faulty_world w;
    poller& device = w.in.adapter_for(address_of_server);
    const auto readable = [&] {
        pollfd at{device.wake_fd(), POLLIN, 0};
        return ::poll(&at, 1, 0) == 1;
    };
    const auto asleep = [&] {
        while (!device.prepare_sleep()) {
            device.finish_sleep();
            w.turn();
        }
    };
    poller& others = w.in.adapter_for(address_of_client);
    auto waiting = next_of(w.server);
    waiting.handle().resume();
    for (const bool lost : {true, false}) {
        asleep();
        if (lost) w.second().lose_events(1);
        auto sent = begun(send_numbers(w.client, 1));
        static_cast<void>(others.flush(w.r.now())); // its device has it: what follows is the other one's
        BOOST_TEST(readable() != lost);
        device.finish_sleep();
        if (!lost) break;
        // It sleeps on, but not for ever.
        BOOST_TEST((w.r.timers().next_expiry() - w.r.read_clock() <= 300ms));
        w.until([&] { return waiting.done(); });
        BOOST_TEST(text_of(waiting.handle().promise().take()->bytes()) == "0");
    }
    w.others_go_on();
}

BOOST_AUTO_TEST_CASE(what_was_done_and_never_acknowledged_is_a_time_out_and_happened_once) {
    faulty_world w;
    auto theirs = w.server.allocate(64);
    const auto window = w.run(w.server.expose(theirs, 0, 64, everything));
    const auto told = window.region();
    auto there = begun(end_of(w.server)), here = begun(end_of(w.client));
    const time_point begin = w.r.read_clock();
    w.first().lose_acknowledgements(1);
    auto add = begun(add_one(w.client, told));
    w.others_go_on(); // meanwhile
    BOOST_TEST(!add.done());
    BOOST_TEST((w.end(add) == std::errc::timed_out));
    BOOST_TEST((w.r.read_clock() - begin >= 300ms));
    BOOST_TEST((w.r.read_clock() - begin < 2s));
    std::uint64_t found = 0;
    std::memcpy(&found, theirs.data(), sizeof found);
    BOOST_TEST(found == 1u);
    BOOST_TEST((w.end(here) == std::errc::timed_out));
    w.has_ended(w.client, std::errc::timed_out);
    BOOST_TEST((w.end(there) == std::errc::connection_reset));
    w.has_ended(w.server, std::errc::connection_reset);
    w.settle();
    w.others_go_on();
}

BOOST_AUTO_TEST_CASE(a_message_that_was_received_and_never_acknowledged_is_received_once) {
    faulty_world w;
    auto ended = begun(end_of(w.client));
    w.first().lose_acknowledgements(1);
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("0")))) == std::errc{}));
    BOOST_TEST(w.run(receive_numbers(w.server, 1)) == 1);
    auto there = begun(end_of(w.server));
    BOOST_TEST((w.end(ended) == std::errc::timed_out));
    BOOST_TEST((w.end(there) == std::errc::connection_reset));
    w.others_go_on();
}

BOOST_AUTO_TEST_CASE(a_link_that_comes_back_in_time_costs_time_and_nothing_else) {
    faulty_world w;
    auto received = receive_numbers(w.server, 20);
    received.handle().resume();
    w.first().set_link(false);
    BOOST_TEST((w.run(send_numbers(w.client, 20)) == std::errc{})); // posted
    const time_point begin = w.r.read_clock();
    w.until([&] { return w.r.read_clock() - begin > 150ms; });
    BOOST_TEST(!received.done());
    w.first().set_link(true);
    w.until([&] { return received.done(); });
    BOOST_TEST(received.handle().promise().take() == 20);
    w.run(there_and_back(w.client, w.server));
    w.others_go_on();
}

BOOST_AUTO_TEST_CASE(a_link_that_stays_away_ends_the_channels_on_it_at_both_ends_and_no_other) {
    faulty_world w;
    auto here = begun(end_of(w.client)), there = begun(end_of(w.server));
    w.first().set_link(false);
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("lost")))) == std::errc{})); // posted
    const time_point begin = w.r.read_clock();
    BOOST_TEST((w.end(here) == std::errc::timed_out));
    BOOST_TEST((w.end(there) == std::errc::timed_out)); // who only receives asks
    BOOST_TEST((w.r.read_clock() - begin < 2s));
    w.has_ended(w.client, std::errc::timed_out);
    w.has_ended(w.server, std::errc::timed_out);
    w.goes_on(w.apart);
    w.first().set_link(true);
    faulty_world::pair next;
    w.run(w.meet(address_of_client, next));
    w.run(there_and_back(next.a, next.b));
}

BOOST_AUTO_TEST_CASE(a_device_that_keeps_completions_back_stops_its_senders_until_it_gives_them) {
    faulty_world w;
    w.first().hold_completions();
    auto received = receive_numbers(w.server, 200);
    received.handle().resume();
    auto sent = begun(send_numbers(w.client, 200));
    w.until([&] { return w.client.statistics().waits_for_room != 0; });
    for (int i = 0; i < 20; ++i) w.turn();
    BOOST_TEST(!sent.done());
    w.first().release_completions();
    BOOST_TEST((w.end(sent) == std::errc{}));
    w.until([&] { return received.done(); });
    BOOST_TEST(received.handle().promise().take() == 200);
    w.others_go_on();
}

BOOST_AUTO_TEST_SUITE_END()
