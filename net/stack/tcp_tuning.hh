// What one socket asks for beyond tcp_options_set: changes to the parameters of the connections that it opens or accepts.
// Called on the stack's shard, once a connection, after the stack's own settings and the tcp_options_set.
#pragma once

#include <corewire/net/tcp/parameters.hh>

#include <corewire/net/socket/congestion.hh>
#include <corewire/net/socket/path_mtu_probing.hh>
#include <corewire/net/wire/ecn.hh>

#include <functional>

namespace corewire {

/// Null for `standard`.
constexpr tcp::congestion_factory factory_of(congestion_algorithm a) noexcept {
    switch (a) {
    case congestion_algorithm::standard: break;
    case congestion_algorithm::cubic: return tcp::cubic_congestion;
    case congestion_algorithm::newreno: return tcp::reno_congestion;
    case congestion_algorithm::dctcp: return tcp::dctcp_congestion;
    case congestion_algorithm::bbr: return tcp::bbr_congestion;
    }
    return nullptr;
}

/// What connections start with when that is chosen for them: DCTCP asks for ECN (RFC 8257 3.1).
inline void choose_congestion(tcp::parameters& p, congestion_algorithm a) noexcept {
    if (a == congestion_algorithm::standard) return;
    p.congestion = factory_of(a);
    if (a == congestion_algorithm::dctcp) p.ecn = true;
}

/// The same of path MTU probing.
inline void choose_path_probing(tcp::parameters& p, path_mtu_probing how) noexcept {
    switch (how) {
    case path_mtu_probing::standard: break;
    case path_mtu_probing::off: p.mtu_probing = tcp::path_probing::off; break;
    case path_mtu_probing::black_hole: p.mtu_probing = tcp::path_probing::on_black_hole; break;
    case path_mtu_probing::always: p.mtu_probing = tcp::path_probing::always; break;
    }
}

/// tcp_options_set::hops and traffic_class; 0: it stays.
inline void choose_marks(tcp::parameters& p, std::uint8_t hops, std::uint8_t traffic_class) noexcept {
    if (hops != 0) p.time_to_live = p.hop_limit = hops;
    if (const std::uint8_t chosen = wire::without_ecn(traffic_class); chosen != 0) p.type_of_service = p.traffic_class = chosen;
}

using tcp_tuning = std::function<void(tcp::parameters&)>;

} // namespace corewire
