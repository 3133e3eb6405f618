// The IPv4 identification field, for datagrams that may be fragmented (RFC 6864, RFC 7739).
//
// A counter per hash of (source, destination, protocol), offset by a keyed hash of the same: unique within a flow for
// as long as 16 bits allow, and telling an outsider neither the next value nor how much we send to others.
// One interface's, on one shard. Fixed size: 1,024 counters.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/ip_protocol.hh>
#include <corewire/reactor/base/random.hh>

#include <array>
#include <cstdint>

namespace corewire {

class identification_source {
public:
    explicit identification_source(siphash_key secret = siphash_key::random()) noexcept;
    std::uint16_t next(ipv4 source, ipv4 destination, wire::ip_protocol protocol) noexcept;

private:
    siphash_key secret_;
    std::array<std::uint16_t, 1024> counters_{};
};

} // namespace corewire
