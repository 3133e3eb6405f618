// Completions and events: how the fake tells what happened.
#include <corewire/rdma/fake/objects.hh>

#include <cerrno>
#include <unistd.h>

namespace corewire::fake {

namespace {

void ring(const unique_fd& fd) {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(fd.get(), &one, sizeof one));
}

/// Taking a completion gives its queue the room back.
void retire(const completion& c) {
    if (c.receives != nullptr) --c.receives->used;
    else if (c.pair != nullptr && c.send_index > c.pair->sends_retired) c.pair->sends_retired = c.send_index;
    const bool read = c.wc.opcode == IBV_WC_RDMA_READ || c.wc.opcode == IBV_WC_COMP_SWAP || c.wc.opcode == IBV_WC_FETCH_ADD;
    if (read && c.pair->reads_under_way != 0) --c.pair->reads_under_way;
}

/// All that is posted completes, and is nobody's any more.
void flush(state& s, receive_queue& queue, queue_pair* pair, completion_queue& to) {
    for (std::deque<posted_receive>* list : {&queue.visible, &queue.hidden}) {
        for (const posted_receive& r : std::exchange(*list, {})) {
            completion c{};
            c.pair = pair;
            c.receives = &queue;
            c.wc.wr_id = r.id;
            c.wc.status = IBV_WC_WR_FLUSH_ERR;
            c.wc.opcode = IBV_WC_RECV;
            if (pair != nullptr) c.wc.qp_num = pair->qp().qp_num;
            s.complete(to, c);
        }
    }
}

} // namespace

void state::complete(completion_queue& to, const completion& c) {
    if (to.failed) return;
    if (to.entries.size() >= to.shrunk.value_or(static_cast<unsigned>(to.base.cqe))) {
        if (!to.shrunk) complain("a completion queue overran");
        to.failed = true;
        ibv_async_event event{};
        event.event_type = IBV_EVENT_CQ_ERR;
        event.element.cq = ::ibv_cq_ex_to_cq(&to.base);
        raise(event);
        return;
    }
    to.entries.push_back(c);
    to.entries.back().time = ++clock;
    ++counts.completions;
    if (!to.armed || to.wakes == nullptr) return;
    if (to.armed_for_solicited && c.wc.status == IBV_WC_SUCCESS) return;
    if (++to.since_event < to.moderate_count && c.wc.status == IBV_WC_SUCCESS) return; // more may come, says who moderates
    to.armed = false;
    if (lost_events != 0) {
        --lost_events;
        return;
    }
    ++counts.events;
    to.wakes->pending.push_back(&to);
    ring(to.wakes->wake);
}

void state::complete_send(queue_pair& pair, const accepted_send& send) {
    if (hold && send.status == IBV_WC_SUCCESS) {
        pair.held.push_back(send);
        return;
    }
    completion c{};
    c.pair = &pair;
    c.send_index = send.index;
    c.wc.wr_id = send.id;
    c.wc.status = send.status;
    c.wc.opcode = send.opcode;
    c.wc.byte_len = send.bytes;
    c.wc.qp_num = pair.qp().qp_num;
    complete(queue_of(pair.qp().send_cq), c);
}

void state::flush_receives(queue_pair& pair) {
    if (pair.qp().srq != nullptr || pair.receives_alone()) return;
    flush(*this, pair.own, &pair, queue_of(pair.qp().recv_cq));
}

void state::flush_receives(work_queue& queue) { flush(*this, queue.queue, nullptr, queue_of(queue.base.cq)); }

void state::fail_work_queue(work_queue& queue) {
    queue.base.state = IBV_WQS_ERR;
    flush_receives(queue);
    ibv_async_event event{};
    event.event_type = IBV_EVENT_WQ_FATAL;
    event.element.wq = &queue.base;
    raise(event);
}

