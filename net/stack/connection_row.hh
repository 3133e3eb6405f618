// One TCP connection as a line of the metrics page's table: written by tcp_census, read by cw-stat.
// Plain values; the reader's side believes nothing. Addresses are of either family (net_address), 16 bytes each. What a field means
// is part of the page's version (page_layout.hh).
#pragma once

#include <corewire/net/stack/flow_name.hh>
#include <corewire/net/tcp/info.hh>
#include <corewire/reactor/metrics/page_layout.hh>

#include <array>
#include <cstdint>

namespace corewire {

struct connection_row {
    using fields = std::array<std::uint64_t, page::row_fields>;

    flow_name name;
    tcp::connection_info info;
    std::uint64_t retransmitted = 0; ///< segments

    fields pack() const noexcept;
    /// False: no state of TCP, or a port that is none.
    static bool unpack(const fields& from, connection_row& out) noexcept;
};

} // namespace corewire
