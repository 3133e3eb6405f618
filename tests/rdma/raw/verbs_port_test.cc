// The verbs port over the fake NIC: frames both ways, how they are sent, and what trouble does.
#include "verbs_world.hh"

#include <corewire/net/port/rss.hh>
#include <corewire/rdma/fake/offload.hh>
#include <corewire/rdma/verbs/async_events.hh>

#include "tests/support/virtual_clock.hh"

#include <cstdio>
#include <fstream>
#include <poll.h>
#include <string>

using namespace corewire;
using namespace corewire::test;

namespace {

bool readable(int fd) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
}

std::vector<packet> burst_of(verbs_world& w, std::uint32_t count, std::uint32_t size = 200) {
    std::vector<packet> burst(count);
    for (std::uint32_t i = 0; i < count; ++i) burst[i] = w.outgoing(i + 1, size);
    return burst;
}

/// A TCP segment of 2,500 bytes that the device is to cut into pieces of 1,000.
packet large_segment(verbs_world& w) {
    packet p;
    auto headers = udp_frame(w.far->mac(), ipv4(10, 0, 0, 1), 1, ipv4(10, 0, 0, 2), 2, 12);
    headers[14 + 9] = std::byte{6};
    headers[46] = std::byte{0x50};
    p.head = w.port->pool().allocate_buffer();
    std::memcpy(p.head.append(54), headers.data(), 54);
    std::memset(p.head.append(1000), 1, 1000);
    p.body = w.port->pool().allocate_buffer();
    std::memset(p.body.append(1500), 2, 1500);
    p.flags = offload::segment | offload::l4_checksum_needed;
    p.l4_offset = 34;
    p.segment_size = 1000;
    return p;
}

std::uint32_t all_frames(const verbs_world& w) { return w.port->pool().count(); }

/// Two ports that flows are spread over, and the device's events, as a reactor hears them.
struct two_ports {
    /// Of a flow that is the port's.
    std::vector<std::byte> frame_for(unsigned which) const {
        constexpr ipv4 peer(10, 0, 0, 1), host(10, 0, 0, 2);
        std::uint16_t from = 1000;
        while (rss::symmetric.hash(peer, from, host, 2) % 2 != which) ++from; // slots are dealt in turn
        return udp_frame(device->mac(), peer, from, host, 2);
    }
    /// True if its port gets it, and nobody else.
    bool arrives(unsigned which) {
        nic.deliver(frame_for(which));
        const auto got = settle();
        return got[which] == 1 && got[1 - which] == 0;
    }
    /// How many frames each has got.
    std::array<std::size_t, 2> settle() {
        std::array<std::size_t, 2> got{};
        for (int round = 0; round < 2; ++round) // what one has found out the next one mends
            for (unsigned i = 0; i < 2; ++i) got[i] += receive_all(ports[i]).size();
        return got;
    }
    void hear() {
        clock.advance(verbs::async_events::interval);
        loop.poll_once();
    }
    virtual_clock clock;
    reactor loop{{.clock = &clock}};
    reactor::scope here{loop};
    fake::nic nic;
    std::shared_ptr<verbs_device> device = std::make_shared<verbs_device>(
        verbs_device_options{.device = "fake0", .queues = 2, .steering = verbs_steering::everything, .api = &fake::api()});
    corewire::verbs_port ports[2]{corewire::verbs_port(device, 0), corewire::verbs_port(device, 1)};
    verbs::async_events events{device->device(), loop, [this](const verbs::device_event& e) { device->handle(e); }};
};

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_port)

BOOST_AUTO_TEST_CASE(numbered_frames_arrive_both_ways_in_order) {
    verbs_world w;
    std::vector<std::uint32_t> got, echoed;
    for (std::uint32_t i = 1; i <= 5000; ++i) {
        BOOST_REQUIRE(send(*w.port, w.outgoing(i, 60 + i % 1400)));
        for (const auto& f : receive_all(*w.far)) {
            got.push_back(number_of(f));
            BOOST_REQUIRE(send(*w.far, numbered_frame(*w.far, w.port->mac(), number_of(f))));
        }
        for (const auto n : receive_numbers(*w.port)) echoed.push_back(n);
    }
    BOOST_REQUIRE(got.size() == 5000u);
    BOOST_REQUIRE(echoed.size() == 5000u);
    for (std::uint32_t i = 0; i < 5000; ++i) BOOST_REQUIRE((got[i] == i + 1 && echoed[i] == i + 1));
    BOOST_TEST(w.nic.violations().empty());
    BOOST_TEST(w.port->statistics().received_packets == 5000u);
    BOOST_TEST(w.port->statistics().transmitted_packets == 5000u);
}

