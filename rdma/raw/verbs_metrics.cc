#include <corewire/rdma/raw/verbs_metrics.hh>

#include <corewire/rdma/raw/verbs_port.hh>

namespace corewire {

void register_verbs_metrics(metric_group& group, const verbs_port& device) {
    const verbs_port_statistics& s = device.verbs_statistics();
    const char* const sent = "Frames sent, by the way their bytes took.";
    group.counter("corewire_verbs_doorbells_total", "Doorbells of sends: one a burst.", s.doorbells);
    group.counter("corewire_verbs_receive_doorbells_total", "Doorbells of refills.", s.receive_doorbells);
    group.counter("corewire_verbs_signalled_total", "Sends that asked for a completion.", s.signalled);
    group.counter("corewire_verbs_frames_sent_total", sent, s.inlined, metric_label("way", "inline"));
    group.counter("corewire_verbs_frames_sent_total", sent, s.copied, metric_label("way", "copied"));
    group.counter("corewire_verbs_frames_sent_total", sent, s.segmented, metric_label("way", "segmented"));
    group.counter("corewire_verbs_trains_refused_total", "1: the device refused segments joined to one request, so each goes alone.",
                  s.trains_refused);
    group.counter("corewire_verbs_checksums_judged_total",
                  "Received frames whose checksums the device vouches for; the stack checks those of the others.", s.judged);
    group.counter("corewire_verbs_failed_receives_total", "Completions of receives with an error.", s.failed_receives);
    group.counter("corewire_verbs_failed_sends_total", "Completions of sends with an error.", s.failed_sends);
    group.counter("corewire_verbs_restarts_total", "Times the queue pair was put back to its beginning.", s.restarts);
    group.counter("corewire_verbs_rests_total", "Times it was left alone for a while, as that did not help.", s.rests);
    group.counter("corewire_verbs_link_changes_total", "Times the link went up or down.", s.link_changes);
}

} // namespace corewire
