// Flow rules: what a device accepts.
#include <corewire/rdma/fake/setup.hh>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace corewire::fake {

namespace {

/// Fields are matched whole or not at all; of a VLAN tag the 12 bits of the identifier.
template <typename Field>
bool whole_or_nothing(const Field& mask) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&mask);
    return std::all_of(bytes, bytes + sizeof mask, [&](std::uint8_t b) { return b == bytes[0]; }) &&
           (bytes[0] == 0 || bytes[0] == 0xff);
}

bool good(const ibv_flow_spec_eth& s) {
    return s.size == sizeof s && whole_or_nothing(s.mask.dst_mac) && whole_or_nothing(s.mask.src_mac) &&
           whole_or_nothing(s.mask.ether_type) && (s.mask.vlan_tag == 0 || s.mask.vlan_tag == host_to_be(std::uint16_t{0xfff}));
}
bool good(const ibv_flow_spec_ipv4& s) {
    return s.size == sizeof s && whole_or_nothing(s.mask.src_ip) && whole_or_nothing(s.mask.dst_ip);
}
bool good(const ibv_flow_spec_ipv6& s) {
    const ibv_flow_ipv6_filter& m = s.mask;
    return s.size == sizeof s && whole_or_nothing(m.src_ip) && whole_or_nothing(m.dst_ip) && m.flow_label == 0 && m.next_hdr == 0 &&
           m.traffic_class == 0 && m.hop_limit == 0;
}
bool good(const ibv_flow_spec_tcp_udp& s) {
    return s.size == sizeof s && whole_or_nothing(s.mask.src_port) && whole_or_nothing(s.mask.dst_port);
}

/// Ethernet first, then IPv4 or IPv6, then ports; sizes that add up.
bool well_formed(const ibv_flow_attr& a) {
    const auto* at = reinterpret_cast<const std::byte*>(&a) + sizeof a;
    const auto* const end = reinterpret_cast<const std::byte*>(&a) + a.size;
    unsigned before = 0;
    for (unsigned i = 0; i < a.num_of_specs; ++i) {
        ibv_flow_spec spec{};
        if (end - at < static_cast<std::ptrdiff_t>(sizeof spec.hdr)) return false;
        std::memcpy(&spec.hdr, at, sizeof spec.hdr);
        if (spec.hdr.size > end - at || spec.hdr.size > sizeof spec) return false;
        std::memcpy(&spec, at, spec.hdr.size);
        if (static_cast<unsigned>(spec.hdr.type) <= before || (before == IBV_FLOW_SPEC_IPV4 && spec.hdr.type == IBV_FLOW_SPEC_IPV6))
            return false;
        before = spec.hdr.type;
        switch (spec.hdr.type) {
        case IBV_FLOW_SPEC_ETH:
            if (!good(spec.eth)) return false;
            break;
        case IBV_FLOW_SPEC_IPV4:
            if (i == 0 || !good(spec.ipv4)) return false;
            break;
        case IBV_FLOW_SPEC_IPV6:
            if (i == 0 || !good(spec.ipv6)) return false;
            break;
        case IBV_FLOW_SPEC_TCP:
        case IBV_FLOW_SPEC_UDP:
            if (i < 2 || !good(spec.tcp_udp)) return false;
            break;
        default: return false;
        }
        at += spec.hdr.size;
    }
    return at == end && a.num_of_specs != 0;
}

template <typename Spec>
void zero_between(std::byte* spec) {
    const auto clear = [spec](std::size_t from, std::size_t to) { std::memset(spec + from, 0, to - from); };
    clear(offsetof(Spec, size) + sizeof Spec::size, offsetof(Spec, val));
    clear(offsetof(Spec, mask) + sizeof Spec::mask, sizeof(Spec));
    if constexpr (std::is_same_v<Spec, ibv_flow_spec_ipv6>) {
        constexpr std::size_t used = offsetof(ibv_flow_ipv6_filter, hop_limit) + 1;
        clear(offsetof(Spec, val) + used, offsetof(Spec, val) + sizeof Spec::val);
        clear(offsetof(Spec, mask) + used, offsetof(Spec, mask) + sizeof Spec::mask);
    }
}

/// A well-formed rule as it is kept: what lies between its fields means nothing and is zero, so that bytes can be compared.
std::vector<std::byte> kept(const ibv_flow_attr& a) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&a);
    std::vector<std::byte> rule(bytes, bytes + a.size);
    for (std::size_t at = sizeof a; at < rule.size();) {
        decltype(ibv_flow_spec::hdr) header;
        std::memcpy(&header, rule.data() + at, sizeof header);
        switch (header.type) {
        case IBV_FLOW_SPEC_ETH: zero_between<ibv_flow_spec_eth>(rule.data() + at); break;
        case IBV_FLOW_SPEC_IPV4: zero_between<ibv_flow_spec_ipv4>(rule.data() + at); break;
        case IBV_FLOW_SPEC_IPV6: zero_between<ibv_flow_spec_ipv6>(rule.data() + at); break;
        default: zero_between<ibv_flow_spec_tcp_udp>(rule.data() + at);
        }
        at += header.size;
    }
    return rule;
}

bool same_match(const flow& a, const ibv_flow_attr& b, const std::vector<std::byte>& rule) {
    return a.attributes().priority == b.priority &&
           std::equal(a.rule.begin() + sizeof b, a.rule.end(), rule.begin() + sizeof b, rule.end());
}

} // namespace

ibv_flow* create_flow(ibv_qp* base, ibv_flow_attr* a) {
    const std::lock_guard guard(lock());
    state& s = state_of(base->context);
    if (const int error = s.fault("create_flow"); error != 0) return refuse(error);
    if (!s.options.may_send_raw) return refuse(EPERM);
    if (base->qp_type != IBV_QPT_RAW_PACKET || a->type != IBV_FLOW_ATTR_NORMAL || a->port != 1) return refuse(EINVAL);
    if (!well_formed(*a)) {
        s.complain("a flow rule has parts in the wrong order, wrong sizes, or a mask that is neither all nor nothing");
        return refuse(EINVAL);
    }
    if (s.flows.size() == s.options.max_rules) return refuse(ENOMEM);
    std::vector<std::byte> rule = kept(*a);
    for (const flow* each : s.flows)
        if (same_match(*each, *a, rule)) return refuse(EEXIST);
    auto* f = new flow;
    f->base.context = base->context;
    f->to = &pair_of(base);
    ++f->to->rules;
    f->rule = std::move(rule);
    f->order = s.next_order++;
    s.flows.push_back(f);
    std::stable_sort(s.flows.begin(), s.flows.end(),
                     [](const flow* x, const flow* y) { return x->attributes().priority < y->attributes().priority; });
    return &f->base;
}

int destroy_flow(ibv_flow* base) {
    const std::lock_guard guard(lock());
    auto* f = reinterpret_cast<flow*>(base);
    state& s = state_of(base->context);
    --f->to->rules;
    std::erase(s.flows, f);
    delete f;
    return 0;
}

} // namespace corewire::fake
