// TCP segments of a burst that the verbs port hands to the device as one request (TSO), on the fake NIC: on the wire they are what they
// would have been one by one, whatever stands between them, and whatever the device can or will not do.
#include "verbs_world.hh"

#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/tcp.hh>
#include <corewire/rdma/fake/offload.hh>

#include <array>

using namespace corewire;
using namespace corewire::test;
using wire::tcp_flags;

namespace {

using frames = std::vector<std::vector<std::byte>>;

fake::nic_options able(unsigned pieces = 16) {
    fake::nic_options o;
    o.max_pieces = pieces;
    return o;
}

verbs_device_options sending(bool extended) {
    verbs_device_options o = verbs_world::everything();
    o.extended = extended;
    return o;
}

/// One flow's segments, made one behind the other.
struct flow {
    verbs_world& w;
    std::uint16_t port;
    bool six = false;
    std::uint32_t seq = 0xffff'f000; ///< wraps within a train
    std::uint16_t id = 7;
    std::uint32_t ack = 77;
    std::uint8_t next = 0;

    std::uint32_t tcp_at() const { return six ? 54 : 34; }
    std::uint32_t headers() const { return tcp_at() + 32; }

    /// The first `in_head` bytes of payload lie behind the headers, the rest in a frame of its own.
    packet make(std::uint32_t payload, std::uint32_t in_head = 0, tcp_flags flags = tcp_flags::ack) {
        packet p;
        p.head = w.port->pool().allocate_buffer();
        std::byte* const at = p.head.append(headers() + in_head);
        std::memset(at, 0, headers());
        w.far->mac().store(at);
        w.port->mac().store(at + 6);
        store_be16(at + 12, six ? 0x86dd : 0x0800);
        const auto size = static_cast<std::uint16_t>(32 + payload);
        wire::internet_sum sum;
        if (six) {
            const ipv6 from = *ipv6::parse("2001:db8::1"), to = *ipv6::parse("2001:db8::2");
            store_be32(at + 14, 0x6000'0000);
            store_be16(at + 18, size);
            store_u8(at + 20, 6);
            store_u8(at + 21, 64);
            from.store(at + 22);
            to.store(at + 38);
            sum = wire::pseudo_header_sum(from, to, wire::ip_protocol::tcp, size);
        } else {
            wire::ipv4_header ip;
            ip.total_length = static_cast<std::uint16_t>(20 + size);
            ip.identification = id++;
            ip.source = ipv4(10, 0, 0, 1);
            ip.destination = ipv4(10, 0, 0, 2);
            ip.emit({at + 14, 20});
            sum = wire::pseudo_header_sum(ip.source, ip.destination, wire::ip_protocol::tcp, size);
        }
        const wire::tcp_header tcp{.source_port = port,
                                   .destination_port = 2,
                                   .sequence = seq,
                                   .acknowledgment = ack,
                                   .flags = flags,
                                   .window = 500,
                                   .checksum = sum.folded()};
        tcp.emit({at + tcp_at(), 32}, 12);
        store_be32(at + tcp_at() + 20, 0x0101'080a);
        fill(at + headers(), in_head);
        if (payload != in_head) {
            p.body = w.port->pool().allocate_buffer();
            fill(p.body.append(payload - in_head), payload - in_head);
        }
        p.flags = offload::l4_checksum_needed;
        p.l4_offset = static_cast<std::uint16_t>(tcp_at());
        p.l4_checksum_offset = 16;
        seq += payload;
        return p;
    }
    void fill(std::byte* at, std::uint32_t n) {
        for (std::uint32_t i = 0; i < n; ++i) at[i] = static_cast<std::byte>(next++);
    }
};

/// As they are to be on the wire.
frames one_by_one(std::span<const packet> burst) {
    frames all;
    for (const packet& p : burst) {
        std::vector<std::byte>& one = all.emplace_back(p.head.bytes().begin(), p.head.bytes().end());
        one.insert(one.end(), p.body.bytes().begin(), p.body.bytes().end());
        if (p.flags != offload::none) fake::complete_checksums(one);
    }
    return all;
}

struct result {
    std::size_t taken;
    std::uint64_t trains, doorbells;
};

/// Sends the burst in one call, and looks at every frame of it.
result send_and_compare(verbs_world& w, std::vector<packet>& burst) {
    const frames expected = one_by_one(burst);
    frames got;
    w.nic.on_sent_frame([&](byte_span f) { got.emplace_back(f.begin(), f.end()); });
    const auto before = w.port->verbs_statistics();
    const auto sent_before = w.port->statistics().transmitted_packets;
    const std::size_t taken = w.port->transmit(burst);
    BOOST_TEST((got == frames(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(taken))));
    BOOST_TEST(w.port->statistics().transmitted_packets - sent_before == taken);
    const auto& after = w.port->verbs_statistics();
    return {taken, after.segmented - before.segmented, after.doorbells - before.doorbells};
}

void nothing_is_kept(verbs_world& w, std::vector<packet>& burst) {
    burst.clear();
    w.settle();
    BOOST_TEST(w.port->unsent() == 0u);
    BOOST_TEST(w.nic.violations().empty());
    BOOST_TEST(w.port->pool().free_count + w.port->posted() == w.port->pool().count());
}

} // namespace

BOOST_AUTO_TEST_SUITE(verbs_trains)

BOOST_AUTO_TEST_CASE(segments_that_follow_each_other_go_as_one_request) {
    for (const bool extended : {true, false})
        for (const bool six : {false, true}) {
            verbs_world w(able(), sending(extended));
            flow f{w, 1, six};
            std::vector<packet> burst;
            for (int i = 0; i < 11; ++i) burst.push_back(f.make(1000));
            burst.push_back(f.make(300, 300, tcp_flags::ack | tcp_flags::psh));
            const result r = send_and_compare(w, burst);
            BOOST_TEST(r.taken == 12u);
            BOOST_TEST(r.trains == 1u);
            BOOST_TEST(r.doorbells == 1u);
            nothing_is_kept(w, burst);
        }
}

BOOST_AUTO_TEST_CASE(what_the_sender_means_as_one_packet_goes_as_one_request_too) {
    for (const bool extended : {true, false}) {
        verbs_world w(able(), sending(extended));
        flow f{w, 1};
        std::vector<packet> burst;
        for (int i = 0; i < 6; ++i) burst.push_back(f.make(1000));
        for (const std::size_t i : {1u, 2u, 4u, 5u}) burst[i].flags = burst[i].flags | offload::joins;
        const result r = send_and_compare(w, burst);
        BOOST_TEST(r.taken == 6u);
        BOOST_TEST(r.trains == 1u);
        BOOST_TEST(r.doorbells == 1u);
        nothing_is_kept(w, burst);
    }
}

BOOST_AUTO_TEST_CASE(other_flows_and_other_frames_between_them_keep_their_places) {
    for (const bool extended : {true, false}) {
        verbs_world w(able(), sending(extended));
        flow a{w, 1}, b{w, 3};
        std::vector<packet> burst;
        burst.push_back(w.outgoing(5));
        for (int i = 0; i < 3; ++i) burst.push_back(a.make(1000, 10));
        for (int i = 0; i < 2; ++i) burst.push_back(b.make(900));
        burst.push_back(a.make(1000));
        burst.push_back(b.make(900));
        burst.push_back(w.outgoing(6));
        for (int i = 0; i < 2; ++i) burst.push_back(a.make(1000));
        const result r = send_and_compare(w, burst);
        BOOST_TEST(r.taken == burst.size());
        BOOST_TEST(r.trains == 3u);
        BOOST_TEST(r.doorbells == 5u);
        nothing_is_kept(w, burst);
    }
}

BOOST_AUTO_TEST_CASE(what_differs_in_more_than_its_place_goes_alone) {
    verbs_world w(able());
    flow f{w, 1};
    std::vector<packet> burst;
    burst.push_back(f.make(1000));
    f.seq += 1; // a gap
    burst.push_back(f.make(1000));
    f.ack += 1; // another acknowledgment
    burst.push_back(f.make(1000));
    burst.push_back(f.make(1000, 0, tcp_flags::ack | tcp_flags::fin));
    burst.push_back(f.make(50)); // goes inline
    burst.push_back(f.make(50));
    burst.push_back(f.make(900, 0, tcp_flags::ack | tcp_flags::ece));
    burst.push_back(f.make(900, 0, tcp_flags::ack | tcp_flags::ece));
    burst.push_back(f.make(1000)); // longer than the one before
    const result r = send_and_compare(w, burst);
    BOOST_TEST(r.taken == burst.size());
    BOOST_TEST(r.trains == 0u);
    BOOST_TEST(r.doorbells == 1u); // and all of them at once
    nothing_is_kept(w, burst);
}

BOOST_AUTO_TEST_CASE(a_train_has_no_more_pieces_than_the_device_gathers) {
    for (const bool extended : {true, false}) {
        verbs_world w(able(5), sending(extended));
        flow f{w, 1};
        std::vector<packet> burst;
        for (int i = 0; i < 8; ++i) burst.push_back(f.make(1000, 100)); // two pieces each: 4 of 5
        BOOST_TEST(send_and_compare(w, burst).trains == 4u);
        nothing_is_kept(w, burst);
    }
}

BOOST_AUTO_TEST_CASE(a_train_is_no_longer_than_the_device_cuts) {
    fake::nic_options small = able();
    small.max_segmented = 66 + 3 * 1000;
    for (const bool extended : {true, false}) {
        verbs_world w(small, sending(extended));
        flow f{w, 1};
        std::vector<packet> burst;
        for (int i = 0; i < 7; ++i) burst.push_back(f.make(1000));
        BOOST_TEST(send_and_compare(w, burst).trains == 2u); // and one alone
        nothing_is_kept(w, burst);
    }
}

BOOST_AUTO_TEST_CASE(a_device_that_cuts_nothing_gets_them_one_by_one) {
    fake::nic_options without = able();
    without.segmentation = false;
    for (const auto& nic : {without, able(3)}) { // or gathers too little
        verbs_world w(nic);
        flow f{w, 1};
        std::vector<packet> burst;
        for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
        const result r = send_and_compare(w, burst);
        BOOST_TEST(r.taken == 4u);
        BOOST_TEST(r.trains == 0u);
        BOOST_TEST(r.doorbells == 1u);
        nothing_is_kept(w, burst);
    }
}

BOOST_AUTO_TEST_CASE(a_driver_that_refuses_a_train_is_asked_once) {
    for (const bool extended : {true, false}) {
        verbs_world w(able(), sending(extended));
        w.nic.fail_calls("tso", EINVAL);
        flow f{w, 1};
        for (int round = 0; round < 2; ++round) {
            std::vector<packet> burst;
            for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
            const result r = send_and_compare(w, burst);
            BOOST_TEST(r.taken == 4u);
            BOOST_TEST(r.trains == 0u);
            nothing_is_kept(w, burst);
        }
        BOOST_TEST(w.port->statistics().transmit_dropped == 0u);
        BOOST_TEST(w.port->verbs_statistics().trains_refused == 1u);
    }
}

BOOST_AUTO_TEST_CASE(another_error_costs_a_train_and_not_those_behind_it) {
    for (const bool extended : {true, false}) {
        verbs_world w(able(), sending(extended));
        w.nic.fail_calls("tso", EFAULT);
        flow f{w, 1};
        std::vector<packet> burst;
        for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
        const std::size_t taken = w.port->transmit(burst);
        BOOST_TEST(taken == 1u); // dropped, so that it blocks nothing
        BOOST_TEST(w.port->statistics().transmit_dropped == 1u);
        burst.erase(burst.begin());
        BOOST_TEST(send_and_compare(w, burst).trains == 1u);
        nothing_is_kept(w, burst);
        BOOST_TEST(w.port->verbs_statistics().trains_refused == 0u);
    }
}

BOOST_AUTO_TEST_CASE(a_driver_that_lacks_the_newer_calls_keeps_long_lists_of_pieces) {
    verbs_world w(able(), sending(true), {}, EINVAL, 2); // shorter lists did not help
    BOOST_TEST(!w.port->uses_calls());
    flow f{w, 1};
    std::vector<packet> burst;
    for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
    BOOST_TEST(send_and_compare(w, burst).trains == 1u);
    nothing_is_kept(w, burst);
}

BOOST_AUTO_TEST_CASE(a_device_without_room_for_long_lists_of_pieces_sends_segments_one_by_one) {
    for (const int error : {ENOMEM, EINVAL}) {
        verbs_world w(able(), sending(true), {}, error);
        BOOST_TEST(w.port->uses_calls()); // that is all it has to give up
        BOOST_TEST(w.port->capabilities().segmentation);
        flow f{w, 1};
        std::vector<packet> burst;
        for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
        const result r = send_and_compare(w, burst);
        BOOST_TEST(r.taken == 4u);
        BOOST_TEST(r.trains == 0u);
        BOOST_TEST(r.doorbells == 1u);
        nothing_is_kept(w, burst);
    }
}

BOOST_AUTO_TEST_CASE(a_full_queue_leaves_a_train_with_the_caller_and_its_frames_come_home_with_its_completion) {
    for (const bool extended : {true, false}) {
        verbs_device_options options = sending(extended);
        options.send_depth = 64;
        verbs_world w(able(), options);
        w.nic.hold_completions();
        flow f{w, 1};
        std::vector<packet> burst;
        for (int i = 0; i < 70; ++i) burst.push_back(f.make(1000));
        BOOST_TEST(send_and_compare(w, burst).taken == 64u);
        BOOST_TEST(w.port->unsent() == 64u);
        w.nic.release_completions();
        burst.erase(burst.begin(), burst.begin() + 64);
        BOOST_TEST(send_and_compare(w, burst).taken == 6u);
        nothing_is_kept(w, burst);

        for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
        w.nic.fail_calls("tso", ENOMEM); // the driver's queue is full, whatever we thought
        BOOST_TEST(send_and_compare(w, burst).taken == 0u);
        BOOST_TEST(send_and_compare(w, burst).trains == 1u);
        nothing_is_kept(w, burst);
    }
}

BOOST_AUTO_TEST_CASE(a_train_that_fails_costs_its_frames_and_no_more) {
    verbs_world w(able());
    flow f{w, 1};
    std::vector<packet> burst;
    for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
    w.nic.fail_sends(IBV_WC_LOC_QP_OP_ERR);
    BOOST_TEST(w.port->transmit(burst) == 4u);
    w.settle();
    BOOST_TEST(w.port->verbs_statistics().failed_sends == 1u);
    burst.clear();
    for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
    BOOST_TEST(send_and_compare(w, burst).trains == 1u);
    nothing_is_kept(w, burst);

    for (int i = 0; i < 4; ++i) burst.push_back(f.make(1000));
    w.nic.remove();
    static_cast<void>(w.port->transmit(burst));
    burst.clear();
    BOOST_TEST(w.port->pool().free_count + w.port->posted() + w.port->unsent() == w.port->pool().count());
}

BOOST_AUTO_TEST_CASE(pieces_in_memory_of_others_are_copied_first) {
    verbs_world w(able());
    frame_pool theirs(16);
    flow f{w, 1};
    std::vector<packet> burst;
    for (int i = 0; i < 4; ++i) {
        burst.push_back(f.make(1000));
        buffer moved = theirs.allocate_buffer();
        std::memcpy(moved.append(1000), burst.back().body.data(), 1000);
        burst.back().body = std::move(moved);
    }
    BOOST_TEST(send_and_compare(w, burst).trains == 1u);
    nothing_is_kept(w, burst);
    BOOST_TEST(theirs.free_count == theirs.count());
}

BOOST_AUTO_TEST_SUITE_END()
