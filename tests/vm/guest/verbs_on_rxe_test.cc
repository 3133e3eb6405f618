// rdma/verbs against a real kernel driver (rdma_rxe): what the fake cannot prove.
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/rdma/verbs/async_events.hh>
#include <corewire/rdma/verbs/shared_receive_queue.hh>

#include "tests/vm/guest/child_program.hh"
#include "tests/vm/guest/rxe_pair.hh"

#include <algorithm>
#include <poll.h>

using namespace corewire;
using namespace corewire::test;

namespace {

template <typename Call>
std::string sentence_of(Call call) {
    try {
        call();
    } catch (const std::system_error& e) {
        return e.what();
    }
    return {};
}

void fill(rxe_end& end, std::size_t offset, std::size_t size, unsigned seed) {
    for (std::size_t i = 0; i < size; ++i) end.memory[offset + i] = static_cast<std::byte>(i * 7 + seed);
}
bool same(const rxe_end& a, std::size_t at, const rxe_end& b, std::size_t there, std::size_t size) {
    return std::memcmp(a.memory.data() + at, b.memory.data() + there, size) == 0;
}

/// The pair of `a`, with another one on the device of `b`.
void connect(rxe_end& a, const rxe_end& b, verbs::queue_pair& pair) {
    verbs::connection_parameters p;
    p.first_sequence = 7;
    p.gid_index = static_cast<std::uint8_t>(b.address.index);
    pair.activate(a.as_remote(), p);
    p.gid_index = static_cast<std::uint8_t>(a.address.index);
    a.pair.activate({.queue_pair = pair.number(), .first_sequence = 7, .gid = b.address.gid}, p);
}

const auto everything = verbs::access::local_write | verbs::access::remote_read | verbs::access::remote_write |
                        verbs::access::remote_atomic;

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_on_rxe)

BOOST_AUTO_TEST_CASE(both_devices_are_listed_with_their_addresses) {
    BOOST_TEST(verbs::device_names().size() == 2u);
    const auto device = verbs::device::open("rxe0");
    BOOST_TEST(device.port().state == IBV_PORT_ACTIVE);
    BOOST_TEST(verbs::bytes_of(device.port().active_mtu) == 1024u);
    const verbs::port_address address = device.address_for(address_of_rxe0);
    BOOST_TEST((address.as_ipv4() == address_of_rxe0));
    BOOST_TEST((address.type == IBV_GID_TYPE_ROCE_V2));
    BOOST_TEST(verbs::device::find_by_interface("v1").name == "rxe1");
}