void state::fail_pair(queue_pair& pair, ibv_qp_state to) {
    if (pair.receives_alone()) return;
    pair.qp().state = to;
    for (accepted_send& send : pair.held) { // held back so far: done all the same, or flushed
        const bool was = std::exchange(hold, false);
        if (to == IBV_QPS_ERR) send.status = IBV_WC_WR_FLUSH_ERR;
        complete_send(pair, send);
        hold = was;
    }
    pair.held.clear();
    if (to != IBV_QPS_ERR) return;
    for (waiting_send& send : std::exchange(pair.waiting, {})) {
        send.about.status = IBV_WC_WR_FLUSH_ERR;
        complete_send(pair, send.about);
    }
    flush_receives(pair);
}

int poll_queue(ibv_cq* from, int room, ibv_wc* out) {
    const std::lock_guard guard(lock());
    completion_queue& queue = queue_of(from);
    state& s = state_of(from->context);
    s.pump();
    if (queue.failed) return queue.quiet ? 0 : -1;
    int taken = 0;
    for (; taken < room && !queue.entries.empty(); ++taken) {
        retire(queue.entries.front());
        out[taken] = queue.entries.front().wc;
        queue.entries.pop_front();
    }
    return taken;
}

int request_notification(ibv_cq* of, int solicited_only) {
    const std::lock_guard guard(lock());
    completion_queue& queue = queue_of(of);
    state& s = state_of(of->context);
    if (s.removed) return EIO;
    queue.armed = true;
    queue.since_event = 0;
    queue.armed_for_solicited = solicited_only != 0;
    // The wire is asked to wake the sleeper; what waits on it already is taken in, and wakes it at once.
    if (s.wire != nullptr && queue.wakes != nullptr) {
        if (s.wire->prepare_sleep()) s.wire_asleep = true;
        else s.pump();
    }
    return 0;
}

// ---- ibv_start_poll and so on ----

namespace {

bool take_next(completion_queue& queue) {
    if (queue.entries.empty()) return false;
    retire(queue.entries.front());
    queue.current = queue.entries.front();
    queue.entries.pop_front();
    queue.base.wr_id = queue.current->wc.wr_id;
    queue.base.status = queue.current->wc.status;
    return true;
}

completion_queue& queue_of(ibv_cq_ex* q) { return *reinterpret_cast<completion_queue*>(q); }

const ibv_wc& current(ibv_cq_ex* q) { return queue_of(q).current->wc; }

} // namespace

void add_extended_polling(completion_queue& queue) {
    ibv_cq_ex& q = queue.base;
    q.start_poll = [](ibv_cq_ex* at, ibv_poll_cq_attr*) {
        const std::lock_guard guard(lock());
        state_of(at->context).pump();
        if (queue_of(at).failed) return queue_of(at).quiet ? ENOENT : EIO;
        return take_next(queue_of(at)) ? 0 : ENOENT;
    };
    q.next_poll = [](ibv_cq_ex* at) {
        const std::lock_guard guard(lock());
        return take_next(queue_of(at)) ? 0 : ENOENT;
    };
    q.end_poll = [](ibv_cq_ex* at) { queue_of(at).current.reset(); };
    q.read_opcode = [](ibv_cq_ex* at) { return current(at).opcode; };
    q.read_vendor_err = [](ibv_cq_ex* at) { return current(at).vendor_err; };
    q.read_byte_len = [](ibv_cq_ex* at) { return current(at).byte_len; };
    q.read_imm_data = [](ibv_cq_ex* at) { return current(at).imm_data; };
    q.read_qp_num = [](ibv_cq_ex* at) { return current(at).qp_num; };
    q.read_src_qp = [](ibv_cq_ex* at) { return current(at).src_qp; };
    q.read_wc_flags = [](ibv_cq_ex* at) { return static_cast<unsigned>(current(at).wc_flags); };
    q.read_slid = [](ibv_cq_ex* at) { return static_cast<std::uint32_t>(current(at).slid); };
    q.read_completion_ts = [](ibv_cq_ex* at) { return queue_of(at).current->time; };
}

} // namespace corewire::fake