BOOST_AUTO_TEST_CASE(the_same_without_extended_calls) {
    verbs_world w({.extended_sends = false, .extended_completions = false, .thread_domains = false});
    for (std::uint32_t i = 1; i <= 100; ++i) {
        BOOST_REQUIRE(send(*w.port, w.outgoing(i, 60 + i * 10)));
        BOOST_REQUIRE(receive_numbers(*w.far) == std::vector{i});
        BOOST_REQUIRE(w.arrives(i));
    }
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_burst_rings_one_doorbell_and_asks_for_one_completion) {
    for (const bool extended : {true, false}) {
        verbs_device_options options = verbs_world::everything();
        options.extended = extended;
        verbs_world w({}, options);
        for (int round = 0; round < 10; ++round) {
            auto burst = burst_of(w, 32);
            BOOST_REQUIRE(w.port->transmit(burst) == 32u);
            w.settle();
        }
        BOOST_TEST(w.nic.statistics().doorbells == 10u);
        BOOST_TEST(w.nic.statistics().signalled == 10u);
        BOOST_TEST(w.port->verbs_statistics().signalled == 10u);
        BOOST_TEST(w.port->unsent() == 0u);
    }
}

BOOST_AUTO_TEST_CASE(small_frames_go_inline_and_come_home_at_once) {
    verbs_world w;
    w.nic.hold_completions();
    const std::uint32_t free = w.port->pool().free_count;
    BOOST_TEST(send(*w.port, w.outgoing(1, 128)));
    BOOST_TEST(w.port->pool().free_count == free);
    BOOST_TEST(send(*w.port, w.outgoing(2, 129)));
    BOOST_TEST(w.port->pool().free_count == free - 1);
    BOOST_TEST(w.port->verbs_statistics().inlined == 1u);
    BOOST_TEST(w.nic.statistics().inline_sends == 1u);
    w.nic.release_completions();
    w.settle();
    BOOST_TEST(w.port->pool().free_count == free);
}

BOOST_AUTO_TEST_CASE(headers_and_payload_are_sent_from_where_they_are) {
    verbs_world w;
    packet p = w.outgoing(7, 100);
    p.body = w.port->pool().allocate_buffer();
    std::memset(p.body.append(500), 0x5a, 500);
    BOOST_TEST(send(*w.port, std::move(p)));
    const auto got = receive_all(*w.far);
    BOOST_REQUIRE(got.size() == 1u);
    BOOST_TEST(got[0].size() == 600u);
    BOOST_TEST(number_of(got[0]) == 7u);
    BOOST_TEST((got[0][599] == std::byte{0x5a}));
    BOOST_TEST(w.nic.statistics().gathered == 1u);
    BOOST_TEST(w.port->verbs_statistics().copied == 0u);
}

