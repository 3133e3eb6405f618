// One TCP connection as a line of the metrics page's table: written by tcp_census, read by cw-stat.
// Plain values; the reader's side believes nothing.
#pragma once

#include <corewire/net/stack/flow_table.hh>
#include <corewire/net/tcp/info.hh>
#include <corewire/reactor/metrics/page_layout.hh>

#include <array>
#include <cstdint>

namespace corewire {

struct connection_row {
    using fields = std::array<std::uint64_t, page::row_fields>;

    flow_key key;
    tcp::connection_info info;
    std::uint64_t retransmitted = 0; ///< segments

    fields pack() const noexcept;
    /// False: no state of TCP, or a port that is none.
    static bool unpack(const fields& from, connection_row& out) noexcept;
};

} // namespace corewire
