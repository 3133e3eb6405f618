// A wrapper that writes what passes to a file which Wireshark, tshark and tcpdump open: pcap with nanoseconds
// (draft-ietf-opsawg-pcap, magic 0xa1b23c4d), link type Ethernet, in the order that packets passed.
// On the shard of the port inside. Bound: `max_bytes` of file; what comes afterwards passes unwritten, and is counted.
#pragma once

#include <corewire/net/port/wrap/wrapped_port.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <cstdio>

namespace corewire {

struct pcap_options {
    std::string path;
    std::uint32_t snap_length = 65535;       ///< bytes kept of each packet
    std::uint64_t max_bytes = std::uint64_t{1} << 30;
};

class pcap_port final : public wrapped_port {
public:
    /// Makes or truncates the file. Throws std::system_error if it cannot. `clock` outlives the port.
    pcap_port(std::unique_ptr<port> inner, clock_source& clock, const pcap_options& options);
    ~pcap_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    /// Writes out what stdio still holds.
    void flush() noexcept { std::fflush(file_); }
    std::uint64_t written() const noexcept { return written_; }     ///< packets
    std::uint64_t not_written() const noexcept { return unwritten_; } ///< packets: the file is full, or the disk

private:
    void write(byte_span frame, time_point now) noexcept;
    clock_source& clock_;
    std::FILE* file_;
    std::uint32_t snap_length_;
    std::uint64_t room_;
    std::uint64_t written_ = 0, unwritten_ = 0;
};

} // namespace corewire