BOOST_AUTO_TEST_CASE(frames_of_another_pool_are_copied_into_registered_memory) {
    verbs_world w;
    packet p = numbered_frame(*w.far, w.port->mac(), 9, 300);
    BOOST_TEST(send(*w.port, std::move(p)));
    BOOST_TEST(receive_numbers(*w.far) == std::vector{9u});
    BOOST_TEST(w.port->verbs_statistics().copied == 1u);
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(checksums_are_left_to_the_device_and_believed) {
    verbs_world w;
    BOOST_TEST(w.port->capabilities().transmit_checksum);
    BOOST_TEST(w.port->capabilities().receive_checksum);
    const auto bytes = udp_frame(w.far->mac(), ipv4(10, 0, 0, 1), 1, ipv4(10, 0, 0, 2), 2, 200);
    packet p;
    p.head = w.port->pool().allocate_buffer();
    std::memcpy(p.head.append(static_cast<std::uint32_t>(bytes.size())), bytes.data(), bytes.size());
    p.flags = offload::l4_checksum_needed | offload::ipv4_checksum_needed;
    BOOST_TEST(send(*w.port, std::move(p)));
    auto sent = receive_all(*w.far);
    BOOST_REQUIRE(sent.size() == 1u);
    for (const bool damaged : {false, true}) {
        if (damaged) sent[0].back() ^= std::byte{1};
        w.nic.deliver(sent[0]);
        std::array<packet, 4> in;
        BOOST_REQUIRE(w.port->receive(in) == 1u);
        BOOST_TEST(has(in[0].flags, offload::l4_checksum_good) == !damaged);
    }
    BOOST_TEST(w.port->verbs_statistics().judged == 1u);
    // Over IPv6 the device completes them, too, and says nothing of those that arrive (as mlx5).
    const ipv6 a = *ipv6::parse("2001:db8::1"), b = *ipv6::parse("2001:db8::2");
    const auto six = udp_frame(w.far->mac(), a, 1, b, 2, 200);
    packet q;
    q.head = w.port->pool().allocate_buffer();
    std::memcpy(q.head.append(static_cast<std::uint32_t>(six.size())), six.data(), six.size());
    q.flags = offload::l4_checksum_needed;
    BOOST_TEST(send(*w.port, std::move(q)));
    sent = receive_all(*w.far);
    BOOST_REQUIRE(sent.size() == 1u);
    const byte_span datagram = byte_span(sent[0]).subspan(54);
    BOOST_TEST(wire::pseudo_header_sum(a, b, wire::ip_protocol::udp, datagram.size()).add(datagram).verifies());
    w.nic.deliver(sent[0]);
    {
        std::array<packet, 4> in;
        BOOST_REQUIRE(w.port->receive(in) == 1u);
        BOOST_TEST(!has(in[0].flags, offload::l4_checksum_good));
    }
    verbs_world without({.name = "plain0", .checksums = false});
    BOOST_TEST(!without.port->capabilities().transmit_checksum);
    BOOST_TEST(!without.port->capabilities().receive_checksum);
}

BOOST_AUTO_TEST_CASE(a_device_that_judges_no_spread_flows_leaves_their_checksums_to_the_stack) { // as mlx5
    for (const bool judges : {false, true}) {
        fake::nic nic({.spread_verdicts = judges});
        const auto device = std::make_shared<verbs_device>(
            verbs_device_options{.device = "fake0", .queues = 2, .steering = verbs_steering::everything, .api = &fake::api()});
        corewire::verbs_port ports[2]{corewire::verbs_port(device, 0), corewire::verbs_port(device, 1)};
        auto frame = udp_frame(device->mac(), ipv4(10, 0, 0, 1), 1, ipv4(10, 0, 0, 2), 2, 200);
        fake::complete_checksums(frame);
        nic.deliver(frame);
        std::uint64_t judged = 0;
        for (corewire::verbs_port& each : ports) {
            std::array<packet, 4> in;
            const std::size_t n = each.receive(in);
            if (n != 0) BOOST_TEST(has(in[0].flags, offload::l4_checksum_good) == judges);
            judged += each.verbs_statistics().judged;
        }
        BOOST_TEST(judged == (judges ? 1u : 0u));
    }
}

BOOST_AUTO_TEST_CASE(a_large_segment_is_cut_by_the_device) {
    for (const bool extended : {true, false}) {
        verbs_device_options options = verbs_world::everything();
        options.extended = extended;
        verbs_world w({}, options);
        BOOST_TEST(w.port->capabilities().segmentation);
        packet p = large_segment(w);
        BOOST_TEST(send(*w.port, std::move(p)));
        const auto got = receive_all(*w.far);
        BOOST_REQUIRE(got.size() == 3u);
        BOOST_TEST(got[0].size() == 1054u);
        BOOST_TEST(got[2].size() == 554u);
        w.settle();
        BOOST_TEST(w.port->unsent() == 0u);
        BOOST_TEST(w.nic.violations().empty());
    }
}

BOOST_AUTO_TEST_CASE(a_large_segment_in_front_of_what_cannot_be_sent_is_counted_once) {
    for (const bool extended : {true, false}) {
        verbs_device_options options = verbs_world::everything();
        options.extended = extended;
        verbs_world w({}, options);
        std::vector<packet> burst(2);
        burst[0] = large_segment(w);
        burst[1] = w.outgoing(1);
        burst[1].head.truncate(10);
        BOOST_TEST(w.port->transmit(burst) == 2u);
        BOOST_TEST(w.port->verbs_statistics().segmented == 1u);
        w.nic.remove(); // nor is one counted that the driver does not take
        burst[0] = large_segment(w);
        BOOST_TEST(w.port->transmit(std::span(burst).first(1)) == 1u);
        BOOST_TEST(w.port->verbs_statistics().segmented == 1u);
    }
}

BOOST_AUTO_TEST_CASE(what_is_too_long_or_too_short_is_dropped_and_the_rest_of_the_burst_goes) {
    verbs_world w;
    auto burst = burst_of(w, 4);
    burst[1].head.append(1500);
    burst[2].head.truncate(10);
    BOOST_TEST(w.port->transmit(burst) == 4u);
    BOOST_TEST(receive_numbers(*w.far) == (std::vector<std::uint32_t>{1, 4}));
    BOOST_TEST(w.port->statistics().transmit_dropped == 2u);
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_full_send_queue_leaves_the_rest_with_the_caller) {
    verbs_device_options options = verbs_world::everything();
    options.send_depth = 64;
    verbs_world w({}, options);
    w.nic.hold_completions();
    auto burst = burst_of(w, 80);
    BOOST_TEST(w.port->transmit(burst) == 64u);
    BOOST_TEST(!burst[64].head.empty());
    BOOST_TEST(w.port->transmit(std::span(burst).subspan(64)) == 0u);
    BOOST_TEST(w.port->statistics().transmit_full == 2u);
    w.nic.release_completions();
    BOOST_TEST(w.port->transmit(std::span(burst).subspan(64)) == 16u);
    BOOST_TEST(receive_numbers(*w.far).size() == 80u);
}

BOOST_AUTO_TEST_CASE(frames_that_the_application_holds_are_missed_and_then_replaced) {
    verbs_device_options options = verbs_world::everything();
    options.receive_depth = 64;
    verbs_world w({}, options, {.frames = 64 + 256});
    std::vector<packet> held(512);
    std::size_t count = 0;
    for (std::uint32_t i = 0; i < 400; ++i) {
        BOOST_REQUIRE(send(*w.far, numbered_frame(*w.far, w.port->mac(), i)));
        count += w.port->receive(std::span(held).subspan(count));
    }
    BOOST_TEST(count == all_frames(w));
    BOOST_TEST(w.nic.statistics().no_receive == 400 - all_frames(w));
    BOOST_TEST(w.port->statistics().receive_no_buffer != 0u);
    held.clear();
    static_cast<void>(receive_all(*w.port));
    BOOST_TEST(w.arrives(7));
}

BOOST_AUTO_TEST_CASE(a_slow_refill_loses_nothing_that_it_has_room_for) {
    verbs_world w;
    w.nic.slow_refill(true);
    std::uint32_t lost = 0;
    for (std::uint32_t i = 1; i <= 3000; ++i) lost += !w.arrives(i);
    BOOST_TEST(lost == 0u);
}

BOOST_AUTO_TEST_CASE(a_sleeping_port_is_woken_by_a_frame) {
    verbs_world w;
    BOOST_TEST(w.port->prepare_sleep());
    BOOST_TEST(!readable(w.port->wake_fd()));
    BOOST_TEST(send(*w.far, numbered_frame(*w.far, w.port->mac(), 1)));
    BOOST_TEST(readable(w.port->wake_fd()));
    w.port->finish_sleep();
    BOOST_TEST(receive_numbers(*w.port) == std::vector{1u});
    BOOST_TEST(w.port->prepare_sleep());
    BOOST_TEST(!readable(w.port->wake_fd()));
    w.port->finish_sleep();
}

BOOST_AUTO_TEST_CASE(what_arrived_before_the_queue_was_armed_keeps_the_port_awake) {
    verbs_world w;
    for (std::uint32_t i = 1; i <= 20; ++i) BOOST_TEST(send(*w.far, numbered_frame(*w.far, w.port->mac(), i)));
    BOOST_TEST(!w.port->prepare_sleep());
    BOOST_TEST(!w.port->prepare_sleep()); // and nothing of it is forgotten
    const auto got = receive_numbers(*w.port); // sixteen at a time: less than waits
    BOOST_REQUIRE(got.size() == 20u);
    BOOST_TEST(got.back() == 20u);
}

BOOST_AUTO_TEST_CASE(a_lost_event_delays_a_frame_to_the_next_turn_and_no_longer) {
    verbs_world w;
    w.nic.lose_events(1);
    BOOST_TEST(w.port->prepare_sleep());
    w.nic.deliver(std::vector<std::byte>(64));
    w.port->finish_sleep();
    BOOST_TEST(receive_all(*w.port).size() == 1u);
    BOOST_TEST(w.port->prepare_sleep());
    w.nic.deliver(std::vector<std::byte>(64));
    BOOST_TEST(readable(w.port->wake_fd()));
    w.port->finish_sleep();
}

BOOST_AUTO_TEST_CASE(a_port_that_moderates_is_woken_by_so_many_frames) {
    verbs_world w({}, verbs_world::everything(), {.moderate_us = 20, .moderate_count = 4});
    BOOST_TEST(w.nic.statistics().moderated_us == 20u);
    BOOST_TEST(w.port->prepare_sleep());
    for (int i = 1; i <= 4; ++i) {
        BOOST_TEST(!readable(w.port->wake_fd()));
        w.nic.deliver(std::vector<std::byte>(64));
    }
    BOOST_TEST(readable(w.port->wake_fd()));
    w.port->finish_sleep();
    BOOST_TEST(receive_all(*w.port).size() == 4u);
    fake::nic plain({.name = "plain0", .moderation = false});
    const auto device = std::make_shared<verbs_device>(verbs_device_options{.device = "plain0", .api = &fake::api()});
    BOOST_TEST(mentions(sentence_of([&] { corewire::verbs_port(device, 0, {.moderate_us = 20}); }), "moderates no events"));
    corewire::verbs_port(device, 0); // not asked for it
}

BOOST_AUTO_TEST_CASE(a_failed_send_starts_the_pair_again) {
    verbs_world w;
    auto burst = burst_of(w, 8);
    w.nic.fail_sends(IBV_WC_LOC_PROT_ERR);
    BOOST_TEST(w.port->transmit(burst) == 8u);
    w.settle();
    BOOST_TEST(w.port->verbs_statistics().failed_sends != 0u);
    BOOST_TEST(w.port->verbs_statistics().restarts == 1u);
    BOOST_TEST(w.port->unsent() == 0u);
    BOOST_TEST(send(*w.port, w.outgoing(99)));
    BOOST_TEST(receive_numbers(*w.far) == std::vector{99u});
    BOOST_TEST(w.arrives(5));
    w.settle();
    BOOST_TEST(w.port->pool().free_count + w.port->posted() == all_frames(w));
}

BOOST_AUTO_TEST_CASE(a_failed_receive_starts_the_pair_again) {
    verbs_world w;
    w.nic.fail_receives(IBV_WC_LOC_PROT_ERR);
    BOOST_TEST(!w.arrives(1));
    w.settle();
    BOOST_TEST(w.port->verbs_statistics().restarts == 1u);
    BOOST_TEST(w.arrives(2));
    BOOST_TEST(w.port->pool().free_count + w.port->posted() == all_frames(w));
}

BOOST_AUTO_TEST_CASE(a_pair_that_fails_by_itself_is_started_again_when_its_event_comes) {
    verbs_world w;
    w.nic.break_queue_pairs();
    w.hear_events();
    w.settle();
    BOOST_TEST(w.port->usable());
    BOOST_TEST(w.arrives(3));
    BOOST_TEST(send(*w.port, w.outgoing(4)));
    BOOST_TEST(receive_numbers(*w.far) == std::vector{4u});
}

BOOST_AUTO_TEST_CASE(a_pair_that_cannot_be_started_again_is_given_up_and_no_frame_is_lost) {
    verbs_world w;
    w.nic.fail_calls("modify_qp", EINVAL, 1000);
    w.nic.break_queue_pairs();
    w.hear_events();
    w.settle();
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->wake_fd() == -1);
    BOOST_TEST(w.port->pool().free_count == all_frames(w));
    BOOST_TEST(send(*w.port, w.outgoing(1))); // taken, and dropped
    BOOST_TEST(w.port->statistics().transmit_dropped == 1u);
    BOOST_TEST(w.port->prepare_sleep());
}