BOOST_AUTO_TEST_CASE(a_device_or_an_address_that_is_not_there_is_said_with_those_that_are) {
    BOOST_TEST(sentence_of([] { verbs::device::open("mlx5_0"); }).find("rxe0") != std::string::npos);
    const auto device = verbs::device::open("rxe0");
    BOOST_TEST(sentence_of([&] { device.address_for(ipv4(198, 51, 100, 1)); }).find("192.0.2.1") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_message_crosses_a_reliable_connection) {
    connected_pair p;
    BOOST_TEST(*p.a.pair.state() == IBV_QPS_RTS);
    fill(p.a, 0, 3000, 1); // three packets of the path's MTU
    BOOST_TEST(p.b.receive(4096, 4096, 11) == 0);
    BOOST_TEST(p.a.send(0, 3000) == 0);
    BOOST_TEST(p.a.next().status == IBV_WC_SUCCESS);
    const ibv_wc got = p.b.next();
    BOOST_TEST(got.status == IBV_WC_SUCCESS);
    BOOST_TEST(got.wr_id == 11u);
    BOOST_TEST(got.byte_len == 3000u);
    BOOST_TEST(same(p.a, 0, p.b, 4096, 3000));
}

BOOST_AUTO_TEST_CASE(an_inline_send_frees_its_bytes_at_once) {
    connected_pair p;
    BOOST_REQUIRE(p.a.pair.capacity().max_inline_data >= 64u);
    fill(p.a, 0, 64, 3);
    fill(p.a, 1024, 64, 3);
    BOOST_TEST(p.b.receive(0, 64) == 0);
    BOOST_TEST(p.a.send(0, 64, [](ibv_send_wr& wr) { wr.send_flags |= IBV_SEND_INLINE; }) == 0);
    std::memset(p.a.memory.data(), 0, 64);
    BOOST_TEST(p.b.next().byte_len == 64u);
    BOOST_TEST(same(p.a, 1024, p.b, 0, 64));
}

BOOST_AUTO_TEST_CASE(writes_reads_and_atomics_reach_remote_memory) {
    connected_pair p(everything);
    const auto at = [&](std::size_t offset) { return reinterpret_cast<std::uintptr_t>(p.b.memory.data() + offset); };
    const std::uint32_t key = p.b.region.remote_key();
    fill(p.a, 0, 2000, 5);
    p.a.send(0, 2000, [&](ibv_send_wr& wr) { wr.opcode = IBV_WR_RDMA_WRITE, wr.wr.rdma = {at(4096), key}; });
    BOOST_TEST(p.a.next().status == IBV_WC_SUCCESS);
    BOOST_TEST(same(p.a, 0, p.b, 4096, 2000));

    p.a.send(4096, 2000, [&](ibv_send_wr& wr) { wr.opcode = IBV_WR_RDMA_READ, wr.wr.rdma = {at(4096), key}; });
    BOOST_TEST(p.a.next().status == IBV_WC_SUCCESS);
    BOOST_TEST(same(p.a, 4096, p.b, 4096, 2000));

    std::uint64_t value = 40;
    std::memcpy(p.b.memory.data(), &value, 8);
    p.a.send(0, 8, [&](ibv_send_wr& wr) { wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, wr.wr.atomic = {at(0), 2, 0, key}; });
    BOOST_TEST(p.a.next().status == IBV_WC_SUCCESS);
    std::uint64_t before = 0;
    std::memcpy(&before, p.a.memory.data(), 8);
    std::memcpy(&value, p.b.memory.data(), 8);
    BOOST_TEST(before == 40u);
    BOOST_TEST(value == 42u);
    p.a.send(0, 8, [&](ibv_send_wr& wr) { wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, wr.wr.atomic = {at(0), 42, 7, key}; });
    BOOST_TEST(p.a.next().status == IBV_WC_SUCCESS);
    std::memcpy(&value, p.b.memory.data(), 8);
    BOOST_TEST(value == 7u);
}

BOOST_AUTO_TEST_CASE(a_wrong_key_fails_the_pair_and_flushes_what_is_behind_it) {
    connected_pair p(everything);
    const auto at = reinterpret_cast<std::uintptr_t>(p.b.memory.data());
    p.a.send(0, 8, [&](ibv_send_wr& wr) { wr.opcode = IBV_WR_RDMA_WRITE, wr.wr.rdma = {at, p.b.region.remote_key() + 0x100}; });
    p.a.send(0, 8);
    BOOST_TEST(p.a.next().status == IBV_WC_REM_ACCESS_ERR);
    BOOST_TEST(p.a.next().status == IBV_WC_WR_FLUSH_ERR);
    BOOST_TEST(*p.a.pair.state() == IBV_QPS_ERR);
}

BOOST_AUTO_TEST_CASE(a_pair_in_error_flushes_its_receives_and_can_be_used_again_after_a_reset) {
    connected_pair p;
    BOOST_TEST(p.b.receive(0, 64, 5) == 0);
    p.b.pair.to_error();
    const ibv_wc flushed = p.b.next();
    BOOST_TEST(flushed.status == IBV_WC_WR_FLUSH_ERR);
    BOOST_TEST(flushed.wr_id == 5u);
    p.a.pair.to_reset();
    p.b.pair.to_reset();
    connected_pair::connect(p.a, p.b);
    connected_pair::connect(p.b, p.a);
    BOOST_TEST(p.b.receive(0, 64) == 0);
    BOOST_TEST(p.a.send(0, 10) == 0);
    BOOST_TEST(p.b.next().byte_len == 10u);
}

BOOST_AUTO_TEST_CASE(a_datagram_comes_with_its_header_and_is_answered_by_it) {
    rxe_end a("rxe0", address_of_rxe0, verbs::access::local_write, verbs::transport::unreliable_datagram);
    rxe_end b("rxe1", address_of_rxe1, verbs::access::local_write, verbs::transport::unreliable_datagram);
    a.pair.activate(verbs::datagram_parameters{});
    b.pair.activate(verbs::datagram_parameters{});
    const verbs::address_handle there(a.domain, {.gid = b.address.gid, .gid_index = static_cast<std::uint8_t>(a.address.index)});
    fill(a, 0, 500, 9);
    b.receive(0, 1064);
    a.send(0, 500, [&](ibv_send_wr& wr) { wr.wr.ud = {there.get(), b.pair.number(), 0x11111111}; });
    ibv_wc got = b.next();
    BOOST_TEST(got.byte_len == 540u);
    BOOST_TEST((got.wc_flags & IBV_WC_GRH) != 0u);
    BOOST_TEST(got.src_qp == a.pair.number());
    BOOST_TEST(same(a, 0, b, 40, 500));

    ibv_grh header;
    std::memcpy(&header, b.memory.data(), sizeof header);
    const verbs::address_handle back(b.domain, got, header);
    a.receive(4096, 1064);
    b.send(40, 500, [&](ibv_send_wr& wr) { wr.wr.ud = {back.get(), got.src_qp, 0x11111111}; });
    BOOST_TEST(a.next().status == IBV_WC_SUCCESS); // of its own send
    BOOST_TEST(a.next().byte_len == 540u);
    BOOST_TEST(same(a, 0, a, 4096 + 40, 500));
}

BOOST_AUTO_TEST_CASE(an_armed_queue_makes_its_channel_readable) {
    connected_pair p;
    pollfd at{p.b.channel.fd(), POLLIN, 0};
    BOOST_TEST(p.b.queue.arm() == 0);
    BOOST_TEST(::poll(&at, 1, 0) == 0);
    BOOST_TEST(p.b.receive(0, 64) == 0);
    BOOST_TEST(p.a.send(0, 10) == 0);
    BOOST_TEST(::poll(&at, 1, 10'000) == 1);
    BOOST_TEST(p.b.channel.drain() == 1u);
    BOOST_TEST(::poll(&at, 1, 0) == 0);
    BOOST_TEST(p.b.next().byte_len == 10u);
}

BOOST_AUTO_TEST_CASE(a_port_that_goes_down_or_up_is_told) {
    const auto run = [](std::vector<std::string> words) { BOOST_REQUIRE(child_program(std::move(words)).status() == 0); };
    run({"ip", "link", "add", "d0", "type", "dummy"}); // the others' interfaces would lose their addresses
    run({"ip", "link", "set", "d0", "up"});
    run({"rdma", "link", "add", "rxe9", "type", "rxe", "netdev", "d0"});
    {
        const auto device = verbs::device::open("rxe9");
        reactor r;
        const reactor::scope here(r);
        std::vector<verbs::device_event> heard;
        verbs::async_events events(device, r, [&](const verbs::device_event& e) { heard.push_back(e); });
        const auto await = [&](ibv_event_type what) { // among others: GIDs come and go with the interface
            const auto is_it = [what](const verbs::device_event& e) { return e.what == what && e.port == 1; };
            for (pollfd readable{events.wake_fd(), POLLIN, 0}; std::ranges::none_of(heard, is_it); events.drain())
                BOOST_REQUIRE(::poll(&readable, 1, 10'000) == 1);
        };
        run({"ip", "link", "set", "d0", "down"});
        await(IBV_EVENT_PORT_ERR);
        BOOST_TEST(device.port().state != IBV_PORT_ACTIVE);
        run({"ip", "link", "set", "d0", "up"});
        await(IBV_EVENT_PORT_ACTIVE);
    }
    run({"rdma", "link", "delete", "rxe9"}); // rdma_rxe waits for whoever has it open, and tells nobody: no IBV_EVENT_DEVICE_FATAL
    run({"ip", "link", "delete", "d0"});
}

BOOST_AUTO_TEST_CASE(one_shared_queue_feeds_a_pair_and_says_when_it_is_low) {
    rxe_end a("rxe0", address_of_rxe0), b("rxe1", address_of_rxe1);
    verbs::shared_receive_queue shared(b.domain, {.max_receives = 16});
    verbs::queue_pair pair(b.domain, {.sends = &b.queue, .receives = &b.queue, .shared_receives = shared.get(), .max_sends = 4});
    connect(a, b, pair);

    ibv_sge at = b.piece(0, 64);
    ibv_recv_wr wr{1, nullptr, &at, 1};
    ibv_recv_wr* bad = nullptr;
    for (int i = 0; i < 2; ++i) BOOST_TEST(shared.post(&wr, &bad) == 0);
    BOOST_TEST(shared.arm_limit(2) == 0);
    BOOST_TEST(a.send(0, 10) == 0);
    BOOST_TEST(b.next().byte_len == 10u);

    reactor r;
    const reactor::scope here(r);
    bool told = false;
    verbs::async_events events(b.device, r, [&](const verbs::device_event& e) {
        told |= e.what == IBV_EVENT_SRQ_LIMIT_REACHED && e.shared_receives == shared.get();
    });
    pollfd readable{events.wake_fd(), POLLIN, 0};
    BOOST_TEST(::poll(&readable, 1, 10'000) == 1);
    BOOST_TEST(events.drain());
    BOOST_TEST(told);
}

BOOST_AUTO_TEST_CASE(the_extended_calls_send_write_and_read) {
    connected_pair p(everything);
    const auto made = [](rxe_end& on) {
        return verbs::queue_pair(on.domain, {.sends = &on.queue, .receives = &on.queue, .max_sends = 16, .max_receives = 16,
                                             .inline_bytes = 64,
                                             .send_operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                                                IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                                                                IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD});
    };
    p.a.pair = made(p.a);
    p.b.pair = made(p.b);
    BOOST_REQUIRE(p.a.pair.extended() != nullptr);
    connected_pair::connect(p.a, p.b);
    connected_pair::connect(p.b, p.a);
    for (std::uint64_t i = 0; i < 3; ++i) BOOST_TEST(p.b.receive(4096 + 512 * i, 512, 10 + i) == 0);
    fill(p.a, 0, 1024, 1);
    const std::uint64_t forty = 40;
    std::memcpy(p.b.memory.data(), &forty, 8);

    ibv_qp_ex* const q = p.a.pair.extended();
    const auto here = [&](std::size_t offset) { return reinterpret_cast<std::uintptr_t>(p.a.memory.data() + offset); };
    const auto there = [&](std::size_t offset) { return reinterpret_cast<std::uintptr_t>(p.b.memory.data() + offset); };
    const std::uint32_t key = p.a.region.local_key(), remote = p.b.region.remote_key();
    const auto next = [&](std::uint64_t id, unsigned more = 0) {
        q->wr_id = id;
        q->wr_flags = IBV_SEND_SIGNALED | more;
    };
    ::ibv_wr_start(q);
    next(1);
    ::ibv_wr_send(q);
    ::ibv_wr_set_sge(q, key, here(0), 300);
    next(2, IBV_SEND_INLINE); // the man page asks for no flag; this provider does not set it, and its driver fails without
    ::ibv_wr_send_imm(q, htonl(77));
    ::ibv_wr_set_inline_data(q, p.a.memory.data() + 300, 60);
    next(3);
    const std::array<ibv_sge, 2> pieces{p.a.piece(400, 100), p.a.piece(600, 100)}; // of one size: it takes both for as long as the first
    ::ibv_wr_send(q);
    ::ibv_wr_set_sge_list(q, pieces.size(), pieces.data());
    next(4);
    ::ibv_wr_rdma_write(q, remote, there(2048));
    ::ibv_wr_set_sge(q, key, here(0), 1024);
    next(5);
    ::ibv_wr_rdma_read(q, remote, there(2048));
    ::ibv_wr_set_sge(q, key, here(2048), 1024);
    next(6);
    ::ibv_wr_atomic_fetch_add(q, remote, there(0), 2);
    ::ibv_wr_set_sge(q, key, here(1024), 8);
    BOOST_TEST(::ibv_wr_complete(q) == 0);
    for (std::uint64_t id = 1; id <= 6; ++id) {
        const ibv_wc done = p.a.next();
        BOOST_TEST(done.wr_id == id);
        BOOST_TEST(done.status == IBV_WC_SUCCESS);
    }
    const ibv_wc plain = p.b.next(), immediate = p.b.next(), gathered = p.b.next();
    BOOST_TEST(plain.byte_len == 300u);
    BOOST_TEST(same(p.a, 0, p.b, 4096, 300));
    BOOST_TEST(immediate.byte_len == 60u);
    BOOST_TEST(ntohl(immediate.imm_data) == 77u);
    BOOST_TEST(same(p.a, 300, p.b, 4096 + 512, 60));
    BOOST_TEST(gathered.byte_len == 200u);
    BOOST_TEST(same(p.a, 400, p.b, 4096 + 1024, 100));
    BOOST_TEST(same(p.a, 600, p.b, 4096 + 1024 + 100, 100));
    BOOST_TEST(same(p.a, 0, p.b, 2048, 1024));
    BOOST_TEST(same(p.a, 2048, p.b, 2048, 1024));
    std::uint64_t before = 0, after = 0;
    std::memcpy(&before, p.a.memory.data() + 1024, 8);
    std::memcpy(&after, p.b.memory.data(), 8);
    BOOST_TEST(before == 40u);
    BOOST_TEST(after == 42u);
}

BOOST_AUTO_TEST_CASE(the_extended_calls_send_datagrams) {
    rxe_end a("rxe0", address_of_rxe0, verbs::access::local_write, verbs::transport::unreliable_datagram);
    rxe_end b("rxe1", address_of_rxe1, verbs::access::local_write, verbs::transport::unreliable_datagram);
    verbs::queue_pair pair(a.domain, {.type = verbs::transport::unreliable_datagram, .sends = &a.queue, .receives = &a.queue,
                                      .send_operations = IBV_QP_EX_WITH_SEND});
    ibv_qp_ex* const q = pair.extended();
    BOOST_REQUIRE(q != nullptr);
    pair.activate(verbs::datagram_parameters{});
    b.pair.activate(verbs::datagram_parameters{});
    const verbs::address_handle there(a.domain, {.gid = b.address.gid, .gid_index = static_cast<std::uint8_t>(a.address.index)});
    fill(a, 0, 500, 9);
    BOOST_TEST(b.receive(0, 1064) == 0);
    ::ibv_wr_start(q);
    q->wr_id = 1;
    q->wr_flags = IBV_SEND_SIGNALED;
    ::ibv_wr_send(q);
    ::ibv_wr_set_ud_addr(q, there.get(), b.pair.number(), 0x11111111);
    ::ibv_wr_set_sge(q, a.region.local_key(), reinterpret_cast<std::uintptr_t>(a.memory.data()), 500);
    BOOST_TEST(::ibv_wr_complete(q) == 0);
    BOOST_TEST(a.next().status == IBV_WC_SUCCESS);
    BOOST_TEST(b.next().byte_len == 540u);
    BOOST_TEST(same(a, 0, b, 40, 500));
}

BOOST_AUTO_TEST_CASE(extended_calls_that_the_device_lacks_are_left_out) {
    rxe_end a("rxe0", address_of_rxe0);
    const verbs::queue_pair pair(a.domain, {.sends = &a.queue, .receives = &a.queue, .send_operations = IBV_QP_EX_WITH_TSO});
    BOOST_TEST(pair.extended() == nullptr);
}

BOOST_AUTO_TEST_CASE(a_cursor_reads_the_completions_of_an_extended_queue) {
    rxe_end a("rxe0", address_of_rxe0), b("rxe1", address_of_rxe1);
    verbs::completion_queue queue(b.device, {.entries = 64, .channel = &b.channel, .extended = true,
                                             .fields = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_QP_NUM});
    BOOST_REQUIRE(queue.extended() != nullptr);
    {
        const verbs::completion_cursor none(queue);
        BOOST_TEST(!none);
        BOOST_TEST(none.error() == ENOENT);
    }
    verbs::queue_pair pair(b.domain, {.sends = &queue, .receives = &queue, .max_sends = 16, .max_receives = 16});
    connect(a, b, pair);
    for (std::uint64_t i = 0; i < 3; ++i) BOOST_TEST(post_receive(pair, b.piece(512 * i, 512), 10 + i) == 0);
    BOOST_TEST(queue.arm() == 0);
    for (std::uint32_t i = 0; i < 3; ++i) BOOST_TEST(a.send(0, 100 + i) == 0);
    for (int i = 0; i < 3; ++i) BOOST_TEST(a.next().status == IBV_WC_SUCCESS);
    pollfd readable{b.channel.fd(), POLLIN, 0};
    BOOST_TEST(::poll(&readable, 1, 10'000) == 1);
    BOOST_TEST(b.channel.drain() == 1u);
    std::uint32_t count = 0;
    for (const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{10};
         count < 3 && std::chrono::steady_clock::now() < give_up; ::sched_yield()) {
        for (verbs::completion_cursor at(queue); at; at.next()) {
            BOOST_TEST(at->wr_id == 10u + count);
            BOOST_TEST(at->status == IBV_WC_SUCCESS);
            BOOST_TEST(at.opcode() == IBV_WC_RECV);
            BOOST_TEST(at.byte_length() == 100u + count);
            BOOST_TEST(at.queue_pair() == pair.number());
            ++count;
        }
    }
    BOOST_TEST(count == 3u);
}

BOOST_AUTO_TEST_CASE(timestamps_are_refused) {
    rxe_end a("rxe0", address_of_rxe0);
    const std::string said = sentence_of([&] { verbs::completion_queue(a.device, {.entries = 64, .timestamps = true}); });
    BOOST_TEST_INFO(said);
    BOOST_TEST(said.find("with timestamps") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_raw_packet_pair_is_refused_with_the_remedy) {
    rxe_end a("rxe0", address_of_rxe0);
    const std::string said = sentence_of([&] {
        verbs::queue_pair(a.domain, {.type = verbs::transport::raw_packet, .sends = &a.queue, .receives = &a.queue});
    });
    BOOST_TEST_INFO(said);
    BOOST_TEST(said.find("--net=xdp") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
