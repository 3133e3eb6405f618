// A device that goes under rdma/channel, on fake NICs and a virtual clock: every wait on it ends with ENODEV, the shard sleeps on, and
// another device is used. And what else a device says of itself: of queues that have failed, of its port. And an address to which no
// device leads.
// ctest: timeout=60
#include "tests/rdma/ends.hh"
#include "tests/rdma/fake_fabric.hh"
#include "tests/reactor/log/log_fixture.hh"

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

using channel_world = basic_channel_world<fake_fabric>;

/// The lines of the module, of a reactor's log that is kept.
struct rdma_log : kept_log {
    explicit rdma_log(reactor& of) : kept_log(2), ours(writer, writer.ring(1), of) {}
    bool says(std::string_view words) {
        for (const std::string& line : messages()) said += line;
        return said.find(words) != std::string::npos;
    }
    shard_log ours;
    std::string said;
};

task<std::errc> end_of_send(rdma::rc_channel& by) {
    const std::errc how = co_await failure_of(by.send(bytes_of("x")));
    co_return how;
}

/// More messages in one turn than the other end's completion queue has room for.
void overwhelm(channel_world& w, rdma::rc_channel& by) {
    std::vector<task<std::errc>> sends;
    for (int i = 0; i < 9; ++i) {
        sends.push_back(end_of_send(by));
        sends.back().handle().resume();
    }
    w.until([&] { return std::ranges::all_of(sends, [](const auto& s) { return s.done(); }); });
}

bool passes(channel_world& w, rdma::rc_channel& from, rdma::rc_channel& to) {
    if (w.run(failure_of(from.send(bytes_of("well")))) != std::errc{}) return false;
    return text_of(w.run(next_of(to))->bytes()) == "well";
}

} // namespace

BOOST_AUTO_TEST_SUITE(device_removal)

BOOST_AUTO_TEST_CASE(all_that_waits_on_the_device_hears_that_it_has_gone) {
    channel_world w(soon(), soon());
    auto datagrams = rdma::ud_socket::bind(w.in, address_of_client);
    auto channel = end_of(w.client);
    auto socket = end_of(datagrams);
    auto far = end_of(w.server);
    channel.handle().resume();
    socket.handle().resume();
    far.handle().resume();
    const auto begun = w.r.read_clock();
    w.first().remove();
    w.until([&] { return channel.done() && socket.done(); });
    BOOST_TEST((channel.handle().promise().take() == std::errc::no_such_device));
    BOOST_TEST((socket.handle().promise().take() == std::errc::no_such_device));
    BOOST_TEST((w.r.read_clock() - begun < 10ms));
    w.until([&] { return far.done(); });
    BOOST_TEST((far.handle().promise().take() == std::errc::timed_out)); // its own device is well
    BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("x")))) == std::errc::no_such_device));
    BOOST_TEST((w.run(failure_of(datagrams.send_to(bytes_of("x"), datagrams.local_address()))) == std::errc::no_such_device));
}

BOOST_AUTO_TEST_CASE(who_is_about_to_sleep_notices_it_and_sleeps) {
    channel_world w;
    poller& device = w.in.adapter_for(address_of_client);
    auto waiting = end_of(w.client);
    waiting.handle().resume();
    while (!device.prepare_sleep()) device.finish_sleep();
    BOOST_TEST(device.wake_fd() >= 0);
    device.finish_sleep();
    w.first().remove();
    while (device.poll(w.r.now())) {} // what was flushed
    static_cast<void>(device.prepare_sleep());
    device.finish_sleep();
    BOOST_TEST(device.prepare_sleep()); // and does not ask for ever a device that refuses to wake it
    BOOST_TEST(device.wake_fd() == -1); // whose descriptor would be readable for ever
    w.until([&] { return waiting.done(); });
    BOOST_TEST((waiting.handle().promise().take() == std::errc::no_such_device));
}

