#include <corewire/rdma/ud_link/ud_metrics.hh>

#include <corewire/rdma/ud_link/ud_port.hh>

namespace corewire {

void register_ud_metrics(metric_group& group, const ud_port& device) {
    const ud_port_statistics& s = device.ud_statistics();
    const handle_statistics& h = device.handles().statistics();
    const char* const groups = "Datagrams to and from the broadcast group.";
    const char* const lost = "Packets that were not sent, by reason.";
    group.counter("corewire_verbs_ud_doorbells_total", "Doorbells of sends: one a burst.", s.doorbells);
    group.counter("corewire_verbs_ud_receive_doorbells_total", "Doorbells of refills.", s.receive_doorbells);
    group.counter("corewire_verbs_ud_inlined_total", "Datagrams sent inline.", s.inlined);
    group.counter("corewire_verbs_ud_copied_total", "Frames of somebody else's memory that were copied to be sent.", s.copied);
    group.counter("corewire_verbs_ud_group_datagrams_total", groups, s.to_group, metric_label("direction", "out"));
    group.counter("corewire_verbs_ud_group_datagrams_total", groups, s.from_group, metric_label("direction", "in"));
    group.counter("corewire_verbs_ud_own_echoes_total", "What was sent to the group and heard again.", s.own_echoes);
    group.counter("corewire_verbs_ud_bad_arp_total", "ARP for another kind of link, or from what can't be a host.", s.bad_arp);
    group.counter("corewire_verbs_ud_handles_made_total", "Address handles made.", h.made);
    group.counter("corewire_verbs_ud_handles_refreshed_total", "Address handles made anew for peers heard of again.", h.refreshed);
    group.counter("corewire_verbs_ud_handles_evicted_total", "Address handles that made room for others.", h.evicted);
    group.counter("corewire_verbs_ud_held_total", "Packets that waited until an address handle was made.", h.held);
    group.counter("corewire_verbs_ud_not_sent_total", lost, h.held_lost, metric_label("reason", "no_room_to_wait"));
    group.counter("corewire_verbs_ud_not_sent_total", lost, s.too_long, metric_label("reason", "too_long"));
    group.counter("corewire_verbs_ud_not_sent_total", lost, h.unknown_peer, metric_label("reason", "unknown_peer"));
    group.counter("corewire_verbs_ud_not_sent_total", lost, h.unreachable, metric_label("reason", "unreachable"));
    group.counter("corewire_verbs_ud_not_sent_total", lost, h.no_room, metric_label("reason", "no_handle"));
    group.counter("corewire_verbs_ud_failed_receives_total", "Completions of receives with an error.", s.failed_receives);
    group.counter("corewire_verbs_ud_failed_sends_total", "Completions of sends with an error.", s.failed_sends);
    group.counter("corewire_verbs_ud_restarts_total", "Times the queue pair was put back to its beginning.", s.restarts);
    group.counter("corewire_verbs_ud_rests_total", "Times it was left alone for a while, as that did not help.", s.rests);
    group.counter("corewire_verbs_ud_link_changes_total", "Times the link went up or down.", s.link_changes);
    if (device.hears_group())
        group.counter("corewire_verbs_ud_group_joins_refused_total",
                      "InfiniBand: times that the fabric did not let us into the group again, or did not answer.",
                      device.device().joins_refused());
}

} // namespace corewire
