// Queue pairs, their states, completion queues and events, work chains.
#include <corewire/rdma/verbs/async_events.hh>

#include "tests/rdma/support.hh"
#include "tests/support/virtual_clock.hh"

#include <poll.h>

using namespace corewire;
using namespace corewire::test;

namespace {

bool readable(int fd) {
    pollfd p{fd, POLLIN, 0};
    return ::poll(&p, 1, 0) == 1;
}

} // namespace

BOOST_AUTO_TEST_SUITE(queues)

BOOST_AUTO_TEST_CASE(a_raw_packet_pair_walks_to_rts_and_sends) {
    raw_world w;
    BOOST_TEST(*w.pair.state() == IBV_QPS_RTS);
    BOOST_TEST(w.send(60) == 0);
    const auto done = w.poll();
    BOOST_REQUIRE(done.size() == 1u);
    BOOST_TEST(done[0].status == IBV_WC_SUCCESS);
    BOOST_TEST(w.nic.statistics().frames_sent == 1u);
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(each_step_of_the_walk_is_named_when_it_fails) {
    raw_world w;
    const auto failing = [&](unsigned step) {
        w.pair.to_reset();
        // The steps before it succeed: their calls come first.
        return sentence_of([&] {
            ibv_qp_attr a{};
            if (step == 1) {
                w.nic.fail_calls("modify_qp", EINVAL);
                w.pair.activate_raw();
            }
            a.qp_state = IBV_QPS_INIT;
            a.port_num = 1;
            w.pair.modify(a, IBV_QP_STATE | IBV_QP_PORT, "RESET to INIT");
            a.qp_state = IBV_QPS_RTR;
            if (step == 2) w.nic.fail_calls("modify_qp", EINVAL);
            w.pair.modify(a, IBV_QP_STATE, "INIT to RTR");
            if (step == 3) w.nic.fail_calls("modify_qp", EINVAL);
            a.qp_state = IBV_QPS_RTS;
            w.pair.modify(a, IBV_QP_STATE, "RTR to RTS");
        });
    };
    BOOST_TEST(mentions(failing(1), "RESET to INIT (port 1)"));
    BOOST_TEST(mentions(failing(2), "INIT to RTR"));
    BOOST_TEST(mentions(failing(3), "RTR to RTS"));
}

BOOST_AUTO_TEST_CASE(a_reliable_connection_needs_all_of_its_attributes_and_a_gid_that_there_is) {
    raw_world w;
    verbs::queue_pair rc(w.domain, {.sends = &w.queue, .receives = &w.queue});
    const ibv_gid peer = w.device.addresses().front().gid;
    rc.activate({.queue_pair = 0x123, .gid = peer}, {});
    BOOST_TEST(*rc.state() == IBV_QPS_RTS);
    BOOST_TEST(w.nic.violations().empty());
    rc.to_reset();
    const std::string said = sentence_of([&] { rc.activate({.queue_pair = 0x123, .gid = peer}, {.gid_index = 7}); });
    BOOST_TEST(mentions(said, "INIT to RTR"));
    BOOST_TEST(mentions(said, "GID index 7"));
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    BOOST_TEST(rc.try_modify(a, IBV_QP_STATE) == EINVAL); // from INIT: there is no such step
}

BOOST_AUTO_TEST_CASE(a_datagram_pair_walks_too) {
    raw_world w;
    verbs::queue_pair ud(w.domain, {.type = verbs::transport::unreliable_datagram, .sends = &w.queue});
    ud.activate(verbs::datagram_parameters{});
    BOOST_TEST(*ud.state() == IBV_QPS_RTS);
}

BOOST_AUTO_TEST_CASE(missing_privileges_and_missing_support_are_told_apart) {
    const std::string no_right = sentence_of([] { raw_world w({.may_send_raw = false}); });
    BOOST_TEST(mentions(no_right, "CAP_NET_RAW"));
    const std::string no_raw = sentence_of([] { raw_world w({.ethernet = false}); });
    BOOST_TEST(mentions(no_raw, "no raw-packet queue pairs"));
}

BOOST_AUTO_TEST_CASE(a_driver_without_the_extended_calls_is_used_without_them) {
    raw_world with({}, {.send_operations = IBV_QP_EX_WITH_SEND});
    BOOST_TEST(with.pair.extended() != nullptr);
    raw_world without({.name = "old0", .extended_sends = false}, {.send_operations = IBV_QP_EX_WITH_SEND});
    BOOST_TEST(without.pair.extended() == nullptr);
    BOOST_TEST(without.send(60) == 0);
}

BOOST_AUTO_TEST_CASE(the_extended_calls_send_a_batch_with_one_doorbell) {
    raw_world w({}, {.send_operations = IBV_QP_EX_WITH_SEND});
    ibv_qp_ex* const q = w.pair.extended();
    ::ibv_wr_start(q);
    for (unsigned i = 0; i < 8; ++i) {
        q->wr_id = i;
        q->wr_flags = i == 7 ? IBV_SEND_SIGNALED : 0;
        ::ibv_wr_send(q);
        if (i % 2 == 0) ::ibv_wr_set_sge(q, w.region.local_key(), reinterpret_cast<std::uintptr_t>(w.memory.data()), 60);
        else ::ibv_wr_set_inline_data(q, w.memory.data(), 60);
    }
    BOOST_TEST(::ibv_wr_complete(q) == 0);
    BOOST_TEST(w.nic.statistics().doorbells == 1u);
    BOOST_TEST(w.nic.statistics().frames_sent == 8u);
    BOOST_TEST(w.nic.statistics().inline_sends == 4u);
    BOOST_TEST(w.poll().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_chain_is_posted_with_one_doorbell_and_used_again) {
    raw_world w;
    verbs::send_chain chain(8, 2);
    for (int round = 0; round < 3; ++round) {
        while (!chain.full()) {
            ibv_send_wr& wr = chain.next();
            wr.sg_list[0] = {reinterpret_cast<std::uintptr_t>(w.memory.data()), 60, w.region.local_key()};
            wr.num_sge = 1;
            wr.send_flags = 0;
        }
        chain.last().send_flags = IBV_SEND_SIGNALED;
        const auto outcome = chain.post(w.pair);
        BOOST_TEST(outcome.error == 0);
        BOOST_TEST(outcome.posted == 8u);
        BOOST_TEST(w.poll().size() == 1u); // one completion retires all eight: the queue of 16 would overflow otherwise
    }
    BOOST_TEST(w.nic.statistics().doorbells == 3u);
}

BOOST_AUTO_TEST_CASE(a_chain_says_how_much_of_it_was_posted) {
    raw_world w;
    verbs::send_chain chain(raw_world::depth + 4, 1);
    while (!chain.full()) {
        ibv_send_wr& wr = chain.next();
        wr.sg_list[0] = {reinterpret_cast<std::uintptr_t>(w.memory.data()), 60, w.region.local_key()};
        wr.num_sge = 1;
    }
    const auto outcome = chain.post(w.pair);
    BOOST_TEST(outcome.error == ENOMEM);
    BOOST_TEST(outcome.posted == raw_world::depth);
}

BOOST_AUTO_TEST_CASE(selective_signalling_never_leaves_the_end_of_a_batch_unknown) {
    verbs::selective_signalling policy(4);
    std::string marks;
    for (int i = 1; i <= 10; ++i) marks += policy.next(i == 10) ? 'S' : '.';
    BOOST_TEST(marks == "...S...S.S");
}

BOOST_AUTO_TEST_CASE(an_armed_queue_wakes_once_and_again_only_when_armed_again) {
    raw_world w;
    BOOST_TEST(!readable(w.channel.fd()));
    BOOST_TEST(w.queue.arm() == 0);
    w.send(60);
    w.send(60);
    BOOST_TEST(readable(w.channel.fd()));
    BOOST_TEST(w.channel.drain() == 1u);
    BOOST_TEST(!readable(w.channel.fd()));
    w.send(60);
    BOOST_TEST(!readable(w.channel.fd()));
    BOOST_TEST(w.poll().size() == 3u);
}

BOOST_AUTO_TEST_CASE(many_events_are_acknowledged_in_batches_and_the_rest_at_the_end) {
    raw_world w; // whose destruction would assert on an event that nobody acknowledged
    for (int i = 0; i < 100; ++i) {
        w.queue.arm();
        w.send(60);
        BOOST_TEST(w.channel.drain() == 1u);
        w.poll();
    }
}

BOOST_AUTO_TEST_CASE(an_extended_queue_tells_the_time_of_each_completion) {
    raw_world w;
    verbs::completion_queue timed(w.device, {.entries = 16, .timestamps = true});
    verbs::queue_pair pair(w.domain, {.type = verbs::transport::raw_packet, .sends = &timed, .max_sends = 8});
    pair.activate_raw();
    {
        const verbs::completion_cursor none(timed);
        BOOST_TEST(!none);
        BOOST_TEST(none.error() == ENOENT);
    }
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(w.memory.data()), 60, w.region.local_key()};
    ibv_send_wr wr{};
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    for (wr.wr_id = 1; wr.wr_id <= 3; ++wr.wr_id) {
        ibv_send_wr* bad = nullptr;
        BOOST_TEST(pair.post_send(&wr, &bad) == 0);
    }
    std::uint64_t last = 0, count = 0;
    for (verbs::completion_cursor at(timed); at; at.next()) {
        BOOST_TEST(at->wr_id == ++count);
        BOOST_TEST(at->status == IBV_WC_SUCCESS);
        BOOST_TEST(at.timestamp() > last);
        last = at.timestamp();
    }
    BOOST_TEST(count == 3u);
}

BOOST_AUTO_TEST_CASE(an_extended_queue_needs_no_timestamps) {
    raw_world w;
    verbs::completion_queue plain(w.device, {.entries = 16, .extended = true});
    BOOST_TEST(plain.extended() != nullptr);
    const verbs::completion_cursor none(plain);
    BOOST_TEST(none.error() == ENOENT);
}

BOOST_AUTO_TEST_CASE(timestamps_that_the_driver_lacks_are_said_to_be_missing) {
    raw_world w({.extended_completions = false});
    BOOST_TEST(mentions(sentence_of([&] { verbs::completion_queue(w.device, {.extended = true}); }), "ibv_create_cq_ex"));
    BOOST_TEST(mentions(sentence_of([&] { verbs::completion_queue(w.device, {.timestamps = true}); }), "timestamps"));
    BOOST_TEST(w.queue.moderate(16, 10));
    w.nic.fail_calls("modify_cq", EOPNOTSUPP);
    BOOST_TEST(!w.queue.moderate(16, 10));
}

BOOST_AUTO_TEST_CASE(events_of_the_device_reach_the_reactor) {
    raw_world w;
    virtual_clock clock;
    reactor loop({.clock = &clock});
    const reactor::scope here(loop);
    std::vector<std::string> heard;
    verbs::async_events events(w.device, loop, [&](const verbs::device_event& e) { heard.push_back(to_string(e, w.device.name())); });
    w.nic.set_link(false);
    loop.poll_once();
    BOOST_TEST(heard.empty()); // it looks once a millisecond
    clock.advance(std::chrono::milliseconds{1});
    loop.poll_once();
    BOOST_REQUIRE(heard.size() == 1u);
    BOOST_TEST(heard[0] == "port 1 of fake0 is down");
    w.nic.set_link(true);
    w.nic.break_queue_pairs();
    clock.advance(std::chrono::milliseconds{1});
    loop.poll_once();
    BOOST_REQUIRE(heard.size() == 3u);
    BOOST_TEST(mentions(heard[1], "is up"));
    BOOST_TEST(mentions(heard[2], "queue pair"));
    BOOST_TEST(*w.pair.state() == IBV_QPS_ERR);
}

BOOST_AUTO_TEST_CASE(a_removed_device_is_told_once_and_wakes_nobody_for_ever) {
    raw_world w;
    virtual_clock clock;
    reactor loop({.clock = &clock});
    const reactor::scope here(loop);
    int gone = 0;
    verbs::async_events events(w.device, loop, [&](const verbs::device_event& e) { gone += e.device_gone(); });
    BOOST_TEST(events.wake_fd() >= 0);
    w.nic.remove();
    BOOST_TEST(readable(events.wake_fd()));
    for (int i = 0; i < 5; ++i) {
        clock.advance(std::chrono::milliseconds{1});
        loop.poll_once();
    }
    BOOST_TEST(gone == 1);
    BOOST_TEST(events.wake_fd() == -1);
    BOOST_TEST(w.send(60) == EIO);
}

BOOST_AUTO_TEST_CASE(all_who_hear_one_context_are_told_that_its_device_has_gone) {
    raw_world w;
    virtual_clock clock;
    reactor loop({.clock = &clock});
    const reactor::scope here(loop);
    int first = 0, second = 0;
    const verbs::async_events one(w.device, loop, [&](const verbs::device_event& e) { first += e.device_gone(); });
    const verbs::async_events other(w.device, loop, [&](const verbs::device_event& e) { second += e.device_gone(); });
    w.nic.remove();
    for (int i = 0; i < 5; ++i) {
        clock.advance(std::chrono::milliseconds{1});
        loop.poll_once();
    }
    BOOST_TEST(first == 1);
    BOOST_TEST(second == 1); // though the event itself went to the other one
    BOOST_TEST(other.wake_fd() == -1);
}

BOOST_AUTO_TEST_SUITE_END()
