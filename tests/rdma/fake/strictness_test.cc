// The fake refuses what hardware refuses, in the way that hardware does.
#include <corewire/rdma/verbs/flow_rule.hh>
#include <corewire/rdma/verbs/receive_side_scaling.hh>
#include <corewire/rdma/verbs/shared_receive_queue.hh>

#include "tests/rdma/support.hh"

#include <corewire/net/port/rss.hh>

#include <functional>

using namespace corewire;
using namespace corewire::test;

namespace {

const mac_address ours(0x02'00'00'00'00'01);
const ipv4 host(10, 0, 0, 1), peer(10, 0, 0, 2);

ibv_wc_status only_status(raw_world& w) {
    const auto done = w.poll();
    BOOST_REQUIRE(done.size() == 1u);
    return done[0].status;
}

/// UDP to us is spread over two work queues; the first completes on the world's own completion queue.
struct spread_world : raw_world {
    spread_world(unsigned work_requests, unsigned slots)
        : second(device, {}), a(domain, queue, work_requests), b(domain, second, work_requests), both{&a, &b}, over(device, both, slots),
          hashing(over.pair_for(domain, verbs::hashed::udp, rss::symmetric_key)),
          rule(fake::api(), hashing.get(), {.destination_mac = ours, .destination = host, .protocol = 17}) {}
    verbs::completion_queue second;
    verbs::receive_work_queue a, b;
    std::array<verbs::receive_work_queue*, 2> both;
    verbs::spread over;
    verbs::queue_pair hashing;
    verbs::flow_rule rule;
};

} // namespace

BOOST_AUTO_TEST_SUITE(strictness)

BOOST_AUTO_TEST_CASE(a_wrong_key_fails_the_send_and_stops_the_send_queue) {
    raw_world w;
    BOOST_TEST(w.send_piece({reinterpret_cast<std::uintptr_t>(w.memory.data()), 60, w.region.local_key() ^ 1}, 0) == 0);
    BOOST_TEST(only_status(w) == IBV_WC_LOC_PROT_ERR); // errors complete though nobody asked for a signal
    BOOST_TEST(*w.pair.state() == IBV_QPS_SQE);
    BOOST_TEST(w.send(60, 0) == 0);
    BOOST_TEST(only_status(w) == IBV_WC_WR_FLUSH_ERR);
    BOOST_TEST(w.nic.statistics().frames_sent == 0u);
}

BOOST_AUTO_TEST_CASE(a_range_that_leaves_its_region_fails) {
    raw_world w;
    w.send_piece({reinterpret_cast<std::uintptr_t>(w.memory.data()) + w.memory.size() - 59, 60, w.region.local_key()});
    BOOST_TEST(only_status(w) == IBV_WC_LOC_PROT_ERR);
}

BOOST_AUTO_TEST_CASE(a_region_of_another_domain_fails) {
    raw_world w;
    const verbs::protection_domain other(w.device);
    const verbs::memory_region theirs(other, w.memory, verbs::access::local_write);
    w.send_piece({reinterpret_cast<std::uintptr_t>(w.memory.data()), 60, theirs.local_key()});
    BOOST_TEST(only_status(w) == IBV_WC_LOC_PROT_ERR);
}

BOOST_AUTO_TEST_CASE(a_region_that_was_deregistered_fails) {
    raw_world w;
    std::uint32_t key = 0;
    {
        const verbs::memory_region brief(w.domain, w.memory, verbs::access::local_write);
        key = brief.local_key();
    }
    w.send_piece({reinterpret_cast<std::uintptr_t>(w.memory.data()), 60, key});
    BOOST_TEST(only_status(w) == IBV_WC_LOC_PROT_ERR);
}

BOOST_AUTO_TEST_CASE(more_pieces_than_the_pair_has_are_refused_at_once) {
    raw_world w;
    std::array<ibv_sge, 3> pieces;
    pieces.fill({reinterpret_cast<std::uintptr_t>(w.memory.data()), 20, w.region.local_key()});
    ibv_send_wr wr{};
    wr.sg_list = pieces.data();
    wr.num_sge = 3;
    wr.opcode = IBV_WR_SEND;
    ibv_send_wr* bad = nullptr;
    BOOST_TEST(w.pair.post_send(&wr, &bad) == EINVAL);
    BOOST_TEST(bad == &wr);
    wr.num_sge = 2;
    BOOST_TEST(w.pair.post_send(&wr, &bad) == 0);
}

BOOST_AUTO_TEST_CASE(inline_sends_have_a_limit_and_need_no_key) {
    raw_world w;
    BOOST_TEST(w.send_piece({reinterpret_cast<std::uintptr_t>(w.memory.data()), 64, 0}, IBV_SEND_INLINE | IBV_SEND_SIGNALED) == 0);
    BOOST_TEST(only_status(w) == IBV_WC_SUCCESS);
    BOOST_TEST(w.send(65, IBV_SEND_INLINE) == EINVAL);
    BOOST_TEST(w.nic.violations().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_full_send_queue_refuses_until_a_completion_is_polled) {
    raw_world w;
    for (unsigned i = 0; i < raw_world::depth - 1; ++i) BOOST_TEST(w.send(60, 0) == 0);
    BOOST_TEST(w.send(60) == 0);
    BOOST_TEST(w.send(60) == ENOMEM); // all went out long ago, but nobody has polled
    BOOST_TEST(w.poll().size() == 1u);
    BOOST_TEST(w.send(60) == 0);
}

BOOST_AUTO_TEST_CASE(sends_before_rts_and_receives_in_reset_are_refused) {
    raw_world w;
    w.pair.to_reset();
    BOOST_TEST(w.send(60) == EINVAL);
    BOOST_TEST(w.receive(2048) == EINVAL);
}

BOOST_AUTO_TEST_CASE(a_completion_queue_that_overruns_fails_and_says_so) {
    raw_world w({}, {}, 4);
    for (int i = 0; i < 5; ++i) w.send(60);
    std::array<ibv_wc, 8> out;
    BOOST_TEST(w.queue.poll(out) < 0);
    ibv_async_event event{};
    BOOST_TEST(fake::api().get_async_event(w.device.context(), &event) == 0);
    BOOST_TEST(event.event_type == IBV_EVENT_CQ_ERR);
}

BOOST_AUTO_TEST_CASE(a_receive_of_more_pieces_than_its_queue_has_is_refused_at_once) {
    raw_world w({}, {.receive_pieces = 2});
    verbs::completion_queue completions(w.device, {});
    verbs::receive_work_queue work(w.domain, completions, 16, 2);
    verbs::shared_receive_queue shared(w.domain, {.max_receives = 16, .pieces = 2});
    const std::function<int(ibv_recv_wr*, ibv_recv_wr**)> posts[] = {
        [&](ibv_recv_wr* first, ibv_recv_wr** bad) { return w.pair.post_receive(first, bad); },
        [&](ibv_recv_wr* first, ibv_recv_wr** bad) { return work.post(first, bad); },
        [&](ibv_recv_wr* first, ibv_recv_wr** bad) { return shared.post(first, bad); }};
    std::size_t refused = 0;
    for (const auto& post : posts) {
        std::array<ibv_sge, 3> pieces;
        pieces.fill({reinterpret_cast<std::uintptr_t>(w.memory.data()), 20, w.region.local_key()});
        ibv_recv_wr second{2, nullptr, pieces.data(), 3}, first{1, &second, pieces.data(), 2};
        ibv_recv_wr* bad = nullptr;
        BOOST_TEST(post(&first, &bad) == EINVAL);
        BOOST_TEST(bad == &second); // the first one is posted
        BOOST_TEST(w.nic.violations().size() == ++refused);
        second.num_sge = -1;
        BOOST_TEST(post(&second, &bad) == EINVAL);
        BOOST_TEST(w.nic.violations().size() == ++refused);
    }
}

BOOST_AUTO_TEST_CASE(a_frame_is_scattered_over_the_pieces_of_its_receive) {
    raw_world w({}, {.receive_pieces = 2});
    const verbs::flow_rule rule(fake::api(), w.pair.get(), {.destination_mac = ours});
    const auto at = [&](std::size_t offset) { return reinterpret_cast<std::uintptr_t>(w.memory.data() + offset); };
    ibv_sge pieces[] = {{at(1000), 20, w.region.local_key()}, {at(5000), 100, w.region.local_key()}};
    ibv_recv_wr wr{1, nullptr, pieces, 2};
    ibv_recv_wr* bad = nullptr;
    BOOST_TEST(w.pair.post_receive(&wr, &bad) == 0);
    const auto frame = udp_frame(ours, peer, 1, host, 2);
    w.nic.deliver(frame);
    BOOST_TEST(only_status(w) == IBV_WC_SUCCESS);
    BOOST_TEST(std::memcmp(w.memory.data() + 1000, frame.data(), 20) == 0);
    BOOST_TEST(std::memcmp(w.memory.data() + 5000, frame.data() + 20, frame.size() - 20) == 0);
    BOOST_TEST((w.memory[1020] == std::byte{0}));
}

BOOST_AUTO_TEST_CASE(a_full_receive_queue_refuses_until_a_completion_is_polled) {
    raw_world w;
    const verbs::flow_rule rule(fake::api(), w.pair.get(), {.destination_mac = ours});
    verbs::receive_chain chain(raw_world::depth + 4, w.region.local_key());
    while (!chain.full()) chain.add(0, w.memory.data() + 8192, 2048);
    const auto outcome = chain.post([&](auto* first, auto** bad) { return w.pair.post_receive(first, bad); });
    BOOST_TEST(outcome.error == ENOMEM);
    BOOST_TEST(outcome.posted == raw_world::depth);
    w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
    BOOST_TEST(w.receive(2048) == ENOMEM); // it is filled, but nobody has polled
    BOOST_TEST(w.poll().size() == 1u);
    BOOST_TEST(w.receive(2048) == 0);
    BOOST_TEST(w.receive(2048) == ENOMEM);
    w.pair.to_reset(); // forgets all of them
    w.pair.activate_raw();
    for (unsigned i = 0; i < raw_world::depth; ++i) BOOST_TEST(w.receive(2048) == 0);
    BOOST_TEST(w.receive(2048) == ENOMEM);
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_receive_into_what_the_device_may_not_write_fails_the_pair) {
    for (unsigned wrong = 0; wrong < 5; ++wrong) {
        raw_world w;
        const verbs::flow_rule rule(fake::api(), w.pair.get(), {.destination_mac = ours});
        const verbs::protection_domain other(w.device);
        const verbs::memory_region theirs(other, w.memory, verbs::access::local_write);
        const verbs::memory_region unwritable(w.domain, w.memory, verbs::access::local_read);
        auto brief = std::make_unique<verbs::memory_region>(w.domain, w.memory, verbs::access::local_write);
        const std::uint32_t keys[] = {w.region.local_key() ^ 1, w.region.local_key(), theirs.local_key(), unwritable.local_key(),
                                      brief->local_key()};
        brief.reset();
        const std::size_t beyond = wrong == 1 ? w.memory.size() - 59 : 0;
        ibv_sge piece{reinterpret_cast<std::uintptr_t>(w.memory.data() + beyond), 60, keys[wrong]};
        ibv_recv_wr wr{1, nullptr, &piece, 1};
        ibv_recv_wr* bad = nullptr;
        BOOST_TEST(w.pair.post_receive(&wr, &bad) == 0); // the device finds out when it writes
        BOOST_TEST(w.receive(2048, 2) == 0);
        const std::vector<std::byte> before = w.memory;
        w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
        const auto done = w.poll();
        BOOST_REQUIRE(done.size() == 2u);
        BOOST_TEST(done[0].status == IBV_WC_LOC_PROT_ERR);
        BOOST_TEST(done[0].wr_id == 1u);
        BOOST_TEST(done[1].status == IBV_WC_WR_FLUSH_ERR);
        BOOST_TEST(*w.pair.state() == IBV_QPS_ERR);
        BOOST_TEST((w.memory == before));
        BOOST_TEST(w.nic.violations().size() == 1u);
        BOOST_TEST(w.receive(2048, 3) == 0); // a pair in error takes it, and flushes it
        BOOST_TEST(only_status(w) == IBV_WC_WR_FLUSH_ERR);
    }
}

BOOST_AUTO_TEST_CASE(a_work_queue_fails_alone_flushes_and_says_so) {
    spread_world w(16, 2);
    verbs::receive_work_queue &a = w.a, &b = w.b;
    const auto post = [&](verbs::receive_work_queue& to, std::uint32_t key) {
        ibv_sge piece{reinterpret_cast<std::uintptr_t>(w.memory.data()), 2048, key};
        ibv_recv_wr wr{1, nullptr, &piece, 1};
        ibv_recv_wr* bad = nullptr;
        return to.post(&wr, &bad);
    };
    std::uint16_t flow[2] = {1000, 1000};
    for (const std::uint16_t which : {0, 1})
        while (rss::symmetric.hash(peer, flow[which], host, 7) % 2 != which) ++flow[which];
    BOOST_TEST(post(a, w.region.local_key() ^ 1) == 0);
    BOOST_TEST(post(a, w.region.local_key()) == 0);
    BOOST_TEST(post(b, w.region.local_key()) == 0);
    w.nic.deliver(udp_frame(ours, peer, flow[0], host, 7));
    w.nic.deliver(udp_frame(ours, peer, flow[0], host, 7)); // nobody's
    w.nic.deliver(udp_frame(ours, peer, flow[1], host, 7));
    const auto done = w.poll();
    BOOST_REQUIRE(done.size() == 2u);
    BOOST_TEST(done[0].status == IBV_WC_LOC_PROT_ERR);
    BOOST_TEST(done[1].status == IBV_WC_WR_FLUSH_ERR);
    std::array<ibv_wc, 4> out;
    BOOST_REQUIRE(w.second.poll(out) == 1);
    BOOST_TEST(out[0].status == IBV_WC_SUCCESS);
    ibv_async_event event{};
    BOOST_TEST(fake::api().get_async_event(w.device.context(), &event) == 0);
    BOOST_TEST(event.event_type == IBV_EVENT_WQ_FATAL);
    BOOST_TEST(event.element.wq == a.get());
    BOOST_TEST(post(a, w.region.local_key()) == 0); // as a pair in error
    BOOST_TEST(only_status(w) == IBV_WC_WR_FLUSH_ERR);
    BOOST_TEST(a.start() == EINVAL); // by RESET alone
    BOOST_TEST(a.reset() == 0);
    BOOST_TEST(w.nic.violations().size() == 1u);
    BOOST_TEST(post(a, w.region.local_key()) == EINVAL);
    BOOST_TEST(w.nic.violations().size() == 2u);
    BOOST_TEST(a.start() == 0);
    BOOST_TEST(post(a, w.region.local_key()) == 0);
    w.nic.deliver(udp_frame(ours, peer, flow[0], host, 7));
    BOOST_TEST(only_status(w) == IBV_WC_SUCCESS);
}

BOOST_AUTO_TEST_CASE(a_completion_queue_that_a_test_has_shrunk_overruns_and_may_keep_silent) {
    for (const bool quietly : {false, true}) {
        raw_world w;
        verbs::completion_queue untouched(w.device, {.entries = 2});
        w.nic.shrink_completion_queues(2, quietly);
        for (int i = 0; i < 3; ++i) w.send(60);
        std::array<ibv_wc, 8> out;
        BOOST_TEST(w.queue.poll(out) == (quietly ? 0 : -1));
        ibv_async_event event{};
        BOOST_TEST(fake::api().get_async_event(w.device.context(), &event) == 0);
        BOOST_TEST(event.event_type == IBV_EVENT_CQ_ERR);
        BOOST_TEST(event.element.cq == w.queue.get());
        BOOST_TEST(untouched.poll(out) == 0);
        BOOST_TEST(w.nic.violations().empty()); // the test's own doing
    }
}

BOOST_AUTO_TEST_CASE(frames_too_short_or_too_long_are_not_sent) {
    raw_world w;
    w.send(13);
    BOOST_TEST(only_status(w) == IBV_WC_LOC_LEN_ERR);
    raw_world second({.name = "fake1"});
    second.send(1519);
    BOOST_TEST(only_status(second) == IBV_WC_LOC_LEN_ERR);
}

BOOST_AUTO_TEST_CASE(what_no_rule_matches_is_the_kernels) {
    raw_world w;
    std::size_t kernel = 0;
    w.nic.on_kernel_frame([&](byte_span) { ++kernel; });
    w.receive(2048);
    const verbs::flow_rule rule(fake::api(), w.pair.get(), {.destination_mac = ours, .destination = host});
    w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
    w.nic.deliver(udp_frame(ours, peer, 1, ipv4(10, 0, 0, 9), 2));
    BOOST_TEST(kernel == 1u);
    const auto done = w.poll();
    BOOST_REQUIRE(done.size() == 1u);
    BOOST_TEST(done[0].byte_len == 60u);
    BOOST_TEST(std::memcmp(w.memory.data() + 8192, udp_frame(ours, peer, 1, host, 2).data(), 60) == 0);
}

BOOST_AUTO_TEST_CASE(a_copying_rule_leaves_the_kernel_its_frame_and_five_fields_match_exactly) {
    raw_world w;
    for (int i = 0; i < 8; ++i) w.receive(2048);
    verbs::flow_match exact{.destination_mac = ours, .source = peer, .destination = host, .protocol = 17, .source_port = 1,
                            .destination_port = 2};
    const verbs::flow_rule rule(fake::api(), w.pair.get(), exact);
    const verbs::flow_rule arp(fake::api(), w.pair.get(), {.ether_type = 0x0806}, {.copy = true});
    w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
    w.nic.deliver(udp_frame(ours, peer, 1, host, 3));
    std::vector<std::byte> request(60);
    store_be16(request.data() + 12, 0x0806);
    w.nic.deliver(request);
    BOOST_TEST(w.poll().size() == 2u);
    BOOST_TEST(w.nic.statistics().to_kernel == 2u);
    BOOST_TEST(mentions(sentence_of([&] { verbs::flow_rule(fake::api(), w.pair.get(), exact); }), "UDP from 10.0.0.2:1 to 10.0.0.1:2"));
}

BOOST_AUTO_TEST_CASE(rules_of_ipv6_take_ipv6_alone_and_both_families_in_one_hash_are_refused) {
    raw_world w;
    for (int i = 0; i < 8; ++i) w.receive(2048);
    const ipv6 six_host = *ipv6::parse("2001:db8::1"), six_peer = *ipv6::parse("2001:db8::2");
    verbs::flow_match exact{.destination_mac = ours, .source = six_peer, .destination = six_host, .protocol = 17, .source_port = 1,
                            .destination_port = 2};
    const verbs::flow_rule rule(fake::api(), w.pair.get(), exact);
    w.nic.deliver(udp_frame(ours, six_peer, 1, six_host, 2));
    w.nic.deliver(udp_frame(ours, six_peer, 1, six_host, 3));              // another port
    w.nic.deliver(udp_frame(ours, six_peer, 1, *ipv6::parse("2001:db8::3"), 2)); // another address
    w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
    BOOST_TEST(w.poll().size() == 1u);
    const verbs::flow_rule any_udp(fake::api(), w.pair.get(), {.over_ipv6 = true, .protocol = 17}, {.priority = 1});
    w.nic.deliver(udp_frame(ours, six_peer, 1, six_host, 3));
    w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
    BOOST_TEST(w.poll().size() == 1u);
    BOOST_TEST(w.nic.statistics().to_kernel == 4u);
    const std::string again = sentence_of([&] { verbs::flow_rule(fake::api(), w.pair.get(), exact); });
    BOOST_TEST(mentions(again, "UDP from [2001:db8::2]:1 to [2001:db8::1]:2"));
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(what_lies_between_the_fields_of_a_rule_means_nothing) {
    raw_world w;
    w.receive(2048);
    struct {
        ibv_flow_attr rule;
        ibv_flow_spec_eth ethernet;
        ibv_flow_spec_ipv6 ip;
    } made;
    const ipv6 six_host = *ipv6::parse("2001:db8::1"), six_peer = *ipv6::parse("2001:db8::2");
    const auto make = [&](int between) {
        std::memset(&made, between, sizeof made);
        made.rule.comp_mask = made.rule.flags = 0;
        made.rule.type = IBV_FLOW_ATTR_NORMAL;
        made.rule.size = sizeof made;
        made.rule.priority = 0;
        made.rule.num_of_specs = 2;
        made.rule.port = 1;
        made.ethernet.type = IBV_FLOW_SPEC_ETH;
        made.ethernet.size = sizeof made.ethernet;
        made.ethernet.val = made.ethernet.mask = {};
        made.ip.type = IBV_FLOW_SPEC_IPV6;
        made.ip.size = sizeof made.ip;
        for (auto* part : {&made.ip.val, &made.ip.mask}) {
            std::memset(part->src_ip, 0, sizeof part->src_ip);
            std::memset(part->dst_ip, 0, sizeof part->dst_ip);
            part->flow_label = 0;
            part->next_hdr = part->traffic_class = part->hop_limit = 0;
        }
        six_host.store(reinterpret_cast<std::byte*>(made.ip.val.dst_ip));
        std::memset(made.ip.mask.dst_ip, 0xff, sizeof made.ip.mask.dst_ip);
        return fake::api().create_flow(w.pair.get(), &made.rule);
    };
    ibv_flow* const one = make(0xa5);
    BOOST_REQUIRE(one != nullptr);
    BOOST_TEST(make(0x3c) == nullptr);
    BOOST_TEST(errno == EEXIST);
    w.nic.deliver(udp_frame(ours, six_peer, 1, six_host, 2));
    BOOST_TEST(w.poll().size() == 1u);
    BOOST_TEST(fake::api().destroy_flow(one) == 0);
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_frame_for_which_nothing_is_posted_is_lost_and_counted) {
    raw_world w;
    const verbs::flow_rule rule(fake::api(), w.pair.get(), {.destination_mac = ours});
    w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
    BOOST_TEST(w.nic.statistics().no_receive == 1u);
    BOOST_TEST(w.poll().empty());
}

BOOST_AUTO_TEST_CASE(a_buffer_that_is_too_small_fails_the_pair) {
    raw_world w;
    const verbs::flow_rule rule(fake::api(), w.pair.get(), {.destination_mac = ours});
    w.receive(40);
    w.receive(2048, 7);
    w.nic.deliver(udp_frame(ours, peer, 1, host, 2));
    const auto done = w.poll();
    BOOST_REQUIRE(done.size() == 2u);
    BOOST_TEST(done[0].status == IBV_WC_LOC_LEN_ERR);
    BOOST_TEST(done[1].status == IBV_WC_WR_FLUSH_ERR);
    BOOST_TEST(done[1].wr_id == 7u);
    BOOST_TEST(*w.pair.state() == IBV_QPS_ERR);
}

BOOST_AUTO_TEST_CASE(checksums_are_completed_on_the_way_out_and_judged_on_the_way_in) {
    raw_world w;
    std::vector<std::byte> sent;
    w.nic.on_sent_frame([&](byte_span f) { sent.assign(f.begin(), f.end()); });
    const auto frame = udp_frame(ours, peer, 1, host, 2);
    std::memcpy(w.memory.data(), frame.data(), frame.size());
    w.send(static_cast<std::uint32_t>(frame.size()), IBV_SEND_IP_CSUM);
    BOOST_TEST(sent != frame);
    const verbs::flow_rule rule(fake::api(), w.pair.get(), {.destination_mac = ours});
    w.receive(2048);
    w.receive(2048);
    w.nic.deliver(sent);
    sent.back() ^= std::byte{1};
    w.nic.deliver(sent);
    const auto done = w.poll();
    BOOST_REQUIRE(done.size() == 2u);
    BOOST_TEST((done[0].wc_flags & IBV_WC_IP_CSUM_OK) != 0u);
    BOOST_TEST((done[1].wc_flags & IBV_WC_IP_CSUM_OK) == 0u);
}

BOOST_AUTO_TEST_CASE(flows_are_spread_by_the_toeplitz_hash) {
    spread_world w(256, 8);
    std::array<unsigned, 2> expected{};
    for (verbs::receive_work_queue* q : {&w.a, &w.b}) {
        verbs::receive_chain chain(128, w.region.local_key());
        while (!chain.full()) chain.add(0, w.memory.data(), 2048);
        BOOST_TEST(chain.post([&](auto* first, auto** bad) { return q->post(first, bad); }).error == 0);
    }
    for (std::uint16_t port = 1000; port < 1100; ++port) {
        w.nic.deliver(udp_frame(ours, peer, port, host, 7));
        ++expected[rss::symmetric.hash(peer, port, host, 7) % 8 % 2];
    }
    std::array<ibv_wc, 128> out;
    BOOST_TEST(w.queue.poll(out) == static_cast<int>(expected[0]));
    BOOST_TEST(w.second.poll(out) == static_cast<int>(expected[1]));
    BOOST_TEST(expected[0] * expected[1] != 0u);
    BOOST_TEST(w.nic.violations().empty());
}

BOOST_AUTO_TEST_CASE(a_large_segment_is_cut_as_hardware_cuts_it) {
    raw_world w({}, {.segmentation_header = 64});
    std::vector<std::vector<std::byte>> sent;
    w.nic.on_sent_frame([&](byte_span f) { sent.emplace_back(f.begin(), f.end()); });
    auto headers = udp_frame(ours, peer, 1, host, 2, 12); // 54 bytes: as many as Ethernet, IPv4 and TCP have
    headers[14 + 9] = std::byte{6};
    store_be32(headers.data() + 38, 1000);
    headers[46] = std::byte{0x50};
    headers[47] = std::byte{0x19}; // ACK, PSH, FIN
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(w.memory.data()), 3000, w.region.local_key()};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_TSO;
    wr.sg_list = &piece;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM;
    wr.tso.hdr = headers.data();
    wr.tso.hdr_sz = 54;
    wr.tso.mss = 1400;
    ibv_send_wr* bad = nullptr;
    BOOST_TEST(w.pair.post_send(&wr, &bad) == 0);
    BOOST_REQUIRE(sent.size() == 3u);
    BOOST_TEST(sent[0].size() == 1454u);
    BOOST_TEST(sent[2].size() == 254u);
    BOOST_TEST(load_be32(sent[2].data() + 38) == 3800u);
    BOOST_TEST((sent[0][47] == std::byte{0x10}));
    BOOST_TEST((sent[2][47] == std::byte{0x19}));
}

BOOST_AUTO_TEST_SUITE_END()
