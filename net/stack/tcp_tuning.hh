// What one socket asks for beyond tcp_options_set: changes to the parameters of the connections that it opens or accepts.
// Called on the stack's shard, once a connection, after the stack's own settings and the tcp_options_set.
#pragma once

#include <corewire/net/tcp/parameters.hh>

#include <corewire/net/socket/congestion.hh>

#include <functional>

namespace corewire {

/// Null for `standard`.
constexpr tcp::congestion_factory factory_of(congestion_algorithm a) noexcept {
    switch (a) {
    case congestion_algorithm::standard: break;
    case congestion_algorithm::cubic: return tcp::cubic_congestion;
    case congestion_algorithm::newreno: return tcp::reno_congestion;
    case congestion_algorithm::dctcp: return tcp::dctcp_congestion;
    }
    return nullptr;
}

/// What connections start with when that is chosen for them: DCTCP asks for ECN (RFC 8257 3.1).
inline void choose_congestion(tcp::parameters& p, congestion_algorithm a) noexcept {
    if (a == congestion_algorithm::standard) return;
    p.congestion = factory_of(a);
    if (a == congestion_algorithm::dctcp) p.ecn = true;
}

using tcp_tuning = std::function<void(tcp::parameters&)>;

} // namespace corewire
