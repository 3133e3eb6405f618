#include <corewire/rdma/verbs/flow_rule.hh>

#include <corewire/rdma/verbs/error.hh>

#include <arpa/inet.h>
#include <cstring>
#include <fmt/format.h>

namespace corewire::verbs {

namespace {

/// The attribute and its specifications, one behind the other as the kernel reads them.
struct rule_layout {
    ibv_flow_attr attributes;
    std::byte specifications[sizeof(ibv_flow_spec_eth) + sizeof(ibv_flow_spec_ipv6) + sizeof(ibv_flow_spec_tcp_udp)];
};

class rule_writer {
public:
    explicit rule_writer(const flow_options& o) {
        layout_.attributes.type = IBV_FLOW_ATTR_NORMAL;
        layout_.attributes.priority = o.priority;
        layout_.attributes.port = o.port;
        if (o.copy) layout_.attributes.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
    }
    template <typename Spec>
    void add(const Spec& spec) {
        std::memcpy(layout_.specifications + used_, &spec, sizeof spec);
        used_ += sizeof spec;
        ++layout_.attributes.num_of_specs;
    }
    ibv_flow_attr* finish() {
        layout_.attributes.size = static_cast<std::uint16_t>(sizeof(ibv_flow_attr) + used_);
        return &layout_.attributes;
    }

private:
    alignas(8) rule_layout layout_{};
    std::size_t used_ = 0;
};

template <typename Spec>
Spec blank(ibv_flow_spec_type type) {
    Spec s{};
    s.type = type;
    s.size = sizeof s;
    return s;
}

ibv_flow_spec_eth ethernet_part(const flow_match& m) {
    auto s = blank<ibv_flow_spec_eth>(IBV_FLOW_SPEC_ETH);
    if (m.destination_mac) {
        m.destination_mac->store(reinterpret_cast<std::byte*>(s.val.dst_mac));
        std::memset(s.mask.dst_mac, 0xff, sizeof s.mask.dst_mac);
    }
    if (m.vlan) {
        s.val.vlan_tag = htons(*m.vlan & 0xfff);
        s.mask.vlan_tag = htons(0xfff);
    }
    std::optional<std::uint16_t> type = m.ether_type;
    if (!type && m.of_ip()) type = m.of_ipv6() ? std::uint16_t{0x86dd} : std::uint16_t{0x0800};
    if (type) {
        s.val.ether_type = htons(*type);
        s.mask.ether_type = 0xffff;
    }
    return s;
}

ibv_flow_spec_ipv4 ipv4_part(const flow_match& m) {
    auto s = blank<ibv_flow_spec_ipv4>(IBV_FLOW_SPEC_IPV4);
    const auto set = [](std::uint32_t& value, std::uint32_t& mask, const std::optional<net_address>& wanted) {
        if (!wanted) return;
        value = htonl(wanted->v4().value());
        mask = 0xffffffff;
    };
    set(s.val.src_ip, s.mask.src_ip, m.source);
    set(s.val.dst_ip, s.mask.dst_ip, m.destination);
    return s;
}

ibv_flow_spec_ipv6 ipv6_part(const flow_match& m) {
    auto s = blank<ibv_flow_spec_ipv6>(IBV_FLOW_SPEC_IPV6);
    const auto set = [](std::uint8_t (&value)[16], std::uint8_t (&mask)[16], const std::optional<net_address>& wanted) {
        if (!wanted) return;
        wanted->v6().store(reinterpret_cast<std::byte*>(value));
        std::memset(mask, 0xff, sizeof mask);
    };
    set(s.val.src_ip, s.mask.src_ip, m.source);
    set(s.val.dst_ip, s.mask.dst_ip, m.destination);
    return s;
}

ibv_flow_spec_tcp_udp ports_part(const flow_match& m) {
    auto s = blank<ibv_flow_spec_tcp_udp>(*m.protocol == 6 ? IBV_FLOW_SPEC_TCP : IBV_FLOW_SPEC_UDP);
    const auto set = [](std::uint16_t& value, std::uint16_t& mask, const std::optional<std::uint16_t>& wanted) {
        if (!wanted) return;
        value = htons(*wanted);
        mask = 0xffff;
    };
    set(s.val.src_port, s.mask.src_port, m.source_port);
    set(s.val.dst_port, s.mask.dst_port, m.destination_port);
    return s;
}

} // namespace

flow_rule::flow_rule(const verbs_api& api, ibv_qp* pair, const flow_match& match, const flow_options& options) {
    rule_writer rule(options);
    rule.add(ethernet_part(match));
    if (match.of_ip() && match.of_ipv6()) rule.add(ipv6_part(match));
    else if (match.of_ip()) rule.add(ipv4_part(match));
    if (match.protocol && (*match.protocol == 6 || *match.protocol == 17)) rule.add(ports_part(match));
    ibv_flow* made = api.create_flow(pair, rule.finish());
    if (made == nullptr)
        fail(operation::create_flow, errno,
             fmt::format("steer {} to queue pair {:#x} on {}", to_string(match), pair->qp_num, pair->context->device->name));
    rule_ = {api, made};
}

std::string to_string(const flow_match& m) {
    std::string text;
    if (m.protocol) text = *m.protocol == 6 ? "TCP" : *m.protocol == 17 ? "UDP" : fmt::format("IP protocol {}", *m.protocol);
    else if (m.of_ip()) text = m.of_ipv6() ? "IPv6" : "IPv4";
    else if (m.ether_type) text = fmt::format("EtherType {:#06x}", *m.ether_type);
    else text = "packets";
    const auto host = [](const std::optional<net_address>& address, const std::optional<std::uint16_t>& port) {
        std::string name = address ? wire::to_string(*address) : "any";
        if (address && !address->is_v4() && port) name = '[' + name + ']';
        return name + (port ? fmt::format(":{}", *port) : "");
    };
    if (m.source || m.source_port) text += " from " + host(m.source, m.source_port);
    if (m.destination || m.destination_port) text += " to " + host(m.destination, m.destination_port);
    if (m.destination_mac) text += " for " + wire::to_string(*m.destination_mac);
    if (m.vlan) text += fmt::format(" of VLAN {}", *m.vlan);
    return text;
}

} // namespace corewire::verbs