BOOST_AUTO_TEST_CASE(what_the_device_does_not_let_go_of_stays_its_own_until_it_does) {
    virtual_clock clock;
    reactor loop({.clock = &clock});
    const reactor::scope here(loop);
    verbs_world w;
    std::array<packet, 4> held; // the application has one, and the stash another
    BOOST_REQUIRE(send(*w.far, numbered_frame(*w.far, w.port->mac(), 1)));
    BOOST_REQUIRE(w.port->receive(held) == 1u);
    const std::uint32_t posted = w.port->posted();
    const auto own = [&] { return all_frames(w) - w.port->posted() - w.port->unsent(); };
    const auto fill = [&](frame& f) { std::memset(f.bytes, 0x77, f.capacity); };
    w.nic.hold_completions();
    BOOST_REQUIRE(send(*w.port, w.outgoing(1))); // under way all the while
    w.nic.fail_calls("modify_qp", ETIMEDOUT, 1000);
    w.device->pretend_failure();
    w.settle();
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->posted() == posted);
    BOOST_TEST(w.port->unsent() == 1u);
    BOOST_TEST(w.port->pool().free_count + 1 == own());
    for (frame* f = w.port->pool().free_list; f != nullptr; f = f->next_free) fill(*f);
    for (std::uint32_t i = 0; i < 300; ++i) w.nic.deliver(std::vector<std::byte>(200, std::byte{0x11})); // the device goes on
    bool untouched = true;
    for (frame* f = w.port->pool().free_list; f != nullptr; f = f->next_free)
        untouched = untouched && std::all_of(f->bytes, f->bytes + f->capacity, [](std::byte b) { return b == std::byte{0x77}; });
    BOOST_TEST(untouched);
    BOOST_TEST(number_of({held[0].head.data(), held[0].head.data() + held[0].head.size()}) == 1u);
    // It is tried again; what it has completed meanwhile comes home.
    clock.advance(std::chrono::milliseconds{11});
    loop.poll_once();
    BOOST_TEST(w.port->posted() == posted - 300);
    BOOST_TEST(w.port->pool().free_count + 1 == own());
    w.nic.fail_calls("modify_qp", 0, 0);
    w.nic.release_completions();
    clock.advance(std::chrono::milliseconds{21});
    loop.poll_once();
    BOOST_TEST(w.port->usable());
    BOOST_TEST(w.arrives(5));
    BOOST_TEST(w.port->unsent() == 0u);
    held[0].head.clear();
    w.settle();
    BOOST_TEST(w.port->pool().free_count + w.port->posted() == all_frames(w));
    BOOST_TEST(w.nic.violations().empty());
    // A device that can still be told to flush gives all of them back.
    w.nic.fail_calls("modify_qp", ETIMEDOUT, 2);
    w.device->pretend_failure();
    w.settle();
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->pool().free_count == all_frames(w));
    clock.advance(std::chrono::milliseconds{11});
    loop.poll_once();
    BOOST_TEST(w.arrives(6));
    // A port that ends while the device has frames takes the right to its memory away.
    w.nic.fail_calls("modify_qp", ETIMEDOUT, 1000);
    w.port.reset();
    w.nic.deliver(std::vector<std::byte>(200));
    BOOST_TEST(w.nic.violations().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_receive_queue_of_spread_flows_that_cannot_be_put_back_keeps_its_frames) {
    fake::nic nic;
    const auto device = std::make_shared<verbs_device>(
        verbs_device_options{.device = "fake0", .queues = 2, .steering = verbs_steering::everything, .api = &fake::api()});
    corewire::verbs_port port(device, 0);
    const std::uint32_t posted = port.posted();
    nic.fail_calls("modify_wq", ETIMEDOUT, 1000);
    device->pretend_failure();
    static_cast<void>(receive_all(port));
    BOOST_TEST(!port.usable());
    BOOST_TEST(port.posted() == posted);
    BOOST_TEST(port.pool().free_count + posted == port.pool().count());
}

