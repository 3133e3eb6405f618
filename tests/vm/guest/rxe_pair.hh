// Two real devices that reach each other, each with a connected queue pair and a page of registered memory: what the tests
// of rdma/verbs in the virtual machine begin with.
#pragma once

#include <corewire/rdma/verbs/memory_region.hh>
#include <corewire/rdma/verbs/queue_pair.hh>

#include "tests/rdma/work_requests.hh"
#include "tests/vm/guest/stacks_on_quit.hh"

#include <boost/test/unit_test.hpp>

#include <arpa/inet.h>
#include <array>
#include <chrono>
#include <cstring>
#include <netinet/in.h>
#include <sched.h>
#include <string_view>
#include <vector>

namespace corewire::test {

constexpr ipv4 address_of_rxe0{192, 0, 2, 1};
constexpr ipv4 address_of_rxe1{192, 0, 2, 2};

/// As the system calls want it.
inline sockaddr_in name_of(ipv4 address, std::uint16_t port = 0) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_port = htons(port);
    a.sin_addr.s_addr = htonl(address.value());
    return a;
}

/// One device and what stands on it.
struct rxe_end {
    explicit rxe_end(std::string_view name, ipv4 ours, verbs::access allowed = verbs::access::local_write,
                     verbs::transport type = verbs::transport::reliable_connection)
        : device(verbs::device::open(name)), address(device.address_for(ours)), domain(device), memory(8192),
          region(domain, memory, allowed), channel(device), queue(device, {.entries = 64, .channel = &channel}),
          pair(domain, {.type = type, .sends = &queue, .receives = &queue, .max_sends = 16, .max_receives = 16, .inline_bytes = 64}) {}

    ibv_sge piece(std::size_t offset, std::uint32_t size) {
        return {reinterpret_cast<std::uintptr_t>(memory.data() + offset), size, region.local_key()};
    }
    int receive(std::size_t offset, std::uint32_t size, std::uint64_t id = 0) { return post_receive(pair, piece(offset, size), id); }
    /// `patch(wr)` turns a signalled SEND into what is wanted.
    template <typename Patch>
    int send(std::size_t offset, std::uint32_t size, Patch patch) {
        return post_send(pair, piece(offset, size), patch);
    }
    int send(std::size_t offset, std::uint32_t size) {
        return send(offset, size, [](ibv_send_wr&) {});
    }
    /// The next completion; fails the test when none comes in ten seconds.
    ibv_wc next() {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{10};
        ibv_wc out{};
        for (;;) {
            const int n = queue.poll({&out, 1});
            BOOST_REQUIRE(n >= 0);
            if (n == 1) return out;
            BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < give_up, "no completion came");
            ::sched_yield();
        }
    }
    verbs::remote_end as_remote() const { return {.queue_pair = pair.number(), .first_sequence = 7, .gid = address.gid}; }

    verbs::device device;
    verbs::port_address address;
    verbs::protection_domain domain;
    std::vector<std::byte> memory;
    verbs::memory_region region;
    verbs::completion_channel channel;
    verbs::completion_queue queue;
    verbs::queue_pair pair;
};

struct connected_pair {
    explicit connected_pair(verbs::access allowed = verbs::access::local_write)
        : a("rxe0", address_of_rxe0, allowed), b("rxe1", address_of_rxe1, allowed) {
        connect(a, b);
        connect(b, a);
    }
    static void connect(rxe_end& from, rxe_end& to) {
        verbs::connection_parameters p;
        p.gid_index = static_cast<std::uint8_t>(from.address.index);
        p.first_sequence = 7;
        p.remote_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
        from.pair.activate(to.as_remote(), p);
    }
    rxe_end a, b;
};

} // namespace corewire::test