BOOST_AUTO_TEST_CASE(a_new_device_is_used_and_of_the_old_one_nothing_is_left) {
    constexpr ipv4 another{192, 0, 2, 3};
    fake::nic replacement({.name = "fake_c", .mac = mac_address(0x02'00'00'00'00'0c), .addresses = {another}});
    channel_world w(soon(), soon());
    {
        auto kept = w.client.allocate(100'000); // holds the adapter until it goes
        w.first().remove();
        BOOST_TEST((w.run(end_of(w.client)) == std::errc::no_such_device));
        BOOST_TEST((w.run(end_of(w.server)) == std::errc::timed_out));
        w.client = {};
        w.turn();
        BOOST_TEST(w.first().live_objects() > 0u);
    }
    for (int i = 0; i < 3; ++i) w.turn();
    BOOST_TEST(w.first().live_objects() == 0u);
    rdma::connector from(w.in, soon());
    auto accepted = w.listening.accept();
    auto made = from.connect({address_of_server, w.listening.port()}, {}, {another, 0});
    auto [a, b] = w.run(when_all(std::move(accepted), std::move(made)));
    BOOST_TEST((w.run(failure_of(b.send(bytes_of("again")))) == std::errc{}));
    BOOST_TEST(text_of(w.run(next_of(a))->bytes()) == "again");
    BOOST_TEST(replacement.live_objects() > 0u);
    BOOST_TEST(replacement.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_removed_device_whose_adapter_is_kept_stays_open_when_another_one_is_looked_for) {
    constexpr ipv4 another{192, 0, 2, 3};
    fake::nic replacement({.name = "fake_c", .mac = mac_address(0x02'00'00'00'00'0c), .addresses = {another}});
    channel_world w(soon(), soon());
    auto kept = w.client.allocate(100'000);
    w.first().remove();
    BOOST_TEST((w.run(end_of(w.client)) == std::errc::no_such_device));
    w.client = {}; // the last connection on it
    auto socket = rdma::ud_socket::bind(w.in, another);
    BOOST_TEST((w.run(failure_of(w.server.receive(w.within(5s)))) == std::errc::timed_out)); // turns, in which the adapter is polled
    BOOST_TEST(w.first().live_objects() > 0u);
}

BOOST_AUTO_TEST_CASE(an_overrun_completion_queue_ends_what_stands_on_it_and_what_comes_next_gets_another) {
    for (const bool quietly : {false, true}) { // by what its polls answer, and by its event alone
        channel_world w(soon(), soon());
        rdma_log log(w.r);
        auto datagrams = std::make_unique<rdma::ud_socket>(rdma::ud_socket::bind(w.in, address_of_client));
        const unsigned objects = w.first().live_objects();
        auto channel = end_of(w.client);
        auto socket = end_of(*datagrams);
        auto far = end_of(w.server);
        for (auto* each : {&channel, &socket, &far}) each->handle().resume();
        w.first().shrink_completion_queues(8, quietly);
        overwhelm(w, w.server);
        w.until([&] { return channel.done() && socket.done() && far.done(); });
        BOOST_TEST((channel.handle().promise().take() == std::errc::io_error));
        BOOST_TEST((socket.handle().promise().take() == std::errc::io_error));
        BOOST_TEST((far.handle().promise().take() == std::errc::connection_reset)); // its own device is well
        BOOST_TEST((w.run(failure_of(w.client.send(bytes_of("x")))) == std::errc::io_error));
        BOOST_TEST(log.says("the completion queue of fake_a overran or failed: 2 channels on it end"));
        datagrams.reset();
        w.client = {};
        w.server = {};
        w.run(w.connect(soon()));
        BOOST_TEST(passes(w, w.client, w.server));
        BOOST_TEST(passes(w, w.server, w.client));
        datagrams = std::make_unique<rdma::ud_socket>(rdma::ud_socket::bind(w.in, address_of_client));
        BOOST_TEST(w.first().live_objects() == objects); // of the old adapter nothing is left
        BOOST_TEST((w.run(failure_of(datagrams->send_to(bytes_of("x"), datagrams->local_address()))) == std::errc{}));
    }
}

BOOST_AUTO_TEST_CASE(a_queue_pair_that_fails_ends_its_connection_alone) {
    channel_world w(soon(), soon());
    rdma_log log(w.r);
    auto accepted = w.listening.accept();
    auto made = w.dial(0, soon());
    auto [there, second] = w.run(when_all(std::move(accepted), std::move(made)));
    auto datagrams = rdma::ud_socket::bind(w.in, address_of_client);
    auto channel = end_of(w.client);
    channel.handle().resume();
    w.first().break_queue_pair(w.client.connection().pair()->qp_num);
    w.until([&] { return channel.done(); });
    BOOST_TEST((channel.handle().promise().take() == std::errc::io_error));
    BOOST_TEST(log.says("on fake_a has failed"));
    BOOST_TEST(!log.says("channels on it end"));
    BOOST_TEST(passes(w, second, there));
    BOOST_TEST(passes(w, there, second));
    const auto echo = [](rdma::ud_socket& s) -> task<std::errc> {
        co_await s.send_to(bytes_of("x"), s.local_address());
        const std::errc how = co_await failure_of(s.receive_from());
        co_return how;
    };
    BOOST_TEST((w.run(echo(datagrams)) == std::errc{}));
    w.first().break_queue_pair(datagrams.local_address().queue_pair); // begins again
    for (int i = 0; i < 3; ++i) w.turn();
    BOOST_TEST(datagrams.statistics().restarts == 1u);
    BOOST_TEST((w.run(echo(datagrams)) == std::errc{}));
}

BOOST_AUTO_TEST_CASE(what_one_adapter_hears_of_anothers_queues_is_passed_on) {
    for (const bool overrun : {false, true}) {
        channel_world w(soon(), soon());
        rdma::context second({.verbs = &fake::api(), .cm = &fake::cm()}); // as another shard's: on the same ibv_context
        BOOST_REQUIRE(w.in.adapter_for(address_of_client).device().context() ==
                      second.adapter_for(address_of_client).device().context());
        {
            rdma::connector from(second, soon());
            auto accepted = w.listening.accept();
            auto made = from.connect({address_of_server, w.listening.port()}, {}, {address_of_client, 0});
            auto [there, here] = w.run(when_all(std::move(accepted), std::move(made)));
            auto channel = end_of(here);
            channel.handle().resume();
            if (overrun) {
                w.first().shrink_completion_queues(8, true);
                overwhelm(w, there);
            } else {
                w.first().break_queue_pair(here.connection().pair()->qp_num);
            }
            w.until([&] { return channel.done(); });
            BOOST_TEST((channel.handle().promise().take() == std::errc::io_error));
            BOOST_TEST(passes(w, w.client, w.server));
            BOOST_TEST(passes(w, w.server, w.client));
        }
        for (int i = 0; i < 3; ++i) w.turn();
    }
}

BOOST_AUTO_TEST_CASE(a_port_that_goes_down_for_a_moment_is_told_and_ends_nothing) {
    channel_world w(soon(), soon());
    rdma_log log(w.r);
    auto channel = end_of(w.client);
    channel.handle().resume();
    w.first().set_link(false);
    for (int i = 0; i < 3; ++i) w.turn();
    BOOST_TEST(log.says("port 1 of fake_a is down"));
    w.first().set_link(true);
    for (int i = 0; i < 3; ++i) w.turn();
    BOOST_TEST(log.says("port 1 of fake_a is up"));
    BOOST_TEST(!channel.done());
    BOOST_TEST((w.run(failure_of(w.server.send(bytes_of("x")))) == std::errc{}));
    w.until([&] { return channel.done(); });
    BOOST_TEST((channel.handle().promise().take() == std::errc{}));
}

BOOST_AUTO_TEST_CASE(an_address_that_nobody_answers_for_is_named_with_what_rdma_cm_says_of_it) {
    channel_world w;
    rdma::connector from(w.in);
    std::string said;
    const auto in_vain = [](rdma::connector& c, std::string& what) -> task<std::errc> {
        try {
            static_cast<void>(co_await c.connect({ipv4(192, 0, 2, 99), 7471}, {}, {address_of_client, 0}));
        } catch (const std::system_error& e) {
            what = e.what();
            co_return static_cast<std::errc>(e.code().value());
        }
        co_return std::errc{};
    };
    BOOST_TEST((w.run(in_vain(from, said)) == std::errc::timed_out));
    BOOST_TEST(said.find("192.0.2.99:7471") != std::string::npos);
    BOOST_TEST(said.find("ping") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_listener_at_an_address_of_the_device_says_so) {
    channel_world w(soon(), soon());
    auto waiting = end_of(w.listening);
    waiting.handle().resume();
    w.second().remove();
    w.until([&] { return waiting.done(); });
    BOOST_TEST((waiting.handle().promise().take() == std::errc::no_such_device));
    BOOST_TEST((w.run(end_of(w.listening)) == std::errc::no_such_device));
}

BOOST_AUTO_TEST_SUITE_END()