BOOST_AUTO_TEST_CASE(errors_without_end_are_not_answered_with_restarts_without_end) {
    verbs_world w;
    for (int i = 0; i < 100; ++i) {
        w.nic.fail_sends(IBV_WC_LOC_QP_OP_ERR);
        static_cast<void>(send(*w.port, w.outgoing(1)));
        w.settle();
    }
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->verbs_statistics().restarts <= 16u);
}

BOOST_AUTO_TEST_CASE(when_restarts_do_not_help_the_pair_rests_and_is_tried_again) {
    virtual_clock clock;
    reactor loop({.clock = &clock});
    const reactor::scope here(loop);
    verbs_world w;
    const auto wait = [&](int milliseconds) {
        clock.advance(std::chrono::milliseconds{milliseconds});
        loop.poll_once();
    };
    const auto try_in_vain = [&] {
        w.nic.fail_sends(IBV_WC_LOC_QP_OP_ERR);
        static_cast<void>(send(*w.port, w.outgoing(1)));
        w.settle();
    };
    for (int i = 0; i < 100; ++i) try_in_vain();
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->verbs_statistics().restarts == 16u);
    BOOST_TEST(w.port->verbs_statistics().rests == 1u);
    BOOST_TEST(w.port->pool().free_count == all_frames(w));
    BOOST_TEST(w.port->wake_fd() == -1); // the timer wakes
    for (const int rest : {10, 20, 40, 80, 160, 320, 640, 1000, 1000}) {
        wait(rest - 1);
        BOOST_TEST(!w.port->usable());
        wait(2);
        BOOST_TEST(w.port->usable());
        try_in_vain();
        BOOST_TEST(!w.port->usable());
    }
    w.nic.fail_sends(IBV_WC_SUCCESS, 0);
    wait(1001);
    BOOST_TEST(send(*w.port, w.outgoing(99)));
    BOOST_TEST(receive_numbers(*w.far) == std::vector{99u});
    BOOST_TEST(w.arrives(5));
    w.settle();
    BOOST_TEST(w.port->pool().free_count + w.port->posted() == all_frames(w));
    try_in_vain(); // after a success all restarts are there again
    BOOST_TEST(w.port->usable());

    w.nic.fail_calls("modify_qp", ENOMEM, 1000); // nor does a restart that fails end it
    w.device->pretend_failure();
    w.settle();
    BOOST_TEST(!w.port->usable());
    w.nic.remove(); // while it rests
    w.hear_events();
    w.settle();
    wait(10'000);
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->pool().free_count == all_frames(w));
}

