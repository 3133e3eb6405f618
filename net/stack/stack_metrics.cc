#include <corewire/net/stack/stack_metrics.hh>

#include <corewire/net/port/port.hh>
#include <corewire/net/port/wrap/vlan_port.hh>
#include <corewire/net/stack/dhcp_link.hh>
#include <corewire/net/stack/network_stack.hh>

namespace corewire {

namespace {

struct dropped {
    const char* reason;
    const std::uint64_t& packets;
};

/// One family for whatever went no further, by layer and reason: the place to look first.
void register_drops(metric_group& group, const char* layer, std::initializer_list<dropped> all) {
    for (const dropped& each : all)
        group.counter("corewire_packets_dropped_total", "Packets that went no further, by the layer that dropped them and why.",
                      each.packets, join_labels(metric_label("layer", layer), metric_label("reason", each.reason)));
}

void register_vlan(metric_group& group, const vlan_counts& s) {
    register_drops(group, "vlan", {{"untagged", s.untagged},
                                   {"other_vlan", s.other_vlan},
                                   {"malformed", s.malformed},
                                   {"no_frame", s.no_frame}});
}

void register_neighbors(metric_group& group, const neighbor_cache& cache) {
    const neighbor_statistics& s = cache.statistics();
    group.gauge("corewire_neighbors", "Entries of the neighbour cache.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const neighbor_cache*>(of)->size(); }, &cache);
    group.gauge("corewire_neighbor_packets_waiting", "Packets that wait for an address to be resolved.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const neighbor_cache*>(of)->waiting_packets(); },
                &cache);
    group.counter("corewire_neighbors_created_total", "Entries made.", s.created);
    group.counter("corewire_neighbors_evicted_total", "Entries that made room for others.", s.evicted);
    group.counter("corewire_neighbors_resolved_total", "Addresses resolved.", s.resolved);
    group.counter("corewire_neighbors_failed_total", "Addresses that nobody answered for.", s.failed);
    group.counter("corewire_neighbors_table_full_total", "Times no entry could make room.", s.table_full);
    group.counter("corewire_neighbors_strangers_refused_total", "Answers dropped: unresolved strangers had their share of the table.",
                  s.strangers_refused);
    group.counter("corewire_neighbor_packets_queued_total", "Packets that waited for an address.", s.packets_queued);
    group.counter("corewire_arp_requests_sent_total", "ARP requests sent.", s.requests_sent);
    group.counter("corewire_arp_replies_sent_total", "ARP replies sent.", s.replies_sent);
    group.counter("corewire_arp_outbox_full_total", "ARP messages not sent because earlier ones still waited.", s.outbox_full);
    group.counter("corewire_arp_mac_changed_total", "Times a neighbour's MAC address changed.", s.mac_changed);
    group.counter("corewire_arp_mac_change_refused_total", "MAC addresses that changed again too soon.", s.mac_change_refused);
    group.counter("corewire_arp_address_conflicts_total", "ARP messages of others who use our address.",
                  [](const void* of) noexcept { return static_cast<const neighbor_cache*>(of)->claim().conflicts(); }, &cache);
    group.counter("corewire_arp_ignored_total", "ARP messages ignored.", s.ignored_unsolicited, metric_label("reason", "unsolicited"));
    group.counter("corewire_arp_ignored_total", "ARP messages ignored.", s.ignored_malformed, metric_label("reason", "malformed"));
    register_drops(group, "link", {{"queue_full", s.queue_dropped}, {"unreachable", s.unreachable_dropped}});
}

void register_icmp(metric_group& group, const icmp_statistics& s) {
    group.counter("corewire_icmp_received_total", "ICMP messages received.", s.received);
    group.counter("corewire_icmp_echo_requests_total", "Echo requests received.", s.echo_requests);
    group.counter("corewire_icmp_echo_replies_sent_total", "Echo replies sent.", s.echo_replies_sent);
    group.counter("corewire_icmp_echo_replies_received_total", "Echo replies received.", s.echo_replies_received);
    group.counter("corewire_icmp_errors_received_total", "Errors that named a flow of ours.", s.errors_received);
    group.counter("corewire_icmp_errors_sent_total", "Errors sent.", s.errors_sent);
    group.counter("corewire_icmp_errors_forbidden_total", "Errors that the rules forbid to send.", s.errors_forbidden);
    group.counter("corewire_icmp_rate_limited_total", "Errors and replies that the limiter withheld.", s.rate_limited);
    register_drops(group, "icmp", {{"malformed", s.malformed},
                                   {"bad_checksum", s.bad_checksum},
                                   {"ignored", s.ignored},
                                   {"group_echo", s.group_echoes_ignored},
                                   {"foreign_error", s.errors_foreign},
                                   {"no_frame", s.no_frame}});
}

void register_ipv6(metric_group& group, network_stack& stack, const stack_statistics& s) {
    register_drops(group, "ipv6", {{"source_tentative", s.ipv6_source_tentative},
                                   {"extensions", s.ipv6_extensions},
                                   {"fragments_refused", s.ipv6_fragments_refused},
                                   {"discovery_invalid", s.ipv6_discovery_invalid}});
    const icmp_statistics& icmp = stack.six()->icmp().statistics();
    group.counter("corewire_icmpv6_received_total", "ICMPv6 messages received, but for neighbour discovery.", icmp.received);
    group.counter("corewire_icmpv6_echo_replies_sent_total", "ICMPv6 echo replies sent.", icmp.echo_replies_sent);
    group.counter("corewire_icmpv6_errors_received_total", "ICMPv6 errors that named a flow of ours.", icmp.errors_received);
    group.counter("corewire_icmpv6_errors_sent_total", "ICMPv6 errors sent.", icmp.errors_sent);
    group.counter("corewire_icmpv6_rate_limited_total", "ICMPv6 errors and replies that the limiter withheld.", icmp.rate_limited);
    register_drops(group, "icmpv6", {{"malformed", icmp.malformed},
                                     {"bad_checksum", icmp.bad_checksum},
                                     {"ignored", icmp.ignored},
                                     {"group_echo", icmp.group_echoes_ignored},
                                     {"foreign_error", icmp.errors_foreign},
                                     {"mtu_too_small", icmp.errors_too_small},
                                     {"forbidden_error", icmp.errors_forbidden},
                                     {"no_frame", icmp.no_frame}});
    const ipv6_output& out = *stack.ip().six();
    const neighbor_statistics& nd = stack.ip().six()->neighbors().statistics();
    group.counter("corewire_nd_solicitations_sent_total", "Neighbour solicitations sent.", nd.requests_sent);
    group.counter("corewire_nd_advertisements_sent_total", "Neighbour advertisements sent.", nd.replies_sent);
    group.counter("corewire_nd_resolved_total", "IPv6 addresses resolved.", nd.resolved);
    group.counter("corewire_nd_failed_total", "IPv6 addresses that nobody answered for.", nd.failed);
    group.counter("corewire_nd_evicted_total", "Entries that made room for others.", nd.evicted);
    group.counter("corewire_nd_table_full_total", "Times no entry could make room.", nd.table_full);
    group.counter("corewire_nd_strangers_refused_total", "Answers dropped: unresolved strangers had their share of the table.",
                  nd.strangers_refused);
    group.counter("corewire_nd_outbox_full_total", "Messages not sent because earlier ones still waited.", nd.outbox_full);
    group.counter("corewire_nd_not_steered_total", "Times that the port could not bring what is sent to our address or its group.",
                  s.ipv6_not_steered);
    group.counter("corewire_nd_address_conflicts_total", "Messages of others who use an address of ours.",
                  [](const void* of) noexcept { return static_cast<const ipv6_output*>(of)->addresses().conflicts(); }, &out);
    register_drops(group, "nd", {{"queue_full", nd.queue_dropped},
                                 {"unreachable", nd.unreachable_dropped},
                                 {"unsolicited", nd.ignored_unsolicited},
                                 {"malformed", nd.ignored_malformed}});
}

void register_fragments(metric_group& group, const reassembler& fragments) {
    const reassembly_statistics& s = fragments.statistics();
    group.gauge("corewire_ip_reassembling", "Datagrams of which pieces are missing.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const reassembler*>(of)->size(); }, &fragments);
    group.counter("corewire_ip_fragments_received_total", "Fragments received.", s.fragments);
    group.counter("corewire_ip_datagrams_reassembled_total", "Datagrams put together.", s.completed);
    register_drops(group, "fragments", {{"timed_out", s.timed_out},
                                        {"evicted", s.evicted},
                                        {"no_frame", s.no_frame},
                                        {"duplicate", s.duplicates},
                                        {"overlap", s.overlaps},
                                        {"inconsistent", s.inconsistent},
                                        {"posthumous", s.posthumous},
                                        {"too_long", s.too_long},
                                        {"tiny", s.tiny},
                                        {"malformed", s.malformed}});
}

void register_udp(metric_group& group, const udp_demux& demux) {
    const udp_statistics& s = demux.statistics();
    group.gauge("corewire_udp_endpoints", "Bound UDP sockets.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const udp_demux*>(of)->size(); }, &demux);
    group.counter("corewire_udp_datagrams_received_total", "UDP datagrams received.", s.received);
    group.counter("corewire_udp_datagrams_delivered_total", "UDP datagrams put on a socket's queue.", s.delivered);
    group.counter("corewire_udp_ports_exhausted_total", "Binds that found no free port.", s.ports_exhausted);
    group.counter("corewire_udp_endpoints_refused_total", "Binds beyond a limit.", s.endpoints_refused);
    group.counter("corewire_udp_queued_limit_total", "Datagrams dropped because all queues together were full.", s.dropped_total_full);
    register_drops(group, "udp", {{"malformed", s.malformed},
                                  {"bad_checksum", s.bad_checksum},
                                  {"no_port", s.no_port},
                                  {"queue_full", s.dropped_full},
                                  {"no_frame", s.no_frame}});
}

void register_tcp(metric_group& group, const stack_statistics& s) {
    group.counter("corewire_tcp_segments_received_total", "TCP segments received.",
                  [](const void* of) noexcept { return static_cast<const stack_statistics*>(of)->tcp_segments_in(); }, &s);
    group.counter("corewire_tcp_segments_sent_total", "TCP segments sent.",
                  [](const void* of) noexcept { return static_cast<const stack_statistics*>(of)->tcp_segments_out(); }, &s);
    group.counter("corewire_tcp_plain_segments_received_total", "Of these, segments that were just what was expected.", s.tcp_plain_in);
    group.counter("corewire_tcp_plain_segments_sent_total", "Of these, segments with a prepared header.", s.tcp_plain_out);
    group.counter("corewire_tcp_resets_sent_total", "Resets sent for segments of no connection.", s.tcp_resets_sent);
    group.counter("corewire_tcp_cookies_total", "SYN cookies, by what became of them.", s.tcp_cookies_sent,
                  metric_label("outcome", "sent"));
    group.counter("corewire_tcp_cookies_total", "SYN cookies, by what became of them.", s.tcp_cookies_accepted,
                  metric_label("outcome", "accepted"));
    group.counter("corewire_tcp_cookies_total", "SYN cookies, by what became of them.", s.tcp_cookies_rejected,
                  metric_label("outcome", "rejected"));
    group.counter("corewire_tcp_refused_dropped_total",
                  "Connections whose peers took nothing, reset since frames were scarce: ten seconds, or one without a user.",
                  s.tcp_refused_dropped);
    group.counter("corewire_tcp_ahead_dropped_total",
                  "Connections of which was dropped what came beyond a gap, since frames were scarce.", s.tcp_ahead_dropped);
    group.counter("corewire_tcp_small_kept_total", "Small segments and writes that were copied out of frames, which were few.",
                  s.tcp_small_kept);
    group.counter("corewire_tcp_writers_retried_total", "Times that a writer who waited for frames was asked again.",
                  s.tcp_writers_retried);
    group.counter("corewire_tcp_time_wait_ended_total", "Connections in TIME-WAIT that made room for others before their time.",
                  s.tcp_time_wait_ended);
    constexpr const char* fast_open = "SYNs with Fast Open (RFC 7413), by what became of them.";
    group.counter("corewire_tcp_fast_open_total", fast_open, s.tcp_fast_open_accepted, metric_label("outcome", "accepted"));
    group.counter("corewire_tcp_fast_open_total", fast_open, s.tcp_fast_open_asked, metric_label("outcome", "cookie_given"));
    group.counter("corewire_tcp_fast_open_total", fast_open, s.tcp_fast_open_bad_cookie, metric_label("outcome", "bad_cookie"));
    group.counter("corewire_tcp_fast_open_total", fast_open, s.tcp_fast_open_full, metric_label("outcome", "limit"));
    register_drops(group, "tcp", {{"malformed", s.malformed_tcp},
                                  {"signed", s.tcp_signed},
                                  {"too_far", s.tcp_too_far},
                                  {"bad_checksum", s.bad_tcp_checksum},
                                  {"no_connection", s.tcp_no_connection},
                                  {"backlog_full", s.tcp_backlog_full},
                                  {"connection_limit", s.tcp_connection_limit}});
}

void register_dhcp(metric_group& group, const dhcp_link& dhcp) {
    const dhcp_statistics& s = dhcp.client().statistics();
    group.gauge("corewire_dhcp_leased", "1 while a DHCP server lets us have an address.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const dhcp_link*>(of)->lease() != nullptr; }, &dhcp);
    group.counter("corewire_dhcp_sent_total", "Messages to DHCP servers.", s.sent);
    group.counter("corewire_dhcp_received_total", "Datagrams to the port of DHCP clients.", s.received);
    group.counter("corewire_dhcp_leases_total", "Addresses that servers have given us.", s.leases);
    group.counter("corewire_dhcp_renewals_total", "Leases made longer.", s.renewals);
    constexpr const char* lost = "Addresses that we could not take or keep, by why.";
    group.counter("corewire_dhcp_addresses_lost_total", lost, s.refused, metric_label("reason", "refused"));
    group.counter("corewire_dhcp_addresses_lost_total", lost, s.conflicts, metric_label("reason", "conflict"));
    group.counter("corewire_dhcp_addresses_lost_total", lost, s.expired, metric_label("reason", "expired"));
    register_drops(group, "dhcp",
                   {{"malformed", s.malformed}, {"not_expected", s.ignored}, {"unusable", s.unusable}, {"left_out", s.left_out}});
}

void register_dhcp6(metric_group& group, const dhcp6_client& client) {
    const dhcp6_statistics& s = client.statistics();
    group.gauge("corewire_dhcp6_addresses", "Addresses that DHCPv6 servers let us have.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const dhcp6_client*>(of)->lease().addresses.count; },
                &client);
    group.counter("corewire_dhcp6_sent_total", "Messages to DHCPv6 servers.", s.sent);
    group.counter("corewire_dhcp6_received_total", "Datagrams to the port of DHCPv6 clients.", s.received);
    group.counter("corewire_dhcp6_leases_total", "Leases that servers have given us.", s.leases);
    group.counter("corewire_dhcp6_renewals_total", "Leases made longer.", s.renewals);
    constexpr const char* lost = "DHCPv6 addresses that we could not take or keep, by why.";
    group.counter("corewire_dhcp6_addresses_lost_total", lost, s.conflicts, metric_label("reason", "conflict"));
    group.counter("corewire_dhcp6_addresses_lost_total", lost, s.expired, metric_label("reason", "expired"));
    register_drops(group, "dhcp6",
                   {{"malformed", s.malformed}, {"not_expected", s.ignored}, {"refused", s.refused}, {"left_out", s.left_out}});
}

} // namespace

void register_port_metrics(metric_group& group, port& device) {
    const port_statistics& s = device.statistics();
    group.counter("corewire_port_received_packets_total", "Frames received.", s.received_packets);
    group.counter("corewire_port_received_bytes_total", "Bytes of the frames received.", s.received_bytes);
    group.counter("corewire_port_transmitted_packets_total", "Frames transmitted.", s.transmitted_packets);
    group.counter("corewire_port_transmitted_bytes_total", "Bytes of the frames transmitted.", s.transmitted_bytes);
    group.counter("corewire_port_transmit_full_total", "Times the port could not take a whole burst.", s.transmit_full);
    group.counter("corewire_port_system_calls_total", "System calls on the data path.", s.system_calls);
    register_drops(group, "port", {{"no_buffer", s.receive_no_buffer},
                                   {"malformed", s.receive_malformed},
                                   {"transmit", s.transmit_dropped}});
    const frame_pool& pool = device.pool();
    group.gauge("corewire_port_frames", "Frames of the port's pool.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const frame_pool*>(of)->count(); }, &pool);
    group.gauge("corewire_port_frames_free", "Frames of the port's pool that nobody uses.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const frame_pool*>(of)->free_count; }, &pool);
    group.counter("corewire_port_frames_exhausted_total", "Times the port's pool had no frame.",
                  [](const void* of) noexcept { return static_cast<const frame_pool*>(of)->exhausted(); }, &pool);
}

void register_stack_metrics(metric_group& group, network_stack& stack) {
    const stack_statistics& s = stack.statistics();
    group.counter("corewire_stack_frames_received_total", "Frames taken from the port.", s.received);
    group.counter("corewire_stack_frames_handed_over_total", "Frames passed on to the shard that owns their flow.", s.handed_over);
    register_drops(group, "ethernet", {{"malformed", s.malformed_ethernet}, {"other_vlan", s.other_vlan}});
    if (const vlan_port* vlan = stack.vlan()) register_vlan(group, vlan->counts());
    register_drops(group, "ip", {{"not_for_us", s.not_for_us},
                                 {"unknown_protocol", s.unknown_protocol},
                                 {"malformed", s.malformed_ip},
                                 {"bad_checksum", s.bad_ip_checksum},
                                 {"martian", s.martian},
                                 {"source_routed", s.source_routed},
                                 {"no_route", s.no_route},
                                 {"no_frame", s.no_frame},
                                 {"redirect_refused", s.redirects_refused},
                                 {"advertisement_refused", s.advertisements_refused},
                                 {"egress_full", s.egress_full}});
    group.counter("corewire_ip_redirects_total", "Better first hops that routers told (RFC 4861 8, RFC 1122 3.2.2.2).", s.redirects_taken);
    if (stack.six() != nullptr) register_ipv6(group, stack, s);
    const egress& queue = stack.output_queue();
    group.gauge("corewire_egress_packets", "Packets that wait for the port.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const egress*>(of)->waiting(); }, &queue);
    group.counter("corewire_egress_dropped_total", "Packets that found the transmit queue full.",
                  [](const void* of) noexcept { return static_cast<const egress*>(of)->dropped(); }, &queue);
    register_neighbors(group, stack.ip().neighbors());
    register_icmp(group, stack.icmp().statistics());
    register_fragments(group, stack.fragments());
    register_udp(group, stack.udp().demux());
    register_tcp(group, s);
    if (stack.dhcp() != nullptr) register_dhcp(group, *stack.dhcp());
    if (stack.ip().six() != nullptr && stack.ip().six()->dhcp() != nullptr) register_dhcp6(group, *stack.ip().six()->dhcp());
    const tcp::buffer_budget& growth = stack.tcp().buffer_growth();
    group.gauge("corewire_tcp_buffer_growth_bytes", "What the buffers of connections have grown by, all together.",
                [](const void* of) noexcept -> std::uint64_t { return static_cast<const tcp::buffer_budget*>(of)->used(); }, &growth);
    group.counter("corewire_tcp_buffer_growth_refused_total", "Times a buffer could not grow because the shard's limit was reached.",
                  growth.refused());
    group.counter("corewire_tcp_commons_full_total",
                  "Times a connection took parameters or a controller of its own because the shard holds too many different ones.",
                  stack.tcp().commons().refused());
}

} // namespace corewire
