// RC queue pairs of the fake: what two of them do to each other, and what a device refuses, each with the status that belongs to it.
#include "tests/rdma/support.hh"
#include "tests/rdma/work_requests.hh"

using namespace corewire;
using namespace corewire::test;

namespace {

constexpr unsigned everything = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

struct how {
    unsigned allowed = everything; ///< of the queue pair, to its peer
    std::uint8_t reads_served = 4, reads_asked = 4, not_ready_retries = 0;
};

/// A NIC with one RC queue pair.
struct connected_end {
    connected_end(const std::string& name, ipv4 ours, bool windows = true, std::function<time_point()> clock = {})
        : nic({.name = name, .mac = mac_address(0x02'00'00'00'00'00 | ours.value()), .addresses = {ours}, .windows = windows,
               .clock = std::move(clock)}),
          device(verbs::device::open(name, fake::api())), address(device.address_for(ours)), domain(device), memory(16384),
          region(domain, memory, static_cast<verbs::access>(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | everything)),
          queue(device, {.entries = 64}), pair(domain, {.type = verbs::transport::reliable_connection, .sends = &queue,
                                                        .receives = &queue, .max_sends = 16, .max_receives = 16, .inline_bytes = 64}) {}
    void connect(const connected_end& to, how h = {}) {
        verbs::connection_parameters p;
        p.gid_index = static_cast<std::uint8_t>(address.index);
        p.remote_access = h.allowed;
        p.reads_as_responder = h.reads_served;
        p.reads_as_initiator = h.reads_asked;
        p.receiver_not_ready_retries = h.not_ready_retries;
        pair.activate({.queue_pair = to.pair.number(), .gid = to.address.gid}, p);
    }
    ibv_sge piece(std::size_t offset, std::uint32_t size) {
        return {reinterpret_cast<std::uintptr_t>(memory.data() + offset), size, region.local_key()};
    }
    std::uint64_t at(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(memory.data() + offset); }
    int receive(std::size_t offset, std::uint32_t size, std::uint64_t id = 5) {
        return test::post_receive(pair, piece(offset, size), id);
    }
    template <typename Patch>
    int post(ibv_sge one, ibv_wr_opcode what, Patch patch) {
        return test::post_send(pair, one, [&](ibv_send_wr& wr) {
            wr.opcode = what;
            patch(wr);
        });
    }
    int send(std::uint32_t size) {
        return post(piece(0, size), IBV_WR_SEND, [](ibv_send_wr&) {});
    }
    int remote(ibv_wr_opcode what, std::uint32_t size, std::uint64_t where, std::uint32_t key, std::size_t ours = 0) {
        return post(piece(ours, size), what, [&](ibv_send_wr& wr) { wr.wr.rdma = {where, key}; });
    }
    int atomic(ibv_wr_opcode what, std::uint64_t where, std::uint32_t key, std::uint64_t operand, std::uint64_t swap = 0) {
        return post(piece(0, 8), what, [&](ibv_send_wr& wr) { wr.wr.atomic = {where, operand, swap, key}; });
    }
    int bind(ibv_mw* window, std::uint32_t key, std::uint64_t where, std::uint64_t size, unsigned access) {
        return post({}, IBV_WR_BIND_MW, [&](ibv_send_wr& wr) {
            wr.num_sge = 0;
            wr.bind_mw = {window, key, {region.get(), where, size, access}};
        });
    }
    int withdraw(std::uint32_t key) {
        return post({}, IBV_WR_LOCAL_INV, [&](ibv_send_wr& wr) {
            wr.num_sge = 0;
            wr.invalidate_rkey = key;
        });
    }
    std::vector<ibv_wc> poll() { return test::completions(queue); }
    ibv_wc next() { return test::only_completion(queue); }
    ibv_wc_status status() { return next().status; }

    fake::nic nic;
    verbs::device device;
    verbs::port_address address;
    verbs::protection_domain domain;
    std::vector<std::byte> memory;
    verbs::memory_region region;
    verbs::completion_queue queue;
    verbs::queue_pair pair;
};

struct two_ends {
    explicit two_ends(how of_a = {}, how of_b = {}) {
        a.connect(b, of_a);
        b.connect(a, of_b);
        for (std::size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<std::byte>(i * 7);
    }
    /// a's request has been refused with this, and neither queue pair does anything any more.
    void expect_end(ibv_wc_status of_a) {
        BOOST_TEST(a.status() == of_a);
        BOOST_TEST(*a.pair.state() == IBV_QPS_ERR);
        BOOST_TEST(*b.pair.state() == IBV_QPS_ERR);
        BOOST_TEST(a.nic.violations().empty());
        BOOST_TEST(b.nic.violations().empty());
    }
    connected_end a{"fake_a", ipv4(192, 0, 2, 1)}, b{"fake_b", ipv4(192, 0, 2, 2)};
};

} // namespace

BOOST_AUTO_TEST_SUITE(connected)

BOOST_AUTO_TEST_CASE(a_message_comes_whole_with_its_immediate_data) {
    two_ends w;
    BOOST_TEST(w.b.receive(8192, 1000) == 0);
    w.a.post(w.a.piece(0, 500), IBV_WR_SEND_WITH_IMM, [](ibv_send_wr& wr) { wr.imm_data = host_to_be(std::uint32_t{77}); });
    BOOST_TEST(w.a.status() == IBV_WC_SUCCESS);
    const ibv_wc got = w.b.next();
    BOOST_TEST(got.status == IBV_WC_SUCCESS);
    BOOST_TEST(got.opcode == IBV_WC_RECV);
    BOOST_TEST(got.byte_len == 500u);
    BOOST_TEST(got.wr_id == 5u);
    BOOST_TEST(got.imm_data == host_to_be(std::uint32_t{77}));
    BOOST_TEST(std::memcmp(w.b.memory.data() + 8192, w.a.memory.data(), 500) == 0);
}

BOOST_AUTO_TEST_CASE(remote_memory_is_written_read_and_changed) {
    two_ends w;
    const std::uint32_t key = w.b.region.remote_key();
    w.a.remote(IBV_WR_RDMA_WRITE, 300, w.b.at(4096), key);
    BOOST_TEST(w.a.next().opcode == IBV_WC_RDMA_WRITE);
    BOOST_TEST(std::memcmp(w.b.memory.data() + 4096, w.a.memory.data(), 300) == 0);
    w.a.remote(IBV_WR_RDMA_READ, 300, w.b.at(4096), key, 8192);
    const ibv_wc read = w.a.next();
    BOOST_TEST(read.opcode == IBV_WC_RDMA_READ);
    BOOST_TEST(read.byte_len == 300u);
    BOOST_TEST(std::memcmp(w.a.memory.data() + 8192, w.a.memory.data(), 300) == 0);

    const auto found = [&] {
        std::uint64_t v = 0;
        BOOST_REQUIRE(w.a.status() == IBV_WC_SUCCESS);
        std::memcpy(&v, w.a.memory.data(), 8);
        return v;
    };
    const std::uint64_t forty = 40;
    std::memcpy(w.b.memory.data() + 64, &forty, 8);
    w.a.atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, w.b.at(64), key, 2);
    BOOST_TEST(found() == 40u);
    w.a.atomic(IBV_WR_ATOMIC_CMP_AND_SWP, w.b.at(64), key, 41, 7);
    BOOST_TEST(found() == 42u);
    w.a.atomic(IBV_WR_ATOMIC_CMP_AND_SWP, w.b.at(64), key, 42, 7);
    BOOST_TEST(found() == 42u);
    w.a.atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, w.b.at(64), key, 0);
    BOOST_TEST(found() == 7u);

