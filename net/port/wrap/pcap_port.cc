#include <corewire/net/port/wrap/pcap_port.hh>

#include <corewire/net/port/wrap/packet_bytes.hh>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace corewire {

namespace {

/// Both headers are in this machine's byte order, which the magic number shows to the reader.
struct file_header {
    std::uint32_t magic = 0xa1b23c4d;
    std::uint16_t major = 2, minor = 4;
    std::uint32_t reserved[2] = {0, 0};
    std::uint32_t snap_length = 0;
    std::uint32_t link_type = 1; ///< LINKTYPE_ETHERNET
};
struct record_header {
    std::uint32_t seconds = 0, nanoseconds = 0;
    std::uint32_t kept = 0, original = 0; ///< bytes
};
static_assert(sizeof(file_header) == 24 && sizeof(record_header) == 16);

} // namespace

pcap_port::pcap_port(std::unique_ptr<port> inner, clock_source& clock, const pcap_options& options)
    : wrapped_port(std::move(inner)), clock_(clock), file_(std::fopen(options.path.c_str(), "wbe")),
      snap_length_(options.snap_length), room_(options.max_bytes) {
    if (file_ == nullptr) {
        throw std::system_error(errno, std::generic_category(), "cannot write the packet file '" + options.path + "'");
    }
    file_header header;
    header.snap_length = snap_length_;
    std::fwrite(&header, sizeof header, 1, file_);
    room_ -= std::min<std::uint64_t>(room_, sizeof header);
}

pcap_port::~pcap_port() { std::fclose(file_); }

std::size_t pcap_port::receive(std::span<packet> out) {
    const std::size_t n = wrapped_port::receive(out);
    if (n == 0) return 0;
    const time_point now = clock_.now();
    for (const packet& p : out.first(n)) write(packet_bytes(p).bytes(), now);
    return n;
}

/// One packet at a time, held while it is sent: sending moves from it, and only what the port takes is written.
std::size_t pcap_port::transmit(std::span<packet> burst) {
    std::size_t n = 0;
    for (; n < burst.size(); ++n) {
        std::vector<std::byte> bytes(burst[n].head.bytes().begin(), burst[n].head.bytes().end());
        bytes.insert(bytes.end(), burst[n].body.bytes().begin(), burst[n].body.bytes().end());
        if (wrapped_port::transmit(burst.subspan(n, 1)) == 0) break;
        write(bytes, clock_.now());
    }
    return n;
}

void pcap_port::write(byte_span frame, time_point now) noexcept {
    record_header header;
    header.seconds = static_cast<std::uint32_t>(to_ns(now) / 1'000'000'000);
    header.nanoseconds = static_cast<std::uint32_t>(to_ns(now) % 1'000'000'000);
    header.original = static_cast<std::uint32_t>(frame.size());
    header.kept = std::min(header.original, snap_length_);
    const std::uint64_t size = sizeof header + header.kept;
    if (size > room_ || std::fwrite(&header, sizeof header, 1, file_) != 1 ||
        std::fwrite(frame.data(), 1, header.kept, file_) != header.kept) {
        ++unwritten_;
        return;
    }
    room_ -= size;
    ++written_;
}

} // namespace corewire
