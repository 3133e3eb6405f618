#include <corewire/net/netlink/route_messages.hh>

#include <corewire/reactor/base/assert.hh>

#include <algorithm>
#include <array>
#include <cstring>
#include <libmnl/libmnl.h>
#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <utility>

namespace corewire::netlink {

namespace {

using verdict = message_reader::verdict;

/// The attributes of one message up to the type `most`; null for those that are not there.
template <std::size_t most>
class attributes {
public:
    /// `payload` starts behind the message's fixed part.
    explicit attributes(byte_span payload) noexcept {
        while (!payload.empty()) {
            const auto* a = reinterpret_cast<const nlattr*>(payload.data());
            if (!mnl_attr_ok(a, static_cast<int>(payload.size()))) return;
            if (mnl_attr_get_type(a) <= most) all_[mnl_attr_get_type(a)] = a;
            payload = payload.subspan(std::min<std::size_t>(MNL_ALIGN(std::size_t{a->nla_len}), payload.size()));
        }
    }
    /// False when the attribute is there but not of this size. Absent: `out` stays.
    template <typename T>
    bool load(std::size_t type, T& out) const noexcept {
        const nlattr* a = all_[type];
        if (a == nullptr) return true;
        if (mnl_attr_get_payload_len(a) != sizeof(T)) return false;
        std::memcpy(&out, mnl_attr_get_payload(a), sizeof(T));
        return true;
    }
    /// Of the family that `out` has.
    bool load(std::size_t type, net_address& out) const noexcept {
        std::array<std::byte, 16> octets;
        const byte_span found = bytes(type);
        if (!has(type)) return true;
        if (found.size() != (out.is_v4() ? 4u : 16u)) return false;
        std::memcpy(octets.data(), found.data(), found.size());
        if (out.is_v4()) {
            out = ipv4::load(octets.data());
            return true;
        }
        out = ipv6::load(octets.data());
        return !out.is_v4(); // no packet has a mapped one (RFC 4291 2.5.5.2)
    }
    bool has(std::size_t type) const noexcept { return all_[type] != nullptr; }
    byte_span bytes(std::size_t type) const noexcept {
        const nlattr* a = all_[type];
        return a == nullptr ? byte_span{} : byte_span{static_cast<const std::byte*>(mnl_attr_get_payload(a)), mnl_attr_get_payload_len(a)};
    }

private:
    std::array<const nlattr*, most + 1> all_{};
};

/// The message's fixed part; false if it is cut short.
template <typename Fixed>
bool split(byte_span payload, Fixed& fixed, byte_span& rest) noexcept {
    if (payload.size() < sizeof(Fixed)) return false;
    std::memcpy(&fixed, payload.data(), sizeof(Fixed));
    rest = payload.subspan(std::min<std::size_t>(MNL_ALIGN(sizeof(Fixed)), payload.size()));
    return true;
}

bool is_ip(unsigned family) noexcept { return family == AF_INET || family == AF_INET6; }
net_address any_of(unsigned family) noexcept { return family == AF_INET ? net_address(ipv4::any()) : net_address(ipv6::any()); }
unsigned bits_of(unsigned family) noexcept { return family == AF_INET ? 32 : 128; }

bool is_refusal(unsigned type) noexcept {
    return type == RTN_BLACKHOLE || type == RTN_UNREACHABLE || type == RTN_PROHIBIT || type == RTN_THROW;
}

verdict read_address(byte_span payload, bool gone, change& out) noexcept {
    ifaddrmsg fixed;
    byte_span rest;
    if (!split(payload, fixed, rest)) return verdict::malformed;
    if (!is_ip(fixed.ifa_family)) return verdict::ignored;
    const attributes<IFA_MAX> all(rest);
    net_address address = any_of(fixed.ifa_family);
    std::uint32_t flags = fixed.ifa_flags; // its low eight bits only
    // On a point-to-point link IFA_ADDRESS is the other end; IFA_LOCAL is always ours.
    if (!all.load(all.has(IFA_LOCAL) ? IFA_LOCAL : IFA_ADDRESS, address) || !all.load(IFA_FLAGS, flags)) return verdict::malformed;
    if (fixed.ifa_prefixlen > bits_of(fixed.ifa_family) || address.is_any()) return verdict::malformed;
    const auto lacks = [&](std::uint32_t none_of) { return (flags & none_of) == 0 || (flags & IFA_F_OPTIMISTIC) != 0; };
    constexpr std::uint32_t perhaps_anothers = IFA_F_TENTATIVE | IFA_F_DADFAILED;
    out = address_change{gone, fixed.ifa_index, prefix(address, fixed.ifa_prefixlen), (flags & IFA_F_SECONDARY) != 0,
                         lacks(perhaps_anothers | IFA_F_DEPRECATED), lacks(perhaps_anothers)};
    return verdict::told;
}

verdict read_link(byte_span payload, bool gone, change& out) noexcept {
    ifinfomsg fixed;
    byte_span rest;
    if (!split(payload, fixed, rest)) return verdict::malformed;
    if (fixed.ifi_family != AF_UNSPEC) return verdict::ignored; // a bridge's word on its port
    constexpr unsigned carrier = IFF_RUNNING | IFF_LOWER_UP;
    out = link_change{gone, static_cast<unsigned>(fixed.ifi_index), !gone && (fixed.ifi_flags & IFF_UP) != 0,
                      !gone && (fixed.ifi_flags & carrier) == carrier};
    if (!attributes<IFLA_MTU>(rest).load(IFLA_MTU, std::get<link_change>(out).mtu)) return verdict::malformed;
    return verdict::told;
}

verdict read_nexthop(byte_span payload, change& out) noexcept {
    nhmsg fixed;
    byte_span rest;
    if (!split(payload, fixed, rest)) return verdict::malformed;
    std::uint32_t interface = 0;
    if (!attributes<NHA_OIF>(rest).load(NHA_OIF, interface)) return verdict::malformed;
    out = nexthop_gone{interface};
    return verdict::told;
}

/// What a route says of sizes: RTA_METRICS has attributes of its own. RTAX_LOCK is not read: packets keep the don't-fragment flag, so that
/// what routers report must count.
bool take_sizes(byte_span metrics, route_change& told) noexcept {
    const attributes<RTAX_ADVMSS> all(metrics);
    return all.load(RTAX_MTU, told.mtu) && all.load(RTAX_ADVMSS, told.segment);
}

/// The first of several ways on. `ways` is what stands behind it.
bool take_way(byte_span& ways, route_change& told) noexcept {
    rtnexthop hop;
    const byte_span all = std::exchange(ways, {});
    if (all.size() < sizeof hop) return false;
    std::memcpy(&hop, all.data(), sizeof hop);
    if (hop.rtnh_len < sizeof hop || hop.rtnh_len > all.size()) return false;
    told.interface = static_cast<std::uint32_t>(hop.rtnh_ifindex);
    told.gateway_on_link = (hop.rtnh_flags & RTNH_F_ONLINK) != 0;
    ways = all.subspan(std::min<std::size_t>(RTNH_ALIGN(std::size_t{hop.rtnh_len}), all.size()));
    const attributes<RTA_MAX> of_it(all.subspan(sizeof hop, hop.rtnh_len - sizeof hop));
    told.of_other_family = of_it.has(RTA_VIA);
    return of_it.load(RTA_GATEWAY, told.gateway);
}

neighbor_word word_for(std::uint16_t state) noexcept {
    if ((state & (NUD_PERMANENT | NUD_NOARP)) != 0) return neighbor_word::permanent;
    if ((state & NUD_REACHABLE) != 0) return neighbor_word::reachable;
    if ((state & (NUD_STALE | NUD_DELAY | NUD_PROBE)) != 0) return neighbor_word::usable;
    return neighbor_word::unknown;
}

verdict read_neighbor(byte_span payload, bool gone, change& out) noexcept {
    ndmsg fixed;
    byte_span rest;
    if (!split(payload, fixed, rest)) return verdict::malformed;
    if (!is_ip(fixed.ndm_family)) return verdict::ignored;
    const attributes<NDA_MAX> all(rest);
    neighbor_change n{.interface = static_cast<unsigned>(fixed.ndm_ifindex), .address = any_of(fixed.ndm_family), .mac = {}};
    if (!all.load(NDA_DST, n.address)) return verdict::malformed;
    if (!n.address.is_unicast()) return verdict::ignored; // groups have entries too
    if (!gone) n.word = word_for(fixed.ndm_state);
    const byte_span mac = all.bytes(NDA_LLADDR);
    if (mac.size() == mac_address::size) n.mac = mac_address::load(mac.data());
    else if (!mac.empty()) return verdict::malformed;
    if (!n.mac.is_unicast()) n.word = neighbor_word::unknown;
    out = n;
    return verdict::told;
}

} // namespace

verdict message_reader::read_route(byte_span payload, std::uint16_t header_flags, bool gone, change& out) noexcept {
    rtmsg fixed;
    byte_span rest;
    if (!split(payload, fixed, rest)) return verdict::malformed;
    if (!is_ip(fixed.rtm_family) || fixed.rtm_tos != 0) return verdict::ignored;
    const bool leads_somewhere = fixed.rtm_type == RTN_UNICAST, refuses = is_refusal(fixed.rtm_type);
    const bool replaces = !gone && (header_flags & NLM_F_REPLACE) != 0;
    if (!leads_somewhere && !refuses && !replaces) return verdict::ignored;
    if ((fixed.rtm_flags & RTM_F_CLONED) != 0 || fixed.rtm_src_len != 0) return verdict::ignored; // of one flow, or one source
    const attributes<RTA_MAX> all(rest);
    std::uint32_t table = fixed.rtm_table;
    const net_address any = any_of(fixed.rtm_family);
    net_address destination = any;
    route_change told{.gone = gone, .interface = 0, .destination = {}, .gateway = any, .replaces = replaces};
    if (!all.load(RTA_TABLE, table) || !all.load(RTA_OIF, told.interface) || !all.load(RTA_PRIORITY, told.metric) ||
        !all.load(RTA_DST, destination) || !all.load(RTA_GATEWAY, told.gateway) || fixed.rtm_dst_len > bits_of(fixed.rtm_family) ||
        !take_sizes(all.bytes(RTA_METRICS), told))
        return verdict::malformed;
    if (table != RT_TABLE_MAIN) return verdict::ignored;
    told.destination = prefix(destination, fixed.rtm_dst_len).network();
    told.gateway_on_link = (fixed.rtm_flags & RTNH_F_ONLINK) != 0;
    told.refuses = refuses;
    told.of_other_family = all.has(RTA_VIA) && !refuses;
    // Routes of a dump come in their order. One that is made goes first (`ip route prepend`) unless it is appended; `ip route add` makes
    // none where one is.
    told.goes_first = fixed.rtm_family == AF_INET && !replaces && (header_flags & (NLM_F_CREATE | NLM_F_APPEND)) == NLM_F_CREATE;
    byte_span ways = all.bytes(RTA_MULTIPATH);
    if (all.has(RTA_MULTIPATH) && !take_way(ways, told)) return verdict::malformed;
    if (!leads_somewhere) told.interface = 0, told.gateway = any, told.gateway_on_link = false, ways = {}; // but what it replaces is gone
    told.more = !ways.empty();
    ways_ = ways;
    of_ways_ = told;
    out = told;
    return verdict::told;
}

/// Each way ends at a length that was checked, so that they end.
verdict message_reader::next_way(change& out) noexcept {
    route_change told = of_ways_;
    told.replaces = told.goes_first = false; // or it would take the place of those before it
    told.further = true;
    told.gateway = any_of(told.destination.is_v4() ? AF_INET : AF_INET6);
    if (!take_way(ways_, told)) {
        ways_ = {};
        return verdict::malformed;
    }
    told.more = !ways_.empty();
    out = told;
    return verdict::told;
}

verdict message_reader::read_message(const nlmsghdr& header, byte_span payload, change& out) noexcept {
    switch (header.nlmsg_type) {
    case RTM_NEWADDR:
    case RTM_DELADDR: return read_address(payload, header.nlmsg_type == RTM_DELADDR, out);
    case RTM_NEWROUTE:
    case RTM_DELROUTE: return read_route(payload, header.nlmsg_flags, header.nlmsg_type == RTM_DELROUTE, out);
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH: return read_neighbor(payload, header.nlmsg_type == RTM_DELNEIGH, out);
    case RTM_NEWLINK:
    case RTM_DELLINK: return read_link(payload, header.nlmsg_type == RTM_DELLINK, out);
    case RTM_DELNEXTHOP: return read_nexthop(payload, out);
    case NLMSG_DONE: return verdict::done;
    default: return verdict::ignored;
    }
}

verdict message_reader::next(change& out) noexcept {
    nlmsghdr header;
    if (!ways_.empty()) return next_way(out);
    if (rest_.size() < sizeof header) return std::exchange(rest_, {}).empty() ? verdict::end : verdict::malformed;
    CW_DEBUG_ASSERT(reinterpret_cast<std::uintptr_t>(rest_.data()) % MNL_ALIGNTO == 0, "netlink messages are aligned to four bytes");
    std::memcpy(&header, rest_.data(), sizeof header);
    if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest_.size()) {
        rest_ = {};
        return verdict::malformed;
    }
    const byte_span payload = rest_.subspan(sizeof header, header.nlmsg_len - sizeof header);
    rest_ = rest_.subspan(std::min<std::size_t>(MNL_ALIGN(std::size_t{header.nlmsg_len}), rest_.size()));
    sequence_ = header.nlmsg_seq;
    interrupted_ = (header.nlmsg_flags & NLM_F_DUMP_INTR) != 0;
    if (header.nlmsg_type != NLMSG_ERROR) return read_message(header, payload, out);
    if (payload.size() < sizeof(int)) return verdict::malformed;
    std::memcpy(&error_, payload.data(), sizeof error_);
    error_ = error_ < 0 && error_ > -4096 ? -error_ : 0;
    return verdict::failed;
}

} // namespace corewire::netlink