BOOST_AUTO_TEST_CASE(a_port_may_be_the_last_owner_of_its_device) {
    verbs_world w;
    w.device.reset();
    BOOST_TEST(w.arrives(1));
    w.port.reset();
    BOOST_TEST(w.nic.live_objects() == 0u);
}

BOOST_AUTO_TEST_CASE(an_overrun_completion_queue_ends_the_port_and_not_the_process) {
    for (const bool quietly : {false, true}) { // by what its polls answer, and by its event alone
        verbs_world w;
        std::array<packet, 4> held;
        BOOST_REQUIRE(send(*w.far, numbered_frame(*w.far, w.port->mac(), 1)));
        BOOST_REQUIRE(w.port->receive(held) == 1u);
        w.nic.hold_completions();
        BOOST_REQUIRE(send(*w.port, w.outgoing(2))); // under way all the while
        w.nic.shrink_completion_queues(8, quietly);
        for (int i = 0; i < 9; ++i) w.nic.deliver(std::vector<std::byte>(64));
        if (quietly) {
            BOOST_TEST(receive_all(*w.port).empty());
            BOOST_TEST(w.port->usable()); // nobody has told it
            w.hear_events();
        }
        w.settle();
        BOOST_TEST(!w.port->usable());
        BOOST_TEST(!w.port->link_up());
        BOOST_TEST(w.port->posted() == 0u);
        BOOST_TEST(w.port->unsent() == 0u);
        BOOST_TEST(w.port->pool().free_count + 1 == all_frames(w));
        BOOST_TEST(number_of({held[0].head.data(), held[0].head.data() + held[0].head.size()}) == 1u);
        held[0].head.clear();
        BOOST_TEST(w.port->pool().free_count == all_frames(w));
        BOOST_TEST(w.port->wake_fd() == -1);
        BOOST_TEST(w.port->prepare_sleep());
        BOOST_TEST(send(*w.port, w.outgoing(3))); // taken, and dropped
        BOOST_TEST(w.port->statistics().transmit_dropped == 1u);
        BOOST_TEST(!w.arrives(4));
        BOOST_TEST(w.port->verbs_statistics().restarts == 0u);
        BOOST_TEST(w.nic.violations().empty());
    }
}

