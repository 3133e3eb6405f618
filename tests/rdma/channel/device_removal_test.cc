// A device that goes under rdma/channel, on fake NICs and a virtual clock: every wait on it ends with ENODEV, the shard sleeps on, and
// another device is used. And an address to which no device leads.
// ctest: timeout=60
#include "tests/rdma/channel_world.hh"
#include "tests/rdma/fake_fabric.hh"

#include <corewire/rdma/channel/ud_socket.hh>

using namespace corewire;
using namespace corewire::test;
using namespace std::chrono_literals;

namespace {

using channel_world = basic_channel_world<fake_fabric>;

/// Of a host whose device goes no peer hears anything: it asks.
rdma::rc_options soon() {
    rdma::rc_options o;
    o.silence = 300ms;
    return o;
}

task<std::errc> end_of(rdma::rc_channel& on) {
    const std::errc how = co_await failure_of(on.receive());
    co_return how;
}

task<std::errc> end_of(rdma::ud_socket& on) {
    const std::errc how = co_await failure_of(on.receive_from());
    co_return how;
}

task<std::errc> end_of(rdma::listener& on) {
    const std::errc how = co_await failure_of(on.accept());
    co_return how;
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
