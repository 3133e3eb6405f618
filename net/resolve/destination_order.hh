// Which of a name's addresses to try first (RFC 6724 6), by what a packet to each would leave from.
//
//     addresses --source_for() of the provider--> destinations --goes_before()--> those first that are the likeliest to work
//
// Plain functions; nothing is sent.
#pragma once

#include <corewire/net/socket/provider.hh>

#include <optional>
#include <vector>

namespace corewire {

struct destination {
    net_address address;
    std::optional<chosen_source> source; ///< nothing: it cannot be reached
};

/// RFC 6724 6, rules 1, 2, 3, 5, 6, 8 and 9. False where they do not tell: as the name server has it (10).
bool goes_before(const destination& a, const destination& b) noexcept;

/// In that order, from the addresses that the running reactor's provider has; where it has none, as they stand.
void sort_destinations(std::vector<ip_address>& all);

} // namespace corewire