BOOST_AUTO_TEST_CASE(an_overrun_queue_of_sends_ends_the_port_too) {
    for (const bool quietly : {false, true}) {
        verbs_world w;
        w.nic.shrink_completion_queues(1, quietly);
        for (std::uint32_t i = 0; i < 2; ++i) BOOST_REQUIRE(send(*w.port, w.outgoing(i))); // two bursts, a completion each
        if (quietly) w.hear_events();
        w.settle();
        BOOST_TEST(!w.port->usable());
        BOOST_TEST(w.port->pool().free_count == all_frames(w));
        BOOST_TEST(w.nic.violations().empty());
    }
}

BOOST_AUTO_TEST_CASE(an_overrun_is_noticed_by_who_is_about_to_sleep) {
    verbs_world w;
    w.nic.shrink_completion_queues(2);
    for (int i = 0; i < 3; ++i) w.nic.deliver(std::vector<std::byte>(64));
    BOOST_TEST(!w.port->prepare_sleep()); // there is something to look into
    BOOST_TEST(w.port->prepare_sleep());
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->wake_fd() == -1);
}

BOOST_AUTO_TEST_CASE(events_of_queues_that_are_somebody_elses_mean_nothing_to_a_port) {
    verbs_world w;
    const verbs::completion_queue other(w.device->device(), {});
    for (ibv_cq* const each : {other.get(), static_cast<ibv_cq*>(nullptr)}) {
        verbs::device_event event;
        event.what = IBV_EVENT_CQ_ERR;
        event.completions = each;
        w.device->handle(event);
        BOOST_TEST(w.arrives(1));
    }
    BOOST_TEST(w.port->verbs_statistics().restarts == 0u);
}

