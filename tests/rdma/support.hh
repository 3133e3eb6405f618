// A fake NIC, opened, with one raw-packet queue pair in RTS and a page of registered memory: what most tests begin with.
#pragma once

#include <corewire/rdma/fake/nic.hh>
#include <corewire/rdma/verbs/memory_region.hh>
#include <corewire/rdma/verbs/work_chain.hh>

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <system_error>
#include <vector>

namespace corewire::test {

struct raw_world {
    static constexpr unsigned depth = 16;

    explicit raw_world(fake::nic_options options = {}, verbs::queue_pair_options pair_options = {}, unsigned entries = 64)
        : nic(std::move(options)), device(verbs::device::open(nic.options().name, fake::api())), domain(device),
          memory(16384), region(domain, memory, verbs::access::local_write), channel(device),
          queue(device, {.entries = entries, .channel = &channel}), pair(domain, completed(pair_options)) {
        pair.activate_raw();
    }

    std::vector<ibv_wc> poll() {
        std::array<ibv_wc, 64> out;
        const int n = queue.poll(out);
        BOOST_REQUIRE(n >= 0);
        return {out.begin(), out.begin() + n};
    }
    /// A work request to send `size` bytes of the memory.
    int send(std::uint32_t size, unsigned flags = IBV_SEND_SIGNALED, std::uint64_t id = 0) {
        ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()), size, region.local_key()};
        return send_piece(piece, flags, id);
    }
    int send_piece(ibv_sge piece, unsigned flags = IBV_SEND_SIGNALED, std::uint64_t id = 0) {
        ibv_send_wr wr{};
        wr.wr_id = id;
        wr.sg_list = &piece;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = flags;
        ibv_send_wr* bad = nullptr;
        return pair.post_send(&wr, &bad);
    }
    int receive(std::uint32_t size, std::uint64_t id = 0, std::size_t offset = 8192) {
        ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data() + offset), size, region.local_key()};
        ibv_recv_wr wr{id, nullptr, &piece, 1};
        ibv_recv_wr* bad = nullptr;
        return pair.post_receive(&wr, &bad);
    }

    fake::nic nic;
    verbs::device device;
    verbs::protection_domain domain;
    std::vector<std::byte> memory;
    verbs::memory_region region;
    verbs::completion_channel channel;
    verbs::completion_queue queue;
    verbs::queue_pair pair;

private:
    verbs::queue_pair_options completed(verbs::queue_pair_options o) {
        o.type = verbs::transport::raw_packet;
        o.sends = o.receives = &queue;
        o.max_sends = o.max_receives = depth;
        if (o.inline_bytes == 0) o.inline_bytes = 64;
        return o;
    }
};

/// What `call` throws, as text; empty if nothing.
template <typename Call>
std::string sentence_of(Call call) {
    try {
        call();
    } catch (const std::system_error& e) {
        return e.what();
    }
    return {};
}

inline bool mentions(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

/// The Ethernet header of a frame that carries `packet` bytes of `type`, and room for them.
inline std::vector<std::byte> frame_for(mac_address to, std::uint16_t type, std::size_t packet) {
    std::vector<std::byte> f(14 + packet);
    to.store(f.data());
    mac_address(0x02'00'00'00'00'77).store(f.data() + 6);
    store_be16(f.data() + 12, type);
    return f;
}

/// A UDP header without a checksum, and `payload` bytes behind it.
inline void emit_datagram(std::byte* at, std::uint16_t source_port, std::uint16_t destination_port, std::uint32_t payload) {
    store_be16(at, source_port);
    store_be16(at + 2, destination_port);
    store_be16(at + 4, static_cast<std::uint16_t>(8 + payload));
    for (std::uint32_t i = 0; i < payload; ++i) at[8 + i] = static_cast<std::byte>(i);
}

/// A UDP datagram over IPv4 with its Ethernet header; checksums zero.
inline std::vector<std::byte> udp_frame(mac_address to, ipv4 source, std::uint16_t source_port, ipv4 destination,
                                        std::uint16_t destination_port, std::uint32_t payload = 18) {
    std::vector<std::byte> f = frame_for(to, 0x0800, 28 + payload);
    std::byte* ip = f.data() + 14;
    ip[0] = std::byte{0x45};
    store_be16(ip + 2, static_cast<std::uint16_t>(28 + payload));
    ip[8] = std::byte{64};
    ip[9] = std::byte{17};
    store_be32(ip + 12, source.value());
    store_be32(ip + 16, destination.value());
    emit_datagram(ip + 20, source_port, destination_port, payload);
    return f;
}

/// The same over IPv6.
inline std::vector<std::byte> udp_frame(mac_address to, const ipv6& source, std::uint16_t source_port, const ipv6& destination,
                                        std::uint16_t destination_port, std::uint32_t payload = 18) {
    std::vector<std::byte> f = frame_for(to, 0x86dd, 48 + payload);
    std::byte* ip = f.data() + 14;
    ip[0] = std::byte{0x60};
    store_be16(ip + 4, static_cast<std::uint16_t>(8 + payload));
    ip[6] = std::byte{17};
    ip[7] = std::byte{64};
    source.store(ip + 8);
    destination.store(ip + 24);
    emit_datagram(ip + 40, source_port, destination_port, payload);
    return f;
}

} // namespace corewire::test