    w.b.receive(0, 0);
    w.a.post(w.a.piece(0, 100), IBV_WR_RDMA_WRITE_WITH_IMM, [&](ibv_send_wr& wr) {
        wr.imm_data = host_to_be(std::uint32_t{9});
        wr.wr.rdma = {w.b.at(5000), key};
    });
    BOOST_TEST(w.a.status() == IBV_WC_SUCCESS);
    const ibv_wc told = w.b.next();
    BOOST_TEST(told.opcode == IBV_WC_RECV_RDMA_WITH_IMM);
    BOOST_TEST(told.byte_len == 100u);
    BOOST_TEST(told.imm_data == host_to_be(std::uint32_t{9}));
    BOOST_TEST(w.a.nic.statistics().requests_served == 7u);
}

BOOST_AUTO_TEST_CASE(a_write_of_nothing_asks_for_no_key_and_uses_up_no_receive) {
    two_ends w;
    w.a.post({}, IBV_WR_RDMA_WRITE, [](ibv_send_wr& wr) { wr.num_sge = 0; });
    BOOST_TEST(w.a.status() == IBV_WC_SUCCESS);
    BOOST_TEST(w.b.poll().empty());
}

BOOST_AUTO_TEST_CASE(a_key_that_there_is_not_or_of_another_domain_ends_both) {
    {
        two_ends w;
        w.a.remote(IBV_WR_RDMA_WRITE, 8, w.b.at(0), 0x12345678);
        w.expect_end(IBV_WC_REM_ACCESS_ERR);
    }
    two_ends w;
    const verbs::protection_domain other(w.b.device);
    std::vector<std::byte> memory(64);
    const verbs::memory_region foreign(other, memory, verbs::access::local_write | verbs::access::remote_read);
    w.a.remote(IBV_WR_RDMA_READ, 8, reinterpret_cast<std::uintptr_t>(memory.data()), foreign.remote_key());
    w.expect_end(IBV_WC_REM_ACCESS_ERR);
}

