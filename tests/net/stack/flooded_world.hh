// A world whose server is sent segments that no stack of ours would send.
#pragma once

#include "stack_world.hh"

#include <corewire/net/wire/ethernet.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/tcp.hh>

#include <cstring>

namespace corewire {

class flooded_world : public stack_world {
public:
    using stack_world::stack_world;

    /// A TCP segment of so many bytes that says it comes from `from`, as if it had arrived at the server's port.
    void inject(ipv4 from, std::uint16_t from_port, std::uint16_t port, std::uint32_t seq, wire::tcp_flags flags, std::uint32_t ack = 0,
                std::uint16_t bytes = 0) {
        packet p;
        p.head = server_.device().pool().allocate_buffer();
        BOOST_REQUIRE(p.head.underlying_frame() != nullptr);
        std::byte* tcp = p.head.append(wire::tcp_header::min_size + bytes);
        std::memset(tcp + wire::tcp_header::min_size, 'x', bytes);
        const wire::tcp_header header{.source_port = from_port,
                                      .destination_port = port,
                                      .sequence = seq,
                                      .acknowledgment = ack,
                                      .flags = flags,
                                      .window = 65'535};
        header.emit({tcp, wire::tcp_header::min_size});
        wire::store_tcp_checksum({tcp, wire::tcp_header::min_size + std::size_t{bytes}}, from, first);
        const wire::ipv4_header ip{
            .total_length = static_cast<std::uint16_t>(40 + bytes), .source = from, .destination = first};
        ip.emit({p.head.prepend(wire::ipv4_header::min_size), wire::ipv4_header::min_size});
        const wire::ethernet_header link{.destination = server_.device().mac(),
                                         .source = mac_address(0x02'00'00'00'00'55),
                                         .type = wire::ether_type::ipv4};
        link.emit({p.head.prepend(wire::ethernet_header::size), wire::ethernet_header::size});
        server_.take_over(clock.now(), p);
    }
    static ipv4 stranger(std::uint32_t i) { return ipv4(10, 0, 0, static_cast<std::uint8_t>(100 + i % 100)); }
    static std::uint16_t stranger_port(std::uint32_t i) { return static_cast<std::uint16_t>(1'024 + i / 100); }
};

} // namespace corewire