BOOST_AUTO_TEST_CASE(an_overrun_of_one_ports_queue_leaves_the_other_port_alone) {
    two_ports w;
    w.nic.shrink_completion_queues(8, true);
    for (int i = 0; i < 9; ++i) w.nic.deliver(w.frame_for(0));
    w.settle();
    BOOST_TEST(w.ports[0].usable()); // nobody has told it
    w.hear();
    w.settle();
    BOOST_TEST(!w.ports[0].usable());
    BOOST_TEST(w.ports[0].pool().free_count == w.ports[0].pool().count());
    BOOST_TEST(w.ports[1].usable());
    BOOST_TEST(!w.arrives(0));
    BOOST_TEST(w.arrives(1));
    BOOST_TEST(w.ports[1].verbs_statistics().restarts == 0u);
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_receive_queue_that_fails_is_started_again_and_the_others_go_on) {
    two_ports w;
    for (const unsigned which : {0u, 1u}) {
        w.nic.fail_receives(IBV_WC_LOC_PROT_ERR);
        BOOST_TEST(!w.arrives(which));
        BOOST_TEST(w.ports[which].verbs_statistics().restarts == 1u); // by the completions
        BOOST_TEST(w.ports[1 - which].verbs_statistics().restarts == 2 * which);
        BOOST_TEST(w.arrives(0));
        BOOST_TEST(w.arrives(1));
        w.hear(); // the event of what is over already: once more, and no harm
        w.settle();
        BOOST_TEST(w.ports[which].verbs_statistics().restarts == 2u);
        BOOST_TEST(w.ports[1 - which].verbs_statistics().restarts == 2 * which);
        BOOST_TEST(w.arrives(which));
    }
    w.nic.break_work_queues();
    w.hear();
    for (corewire::verbs_port& each : w.ports) {
        const std::uint64_t failed = each.verbs_statistics().failed_receives;
        BOOST_TEST(each.prepare_sleep());
        each.finish_sleep();
        BOOST_TEST(each.verbs_statistics().restarts == 3u);
        BOOST_TEST(each.verbs_statistics().failed_receives == failed); // it was the event: no completion has been looked at
    }
    for (const unsigned which : {0u, 1u}) {
        BOOST_TEST(w.arrives(which));
        BOOST_TEST(w.ports[which].usable());
        BOOST_TEST(w.ports[which].pool().free_count + w.ports[which].posted() == w.ports[which].pool().count());
    }
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(while_the_link_is_down_sends_are_dropped_and_counted) {
    verbs_world w;
    w.nic.set_link(false);
    w.hear_events();
    auto burst = burst_of(w, 5);
    BOOST_TEST(w.port->transmit(burst) == 5u);
    BOOST_TEST(!w.port->link_up());
    BOOST_TEST(w.port->statistics().transmit_dropped == 5u);
    BOOST_TEST(w.nic.statistics().sends == 0u);
    w.nic.set_link(true);
    w.hear_events();
    BOOST_TEST(send(*w.port, w.outgoing(6)));
    BOOST_TEST(receive_numbers(*w.far) == std::vector{6u});
    BOOST_TEST(w.arrives(7));
    BOOST_TEST(w.port->verbs_statistics().link_changes == 2u);
}

BOOST_AUTO_TEST_CASE(a_removed_device_gives_all_frames_back_and_says_nothing_more) {
    verbs_world w;
    w.nic.hold_completions();
    auto burst = burst_of(w, 8);
    BOOST_TEST(w.port->transmit(burst) == 8u);
    w.nic.remove();
    w.hear_events();
    w.settle();
    BOOST_TEST(!w.port->usable());
    BOOST_TEST(w.port->pool().free_count == all_frames(w));
    BOOST_TEST(w.port->wake_fd() == -1);
    BOOST_TEST(send(*w.port, w.outgoing(1)));
    BOOST_TEST(w.port->receive({}) == 0u);
}

BOOST_AUTO_TEST_CASE(a_removal_is_noticed_without_its_event) {
    verbs_world w;
    w.nic.remove();
    for (int i = 0; i < 4; ++i) static_cast<void>(send(*w.port, w.outgoing(1)));
    w.settle();
    BOOST_TEST(!w.port->usable());
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_a_port_that_is_closed_in_the_middle) {
    fake::nic* nic = nullptr;
    verbs_world w;
    nic = &w.nic;
    w.nic.hold_completions();
    auto burst = burst_of(w, 8);
    BOOST_TEST(w.port->transmit(burst) == 8u);
    BOOST_TEST(send(*w.far, numbered_frame(*w.far, w.port->mac(), 1)));
    w.port.reset();
    w.device.reset();
    BOOST_TEST(nic->live_objects() == 0u);
}

BOOST_AUTO_TEST_CASE(a_forked_child_does_not_have_the_frames) {
    const verbs_world w;
    const auto at = reinterpret_cast<std::uintptr_t>(w.port->pool().region());
    const auto last = at + w.port->pool().region_size() - 1;
    std::ifstream maps("/proc/self/smaps");
    unsigned kept = 0;
    bool ours = false;
    for (std::string line; std::getline(maps, line);) {
        std::uintptr_t from = 0, to = 0;
        if (std::sscanf(line.c_str(), "%zx-%zx ", &from, &to) == 2) ours = (from <= at && at < to) || (from <= last && last < to);
        if (!ours || !line.starts_with("VmFlags:")) continue;
        BOOST_TEST(mentions(line, " dc"), line);
        ++kept;
    }
    BOOST_TEST(kept != 0u);
}

BOOST_AUTO_TEST_CASE(too_few_frames_are_refused_with_a_sentence) {
    verbs_world w;
    BOOST_TEST(mentions(sentence_of([&] { corewire::verbs_port(w.device, 0, {.frames = 512}); }), "1024 that it lends"));
}

BOOST_AUTO_TEST_SUITE_END()