BOOST_AUTO_TEST_CASE(a_range_beyond_its_region_ends_both) {
    for (const auto& [offset, size] : {std::pair<std::int64_t, std::uint32_t>{-1, 8}, {16384 - 7, 8}, {16384, 1}, {0, 16385}}) {
        two_ends w;
        std::vector<std::byte> ours(20'000);
        const verbs::memory_region enough(w.a.domain, ours, verbs::access::local_write);
        const ibv_sge into{reinterpret_cast<std::uintptr_t>(ours.data()), size, enough.local_key()};
        w.a.post(into, IBV_WR_RDMA_READ, [&, off = offset](ibv_send_wr& wr) {
            wr.wr.rdma = {w.b.at(0) + static_cast<std::uint64_t>(off), w.b.region.remote_key()};
        });
        w.expect_end(IBV_WC_REM_ACCESS_ERR);
    }
}

BOOST_AUTO_TEST_CASE(what_region_or_queue_pair_does_not_allow_ends_both) {
    const auto ask = [](two_ends& w, ibv_wr_opcode what, std::uint64_t where, std::uint32_t key) {
        if (what == IBV_WR_ATOMIC_FETCH_AND_ADD) w.a.atomic(what, where, key, 1);
        else w.a.remote(what, 8, where, key);
    };
    const std::array<std::pair<ibv_wr_opcode, unsigned>, 3> all{{{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
                                                                 {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
                                                                 {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC}}};
    for (const auto& [what, needs] : all) {
        two_ends by_pair({}, {.allowed = everything & ~needs});
        ask(by_pair, what, by_pair.b.at(0), by_pair.b.region.remote_key());
        by_pair.expect_end(IBV_WC_REM_ACCESS_ERR);

        two_ends by_region;
        std::vector<std::byte> memory(64);
        const verbs::memory_region less(by_region.b.domain, memory,
                                        static_cast<verbs::access>(IBV_ACCESS_LOCAL_WRITE | (everything & ~needs)));
        ask(by_region, what, (reinterpret_cast<std::uintptr_t>(memory.data()) + 7) & ~std::uintptr_t{7}, less.remote_key());
        by_region.expect_end(IBV_WC_REM_ACCESS_ERR);
    }
}

BOOST_AUTO_TEST_CASE(an_atomic_on_what_is_not_aligned_ends_both) {
    two_ends w;
    w.a.atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, (w.b.at(64) & ~std::uint64_t{7}) + 4, w.b.region.remote_key(), 1);
    w.expect_end(IBV_WC_REM_INV_REQ_ERR);
}

BOOST_AUTO_TEST_CASE(a_message_longer_than_the_receive_ends_both) {
    two_ends w;
    w.b.receive(8192, 99);
    w.a.send(100);
    BOOST_TEST(w.b.status() == IBV_WC_LOC_LEN_ERR);
    w.expect_end(IBV_WC_REM_INV_REQ_ERR);
}

BOOST_AUTO_TEST_CASE(a_receiver_that_is_not_ready_is_asked_again_as_often_as_was_said) {
    {
        two_ends w;
        w.a.send(10);
        BOOST_TEST(w.a.status() == IBV_WC_RNR_RETRY_EXC_ERR);
        BOOST_TEST(*w.b.pair.state() == IBV_QPS_RTS); // it has done nothing wrong
    }
    {
        two_ends w({.not_ready_retries = 3});
        w.a.send(10);
        w.a.remote(IBV_WR_RDMA_WRITE, 8, w.b.at(0), w.b.region.remote_key());
        for (int i = 0; i < 3; ++i) BOOST_TEST(w.a.poll().empty());
        const auto done = w.a.poll();
        BOOST_REQUIRE(done.size() == 2u);
        BOOST_TEST(done[0].status == IBV_WC_RNR_RETRY_EXC_ERR);
        BOOST_TEST(done[1].status == IBV_WC_WR_FLUSH_ERR); // it stood behind
    }
    two_ends w({.not_ready_retries = 7});
    w.a.send(10);
    w.a.send(20);
    std::memset(w.a.memory.data(), 0xff, 20); // too late: it has been read
    for (int i = 0; i < 50; ++i) BOOST_TEST(w.a.poll().empty());
    w.b.receive(8192, 100);
    BOOST_TEST(w.a.status() == IBV_WC_SUCCESS);
    BOOST_TEST(w.b.next().byte_len == 10u);
    BOOST_TEST((w.b.memory[8193] == std::byte{7}));
    w.b.receive(8192, 100);
    BOOST_TEST(w.a.status() == IBV_WC_SUCCESS);
    BOOST_TEST(w.b.next().byte_len == 20u);
}

BOOST_AUTO_TEST_CASE(reads_beyond_what_either_end_was_made_for_are_refused) {
    two_ends unready({.reads_asked = 0});
    unready.a.remote(IBV_WR_RDMA_READ, 8, unready.b.at(0), unready.b.region.remote_key());
    BOOST_TEST(unready.a.status() == IBV_WC_LOC_QP_OP_ERR);
    BOOST_TEST(unready.a.nic.violations().size() == 1u);

    two_ends w({.reads_asked = 4}, {.reads_served = 2});
    for (int i = 0; i < 3; ++i) w.a.remote(IBV_WR_RDMA_READ, 8, w.b.at(0), w.b.region.remote_key(), 8192);
    const auto done = w.a.poll();
    BOOST_REQUIRE(done.size() == 3u);
    BOOST_TEST(done[1].status == IBV_WC_SUCCESS);
    BOOST_TEST(done[2].status == IBV_WC_REM_INV_REQ_ERR);

    two_ends within({.reads_asked = 2}, {.reads_served = 2});
    for (int i = 0; i < 8; ++i) within.a.remote(IBV_WR_RDMA_READ, 8, within.b.at(0), within.b.region.remote_key(), 8192);
    for (const ibv_wc& each : within.a.poll()) BOOST_TEST(each.status == IBV_WC_SUCCESS); // the device keeps to its own limit
}

BOOST_AUTO_TEST_CASE(nobody_answers_for_a_peer_that_is_gone_failed_or_connected_to_another) {
    const auto unanswered = [](two_ends& w) {
        w.a.remote(IBV_WR_RDMA_WRITE, 8, w.b.at(0), w.b.region.remote_key());
        BOOST_TEST(w.a.status() == IBV_WC_RETRY_EXC_ERR);
        BOOST_TEST(*w.a.pair.state() == IBV_QPS_ERR);
    };
    {
        two_ends w;
        w.b.pair.to_error();
        unanswered(w);
    }
    {
        two_ends w;
        w.b.pair.to_reset();
        unanswered(w);
    }
    {
        two_ends w;
        w.b.nic.set_link(false);
        unanswered(w);
    }
    {
        two_ends w;
        w.b.nic.mute_queue_pair(w.b.pair.number());
        unanswered(w);
    }
    two_ends elsewhere;
    connected_end third("fake_c", ipv4(192, 0, 2, 3));
    third.connect(elsewhere.b);
    third.remote(IBV_WR_RDMA_WRITE, 8, elsewhere.b.at(0), elsewhere.b.region.remote_key());
    BOOST_TEST(third.status() == IBV_WC_RETRY_EXC_ERR);
    BOOST_TEST(*elsewhere.b.pair.state() == IBV_QPS_RTS);
}

BOOST_AUTO_TEST_CASE(with_a_clock_what_nobody_answers_is_given_up_when_its_retries_are_over) {
    time_point now{};
    const auto clock = [&] { return now; };
    fake::nic there({.name = "fake_c", .mac = mac_address(0x02'00'00'00'00'33), .addresses = {ipv4(192, 0, 2, 3)}, .clock = clock});
    connected_end peer("fake_b", ipv4(192, 0, 2, 2));
    const auto device = verbs::device::open("fake_c", fake::api());
    const verbs::protection_domain domain(device);
    verbs::completion_queue queue(device, {.entries = 64});
    verbs::queue_pair pair(domain, {.type = verbs::transport::reliable_connection, .sends = &queue, .receives = &queue,
                                    .max_sends = 16, .max_receives = 16});
    const auto address = device.address_for(ipv4(192, 0, 2, 3));
    verbs::connection_parameters p;
    p.gid_index = static_cast<std::uint8_t>(address.index);
    p.timeout = 10; // 4.2 ms a try
    p.retries = 1;
    pair.activate({.queue_pair = peer.pair.number(), .gid = peer.address.gid}, p);
    const auto ask = [&] {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_WRITE;
        wr.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr* bad = nullptr;
        BOOST_TEST(pair.post_send(&wr, &bad) == 0);
    };
    std::array<ibv_wc, 4> out;
    ask();
    now += std::chrono::milliseconds{8};
    BOOST_TEST(queue.poll(out) == 0);
    verbs::connection_parameters back;
    back.gid_index = static_cast<std::uint8_t>(peer.address.index);
    peer.pair.activate({.queue_pair = pair.number(), .gid = address.gid}, back); // in time
    BOOST_TEST(queue.poll(out) == 1);
    BOOST_TEST(out[0].status == IBV_WC_SUCCESS);
    peer.pair.to_reset();
    ask();
    now += std::chrono::milliseconds{9};
    BOOST_TEST(queue.poll(out) == 1);
    BOOST_TEST(out[0].status == IBV_WC_RETRY_EXC_ERR);
}

BOOST_AUTO_TEST_CASE(when_a_queue_pair_fails_all_that_it_holds_is_flushed_and_so_is_what_comes_later) {
    two_ends w({.not_ready_retries = 7});
    w.a.receive(8192, 100, 1);
    w.a.send(10);
    w.a.pair.to_error();
    w.a.send(10);
    w.a.receive(8192, 100, 2);
    const auto done = w.a.poll();
    BOOST_TEST(done.size() == 4u);
    for (const ibv_wc& each : done) BOOST_TEST(each.status == IBV_WC_WR_FLUSH_ERR);
}

BOOST_AUTO_TEST_CASE(memory_of_ours_that_is_not_registered_or_not_for_writing_fails_the_sender_alone) {
    for (const ibv_wr_opcode what : {IBV_WR_SEND, IBV_WR_RDMA_READ}) {
        two_ends w;
        std::vector<std::byte> ours(64);
        const verbs::memory_region readable(w.a.domain, ours, static_cast<verbs::access>(0));
        w.b.receive(8192, 100);
        const ibv_sge wrong{reinterpret_cast<std::uintptr_t>(ours.data()), 8, what == IBV_WR_SEND ? 0x77777777 : readable.local_key()};
        w.a.post(wrong, what, [&](ibv_send_wr& wr) { wr.wr.rdma = {w.b.at(0), w.b.region.remote_key()}; });
        BOOST_TEST(w.a.status() == IBV_WC_LOC_PROT_ERR);
        BOOST_TEST(*w.b.pair.state() == IBV_QPS_RTS);
        BOOST_TEST(w.a.nic.violations().size() == 1u);
    }
}

BOOST_AUTO_TEST_CASE(an_acknowledgement_that_is_lost_leaves_what_was_done) {
    two_ends w;
    w.a.nic.lose_acknowledgements(1);
    w.a.remote(IBV_WR_RDMA_WRITE, 64, w.b.at(4096), w.b.region.remote_key());
    BOOST_TEST(w.a.status() == IBV_WC_RETRY_EXC_ERR);
    BOOST_TEST(std::memcmp(w.b.memory.data() + 4096, w.a.memory.data(), 64) == 0);
    BOOST_TEST(*w.b.pair.state() == IBV_QPS_RTS);
}

BOOST_AUTO_TEST_CASE(with_a_clock_what_was_done_and_whose_acknowledgement_is_lost_is_done_once_and_given_up_in_time) {
    time_point now{};
    connected_end a("fake_a", ipv4(192, 0, 2, 1), true, [&] { return now; }), b("fake_b", ipv4(192, 0, 2, 2));
    a.connect(b);
    b.connect(a);
    for (int i = 0; i < 3; ++i) b.receive(8192, 100);
    a.nic.lose_acknowledgements(1);
    a.send(10);
    a.send(20); // waits behind it
    for (int i = 0; i < 3; ++i) BOOST_TEST(a.poll().empty());
    BOOST_TEST(b.next().byte_len == 10u);
    now += std::chrono::hours{1};
    const auto done = a.poll();
    BOOST_REQUIRE(done.size() == 2u);
    BOOST_TEST(done[0].status == IBV_WC_RETRY_EXC_ERR);
    BOOST_TEST(done[1].status == IBV_WC_WR_FLUSH_ERR);
    BOOST_TEST(b.poll().empty());
    BOOST_TEST(a.nic.statistics().requests_served == 1u);
}

BOOST_AUTO_TEST_CASE(a_queue_pair_connected_to_itself_that_refuses_its_own_message_fails_once) {
    connected_end a("fake_a", ipv4(192, 0, 2, 1));
    a.connect(a, {.not_ready_retries = 7});
    a.send(100);
    a.send(10);
    BOOST_TEST(a.poll().empty());
    a.receive(8192, 50); // too short for the first
    const auto done = a.poll();
    BOOST_REQUIRE(done.size() == 3u);
    BOOST_TEST(done[0].status == IBV_WC_LOC_LEN_ERR);
    BOOST_TEST(done[1].status == IBV_WC_REM_INV_REQ_ERR);
    BOOST_TEST(done[2].status == IBV_WC_WR_FLUSH_ERR);
    BOOST_TEST(*a.pair.state() == IBV_QPS_ERR);
}

BOOST_AUTO_TEST_CASE(a_window_opens_its_stretch_to_one_queue_pair_until_it_is_withdrawn) {
    two_ends w;
    ibv_mw* const window = ::ibv_alloc_mw(w.b.pair.get()->pd, IBV_MW_TYPE_2);
    BOOST_REQUIRE(window != nullptr);
    const std::uint32_t key = ::ibv_inc_rkey(window->rkey);
    w.b.bind(window, key, w.b.at(4096), 100, IBV_ACCESS_REMOTE_READ);
    BOOST_TEST(w.b.next().opcode == IBV_WC_BIND_MW);
    w.a.remote(IBV_WR_RDMA_READ, 100, w.b.at(4096), key, 8192);
    BOOST_TEST(w.a.status() == IBV_WC_SUCCESS);
    w.b.withdraw(key);
    BOOST_TEST(w.b.next().opcode == IBV_WC_LOCAL_INV);
    const std::uint32_t next = ::ibv_inc_rkey(key);
    w.b.bind(window, next, w.b.at(4096), 100, IBV_ACCESS_REMOTE_READ);
    BOOST_TEST(w.b.status() == IBV_WC_SUCCESS);
    w.a.remote(IBV_WR_RDMA_READ, 100, w.b.at(4096), key, 8192); // the old one
    w.expect_end(IBV_WC_REM_ACCESS_ERR);
    BOOST_TEST(::ibv_dealloc_mw(window) == 0);
}

BOOST_AUTO_TEST_CASE(a_window_does_not_open_more_than_was_bound) {
    const auto ask = [](ibv_wr_opcode what, std::size_t offset, std::uint32_t size, bool other_pair) {
        two_ends w;
        connected_end third("fake_c", ipv4(192, 0, 2, 3));
        verbs::queue_pair second(w.b.domain, {.type = verbs::transport::reliable_connection, .sends = &w.b.queue,
                                              .receives = &w.b.queue, .max_sends = 16, .max_receives = 16});
        ibv_mw* const window = ::ibv_alloc_mw(w.b.pair.get()->pd, IBV_MW_TYPE_2);
        const std::uint32_t key = ::ibv_inc_rkey(window->rkey);
        w.b.bind(window, key, w.b.at(4096), 100, IBV_ACCESS_REMOTE_READ);
        BOOST_TEST(w.b.status() == IBV_WC_SUCCESS);
        if (other_pair) {
            verbs::connection_parameters p;
            p.gid_index = static_cast<std::uint8_t>(w.b.address.index);
            p.remote_access = everything;
            second.activate({.queue_pair = third.pair.number(), .gid = third.address.gid}, p);
            p.gid_index = static_cast<std::uint8_t>(third.address.index);
            third.pair.activate({.queue_pair = second.number(), .gid = w.b.address.gid}, p);
            third.remote(what, size, w.b.at(4096 + offset), key);
            BOOST_TEST(third.status() == IBV_WC_REM_ACCESS_ERR);
        } else {
            w.a.remote(what, size, w.b.at(4096 + offset), key, 8192);
            w.expect_end(IBV_WC_REM_ACCESS_ERR);
        }
        ::ibv_dealloc_mw(window);
    };
    ask(IBV_WR_RDMA_WRITE, 0, 8, false);
    ask(IBV_WR_RDMA_READ, 93, 8, false);
    ask(IBV_WR_RDMA_READ, 0, 101, false);
    ask(IBV_WR_RDMA_READ, 0, 8, true);
}

BOOST_AUTO_TEST_CASE(a_window_that_can_t_be_bound_fails_who_binds_it) {
    enum class fault { twice, same_key, beyond, other_window, read_only };
    for (const fault f : {fault::twice, fault::same_key, fault::beyond, fault::other_window, fault::read_only}) {
        two_ends w;
        ibv_mw* const window = ::ibv_alloc_mw(w.b.pair.get()->pd, IBV_MW_TYPE_2);
        ibv_mw* const other = ::ibv_alloc_mw(w.b.pair.get()->pd, IBV_MW_TYPE_2);
        std::uint32_t key = ::ibv_inc_rkey(window->rkey);
        std::uint64_t size = 100;
        if (f == fault::twice) {
            w.b.bind(window, key, w.b.at(0), size, IBV_ACCESS_REMOTE_READ);
            BOOST_TEST(w.b.status() == IBV_WC_SUCCESS);
            key = ::ibv_inc_rkey(key);
        }
        if (f == fault::same_key) key = window->rkey;
        if (f == fault::beyond) size = 16385;
        if (f == fault::other_window) key = ::ibv_inc_rkey(other->rkey);
        if (f == fault::read_only) {
            const verbs::memory_region less(w.b.domain, w.b.memory, static_cast<verbs::access>(IBV_ACCESS_MW_BIND));
            w.b.post({}, IBV_WR_BIND_MW, [&](ibv_send_wr& wr) {
                wr.num_sge = 0;
                wr.bind_mw = {window, key, {less.get(), w.b.at(0), size, IBV_ACCESS_REMOTE_WRITE}};
            });
        } else {
            w.b.bind(window, key, w.b.at(0), size, IBV_ACCESS_REMOTE_READ);
        }
        BOOST_TEST(w.b.status() == IBV_WC_MW_BIND_ERR);
        BOOST_TEST(w.b.nic.violations().size() == 1u);
        ::ibv_dealloc_mw(window);
        ::ibv_dealloc_mw(other);
    }
}

BOOST_AUTO_TEST_CASE(a_key_that_opens_nothing_can_t_be_withdrawn_and_what_windows_stand_on_can_t_go_before_them) {
    two_ends w;
    w.a.withdraw(0x4242);
    BOOST_TEST(w.a.status() == IBV_WC_LOC_QP_OP_ERR);
    ibv_mw* const window = ::ibv_alloc_mw(w.b.pair.get()->pd, IBV_MW_TYPE_2);
    w.b.bind(window, ::ibv_inc_rkey(window->rkey), w.b.at(0), 8, IBV_ACCESS_REMOTE_READ);
    BOOST_TEST(w.b.status() == IBV_WC_SUCCESS);
    BOOST_TEST(fake::api().dereg_mr(w.b.region.get()) == EBUSY);
    ::ibv_dealloc_mw(window);
    connected_end none("fake_c", ipv4(192, 0, 2, 3), false);
    BOOST_TEST((::ibv_alloc_mw(none.pair.get()->pd, IBV_MW_TYPE_2) == nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
