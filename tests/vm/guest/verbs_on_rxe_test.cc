// rdma/verbs against a real kernel driver (rdma_rxe): what the fake cannot prove.
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/rdma/verbs/async_events.hh>
#include <corewire/rdma/verbs/shared_receive_queue.hh>

#include "tests/vm/guest/rxe_pair.hh"

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

BOOST_AUTO_TEST_CASE(one_shared_queue_feeds_a_pair_and_says_when_it_is_low) {
    rxe_end a("rxe0", address_of_rxe0), b("rxe1", address_of_rxe1);
    verbs::shared_receive_queue shared(b.domain, {.max_receives = 16});
    verbs::queue_pair pair(b.domain, {.sends = &b.queue, .receives = &b.queue, .shared_receives = shared.get(), .max_sends = 4});
    verbs::connection_parameters p;
    p.first_sequence = 7;
    p.gid_index = static_cast<std::uint8_t>(b.address.index);
    pair.activate(a.as_remote(), p);
    p.gid_index = static_cast<std::uint8_t>(a.address.index);
    a.pair.activate({.queue_pair = pair.number(), .first_sequence = 7, .gid = b.address.gid}, p);

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

BOOST_AUTO_TEST_CASE(a_raw_packet_pair_is_refused_with_the_remedy) {
    rxe_end a("rxe0", address_of_rxe0);
    const std::string said = sentence_of([&] {
        verbs::queue_pair(a.domain, {.type = verbs::transport::raw_packet, .sends = &a.queue, .receives = &a.queue});
    });
    BOOST_TEST_INFO(said);
    BOOST_TEST(said.find("--net=xdp") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
