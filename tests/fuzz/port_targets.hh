// What ports make of a local kernel's frames: large ones cut (super_frame.hh) and joined again (joined_segments.hh), open checksums found,
// and any frame as a line of text.
//
// What must hold: segments of a cut frame are whole, follow each other, and carry the same text; the frame made of them says its length.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/port/joined_segments.hh>
#include <corewire/net/port/super_frame.hh>
#include <corewire/net/port/wrap/packet_text.hh>
#include <corewire/net/port/xdp/partial_checksum.hh>
#include <corewire/net/wire/ipv4.hh>
#include <corewire/net/wire/ipv6.hh>
#include <corewire/net/wire/tcp.hh>

#include "decisions.hh"

#include <algorithm>
#include <vector>

namespace port_fuzz {

using namespace corewire;

inline void text(byte_span frame) {
    const std::string line = describe_frame(frame);
    CW_ASSERT(!line.empty() && line.size() < 1000, "a line of another length");
    CW_ASSERT(std::ranges::all_of(line, [](unsigned char c) { return c >= ' ' && c <= '~'; }), "a line that is not text");
}

/// Of a piece with headers: its TCP segment.
inline wire::tcp_view segment_of(const buffer& piece, std::uint32_t ip_at) {
    wire::tcp_view tcp;
    if (load_be16(piece.data() + ip_at - 2) == 0x86dd) {
        wire::ipv6_view ip;
        CW_ASSERT(wire::ipv6_view::parse(piece.bytes().subspan(ip_at), ip) == wire::parse_error::none, "a piece without IPv6");
        CW_ASSERT(ip.payload().size() == piece.size() - ip_at - 40, "a piece of another length than it says");
        CW_ASSERT(wire::tcp_view::parse(ip.payload(), tcp) == wire::parse_error::none, "a piece without TCP");
        return tcp;
    }
    wire::ipv4_view ip;
    CW_ASSERT(wire::ipv4_view::parse(piece.bytes().subspan(ip_at), ip) == wire::parse_error::none && ip.checksum_ok(),
              "a piece without IPv4");
    CW_ASSERT(ip.total_length() == piece.size() - ip_at, "a piece of another length than it says");
    CW_ASSERT(wire::tcp_view::parse(ip.payload(), tcp) == wire::parse_error::none, "a piece without TCP");
    return tcp;
}

inline void join(std::vector<packet>& segments) {
    joined_segments joined;
    for (std::size_t at = 0; at < segments.size();) {
        std::size_t next = at + 1;
        if (joined.begin(segments[at])) {
            std::uint32_t payload = segments[at].size() - joined.header_size();
            for (; next < segments.size() && joined.add(segments[next]); ++next)
                payload += segments[next].size() - joined.header_size();
            CW_ASSERT(joined.segments() == next - at && joined.size() == joined.header_size() + payload,
                      "a joined frame of another length");
            std::size_t all = 0;
            for (const iovec& part : joined.finish().subspan(1)) all += part.iov_len;
            CW_ASSERT(all == joined.size(), "parts that are not the whole");
        }
        at = next;
    }
}

/// The first piece, then sizes of the others.
inline void cut(byte_span input) {
    static frame_pool pool(40);
    {
        fuzz::decisions in(input);
        std::vector<buffer> pieces;
        pieces.reserve(64); // `first` stays where it is
        buffer& first = pieces.emplace_back(pool.allocate_buffer());
        const std::uint8_t how = in.byte();
        const byte_span start = in.bytes(in.byte() * 2u);
        std::memcpy(first.append(static_cast<std::uint32_t>(start.size())), start.data(), start.size());
        const std::uint32_t more = how & 64 ? std::min<std::uint32_t>(in.word() % 1500u, first.tailroom()) : 0;
        std::memset(first.append(more), 0x33, more);
        static_cast<void>(has_partial_checksum(first.bytes()));
        text(first.bytes());
        super_frame cutter;
        if (!cutter.begin(first)) return;
        const std::uint32_t ip_at = load_be16(first.data() + 12) == 0x8100 ? 18 : 14;
        for (std::size_t left = 1 + how % 32u; left > 0; --left) {
            buffer& piece = pieces.emplace_back(pool.allocate_buffer(256));
            const std::uint32_t size = how & 128 ? 1000 : 1 + in.word() % (piece.tailroom() - 1);
            std::memset(piece.append(size), 0x44, size);
            cutter.go_on(piece, left == 1);
        }
        std::uint32_t next = segment_of(first, ip_at).sequence();
        std::vector<packet> segments;
        for (buffer& piece : pieces) {
            const wire::tcp_view tcp = segment_of(piece, ip_at);
            const bool last = &piece == &pieces.back();
            CW_ASSERT(tcp.sequence() == next, "pieces that do not follow each other");
            CW_ASSERT(last || (static_cast<unsigned>(tcp.flags()) & 9) == 0, "FIN or PSH before the end");
            next += static_cast<std::uint32_t>(tcp.payload().size());
            packet& p = segments.emplace_back();
            p.l4_offset = static_cast<std::uint16_t>(piece.size() - tcp.segment().size());
            p.flags = offload::l4_checksum_needed;
            p.head = std::move(piece);
        }
        join(segments);
    }
    CW_ASSERT(pool.free_count == pool.count(), "a frame is lost");
}

} // namespace port_fuzz
