// A fake NIC with one UD queue pair in RTS: for tests of datagrams, and as the stranger in those of the verbs-ud port.
#pragma once

#include <corewire/rdma/verbs/address_handle.hh>

#include "tests/rdma/support.hh"
#include "tests/rdma/work_requests.hh"

namespace corewire::test {

inline constexpr std::uint32_t key = 0x0b1b;
inline constexpr std::uint32_t group_pair = 0xffffff;

/// A NIC with one address and one UD queue pair.
struct datagram_end {
    explicit datagram_end(const std::string& name, ipv4 ours, std::uint32_t accepts = key, bool ethernet = true)
        : nic({.name = name, .mac = mac_address(0x02'00'00'00'00'00 | ours.value()), .addresses = {ours}, .ethernet = ethernet}),
          device(verbs::device::open(name, fake::api())), address(device.address_for(ours)), domain(device), memory(16384),
          region(domain, memory, verbs::access::local_write), channel(device), queue(device, {.entries = 64, .channel = &channel}),
          pair(domain, {.type = verbs::transport::unreliable_datagram, .sends = &queue, .receives = &queue, .max_sends = 16,
                        .max_receives = 16, .inline_bytes = 64}) {
        pair.activate(verbs::datagram_parameters{.key = accepts});
    }
    verbs::address_handle way_to(const ibv_gid& gid) {
        return {domain, {.gid = gid, .gid_index = static_cast<std::uint8_t>(address.index)}};
    }
    int send(const verbs::address_handle& to, std::uint32_t number, std::uint32_t size, std::uint32_t with = key) {
        for (std::uint32_t i = 0; i < size; ++i) memory[i] = static_cast<std::byte>(i * 7);
        return send_as_it_is(to.get(), number, size, with);
    }
    int send_as_it_is(ibv_ah* to, std::uint32_t number, std::uint32_t size, std::uint32_t with = key) {
        const ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()), size, region.local_key()};
        return post_send(pair, piece, [&](ibv_send_wr& wr) { wr.wr.ud = {to, number, with}; });
    }
    int receive(std::uint32_t size = 2048) {
        return post_receive(pair, {reinterpret_cast<std::uintptr_t>(received()), size, region.local_key()}, 5);
    }
    std::vector<ibv_wc> poll() { return completions(queue); }
    ibv_wc next() { return only_completion(queue); }
    const std::byte* received() const { return memory.data() + 8192; }

    fake::nic nic;
    verbs::device device;
    verbs::port_address address;
    verbs::protection_domain domain;
    std::vector<std::byte> memory;
    verbs::memory_region region;
    verbs::completion_channel channel;
    verbs::completion_queue queue;
    verbs::queue_pair pair;
};

} // namespace corewire::test
