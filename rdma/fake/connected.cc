// What RC queue pairs do: messages, remote memory, windows. All fakes are ports of one switch; queue pair numbers are unique on it.
//
//     send queue -> alike() -- the peer it was connected to: state, link, GID, number, on both sides
//                        |-> SEND, WRITE with immediate: a posted receive, or not ready (again at the next pump)
//                        '-> WRITE, READ, atomics: access flags of queue pair and key, bounds, alignment -> memory
//
// What the other end refuses ends both queue pairs, as InfiniBand has it (9.9.2, 9.9.3): the requester's send fails with the status
// that belongs to the refusal, the responder's pair goes to ERR with an event. What nobody answers fails the sender alone: after its
// retries by nic_options::clock, without one at once. A receiver that is not ready is asked again whenever somebody polls.
#include <corewire/rdma/fake/setup.hh>

#include <cstring>

namespace corewire::fake {

namespace {

bool answers(ibv_qp_state s) { return s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQD; }

/// The queue pair at the other end, if a packet to it would be answered.
queue_pair* peer_of(state& ours, const queue_pair& from) {
    if (!ours.up || from.mute) return nullptr;
    const ibv_qp_attr& to = from.attributes;
    const ibv_gid_type version = ours.gid_type_at(to.ah_attr.grh.sgid_index); // a port drops packets of the other one
    for (state* nic : detail::all_nics()) {
        if (!nic->up || nic->removed || nic->options.ethernet != ours.options.ethernet ||
            !nic->has_gid(to.ah_attr.grh.dgid, version))
            continue;
        for (queue_pair* pair : nic->pairs) {
            if (pair->qp().qp_num != to.dest_qp_num || pair->made_with.qp_type != IBV_QPT_RC) continue;
            if (pair->mute || !answers(pair->qp().state)) continue;
            const bool knows_us = pair->attributes.dest_qp_num == const_cast<queue_pair&>(from).qp().qp_num;
            return knows_us && ours.has_gid(pair->attributes.ah_attr.grh.dgid, version) ? pair : nullptr;
        }
    }
    return nullptr;
}

/// The bytes that a key opens to this queue pair, or null.
std::byte* open_with(state& there, const queue_pair& to, std::uint32_t key, std::uint64_t at, std::uint64_t size, unsigned access) {
    if ((to.attributes.qp_access_flags & access) != access) return nullptr;
    const auto within = [&](std::uintptr_t begin, std::uint64_t length) {
        return at >= begin && size <= length && at - begin <= length - size;
    };
    if (const region* r = there.region_of(key); r != nullptr) {
        if (r->in != to.in->plain || (r->access & access) != access) return nullptr;
        return within(reinterpret_cast<std::uintptr_t>(r->base.addr), r->base.length) ? reinterpret_cast<std::byte*>(at) : nullptr;
    }
    const window* w = there.window_of(key);
    if (w == nullptr || w->bound_to != &to || (w->access & access) != access) return nullptr;
    return within(w->begin, w->size) ? reinterpret_cast<std::byte*>(at) : nullptr;
}

/// A request that the other end refuses: its queue pair fails, too.
ibv_wc_status refused(queue_pair& by, ibv_wc_status status) {
    state& there = state_of(by.qp().context);
    ibv_async_event event{};
    event.event_type = status == IBV_WC_REM_ACCESS_ERR ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR;
    event.element.qp = &by.qp();
    there.raise(event);
    there.fail_pair(by, IBV_QPS_ERR);
    return status;
}

/// Puts what was sent into the next posted receive. Nothing: there is none.
std::optional<ibv_wc_status> message(queue_pair& to, const queue_pair& from, const ibv_send_wr& wr, byte_span bytes) {
    receive_queue& queue = to.receives();
    if (queue.visible.empty()) return std::nullopt;
    state& there = state_of(to.qp().context);
    ibv_wc about{};
    about.src_qp = const_cast<queue_pair&>(from).qp().qp_num;
    about.opcode = IBV_WC_RECV;
    if (wr.opcode == IBV_WR_SEND_WITH_IMM || wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        about.wc_flags = IBV_WC_WITH_IMM;
        about.imm_data = wr.imm_data;
    }
    if (wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
        about.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        about.byte_len = static_cast<std::uint32_t>(bytes.size());
        bytes = {};
    }
    switch (there.fill(to, queue, queue_of(to.qp().recv_cq), bytes, about)) { // fails `to` by itself
    case IBV_WC_SUCCESS: return IBV_WC_SUCCESS;
    case IBV_WC_LOC_LEN_ERR: return IBV_WC_REM_INV_REQ_ERR;
    default: return IBV_WC_REM_OP_ERR;
    }
}

/// A device holds back what goes beyond its own limit; beyond the other end's it is refused.
bool too_many(queue_pair& from, const queue_pair& to) {
    const unsigned most = to.attributes.max_dest_rd_atomic;
    return ++from.reads_under_way > most && from.attributes.max_rd_atomic > most;
}

ibv_wc_status read(state& ours, queue_pair& from, queue_pair& to, const ibv_send_wr& wr) {
    if (from.attributes.max_rd_atomic == 0) {
        ours.complain("a READ was posted to a queue pair that was made ready to send without any");
        return IBV_WC_LOC_QP_OP_ERR;
    }
    std::uint64_t size = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        size += wr.sg_list[i].length;
        if (ours.reach(wr.sg_list[i], from.in, IBV_ACCESS_LOCAL_WRITE) != nullptr) continue;
        ours.complain("a READ goes into memory that is not registered for writing with this key and domain");
        return IBV_WC_LOC_PROT_ERR;
    }
    if (too_many(from, to)) return refused(to, IBV_WC_REM_INV_REQ_ERR);
    state& there = state_of(to.qp().context);
    const std::byte* at = size == 0 ? nullptr : open_with(there, to, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, size, IBV_ACCESS_REMOTE_READ);
    if (size != 0 && at == nullptr) return refused(to, IBV_WC_REM_ACCESS_ERR);
    for (int i = 0; i < wr.num_sge; ++i) {
        if (wr.sg_list[i].length == 0) continue;
        std::memmove(reinterpret_cast<std::byte*>(wr.sg_list[i].addr), at, wr.sg_list[i].length);
        at += wr.sg_list[i].length;
    }
    return IBV_WC_SUCCESS;
}

ibv_wc_status change(state& ours, queue_pair& from, queue_pair& to, const ibv_send_wr& wr) {
    if (from.attributes.max_rd_atomic == 0) {
        ours.complain("an atomic was posted to a queue pair that was made ready to send without READs");
        return IBV_WC_LOC_QP_OP_ERR;
    }
    if (wr.num_sge != 1 || wr.sg_list[0].length != 8) return IBV_WC_LOC_LEN_ERR;
    std::byte* const into = ours.reach(wr.sg_list[0], from.in, IBV_ACCESS_LOCAL_WRITE);
    if (into == nullptr) return IBV_WC_LOC_PROT_ERR;
    if (wr.wr.atomic.remote_addr % 8 != 0 || too_many(from, to)) return refused(to, IBV_WC_REM_INV_REQ_ERR);
    state& there = state_of(to.qp().context);
    std::byte* const at = open_with(there, to, wr.wr.atomic.rkey, wr.wr.atomic.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (at == nullptr) return refused(to, IBV_WC_REM_ACCESS_ERR);
    std::uint64_t was = 0;
    std::memcpy(&was, at, 8);
    std::memcpy(into, &was, 8);
    std::uint64_t is = was;
    if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) is += wr.wr.atomic.compare_add;
    else if (was == wr.wr.atomic.compare_add) is = wr.wr.atomic.swap;
    std::memcpy(at, &is, 8);
    return IBV_WC_SUCCESS;
}

/// What the other end does with a request; nothing: it has no receive for it.
std::optional<ibv_wc_status> ask(state& ours, queue_pair& from, queue_pair& to, const ibv_send_wr& wr, byte_span bytes) {
    state& there = state_of(to.qp().context);
    switch (wr.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM: return message(to, from, wr, bytes);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: {
        std::byte* at = nullptr;
        if (!bytes.empty()) { // of nothing: no key is asked for
            at = open_with(there, to, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr, bytes.size(), IBV_ACCESS_REMOTE_WRITE);
            if (at == nullptr) return refused(to, IBV_WC_REM_ACCESS_ERR);
        }
        if (wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && to.receives().visible.empty()) return std::nullopt;
        if (at != nullptr) std::memmove(at, bytes.data(), bytes.size());
        return wr.opcode == IBV_WR_RDMA_WRITE ? IBV_WC_SUCCESS : message(to, from, wr, bytes);
    }
    case IBV_WR_RDMA_READ: return read(ours, from, to, wr);
    default: return change(ours, from, to, wr);
    }
}

/// A window of type 2: a key of its own for a stretch of a region, for one queue pair (IBTA 10.6.7.2.2).
ibv_wc_status bind_window(state& s, queue_pair& pair, const ibv_send_wr& wr) {
    window* const w = s.window_at(wr.bind_mw.rkey);
    region* const r = s.region_of(wr.bind_mw.bind_info.mr->lkey);
    const auto& what = wr.bind_mw.bind_info;
    constexpr unsigned changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    const char* wrong = nullptr;
    if (w == nullptr || &w->base != wr.bind_mw.mw) wrong = "a window is bound with the key of another one";
    else if (w->bound_to != nullptr) wrong = "a window is bound before its last binding was withdrawn";
    else if (wr.bind_mw.rkey == w->base.rkey) wrong = "a window is bound with the key that it had";
    else if (r == nullptr || r->in != pair.in->plain || w->in != pair.in->plain) wrong = "a window is bound across domains";
    else if ((r->access & IBV_ACCESS_MW_BIND) == 0) wrong = "a window is bound to a region that was not registered for that";
    else if ((what.mw_access_flags & changes) != 0 && (r->access & IBV_ACCESS_LOCAL_WRITE) == 0)
        wrong = "a window lets change what its region does not";
    else if (const ibv_sge all{what.addr, static_cast<std::uint32_t>(what.length), r->base.lkey}; s.reach(all, pair.in, 0) == nullptr)
        wrong = "a window goes beyond its region";
    if (wrong != nullptr) {
        s.complain(wrong);
        return IBV_WC_MW_BIND_ERR;
    }
    w->bound_to = &pair;
    w->of = r;
    ++r->windows;
    w->begin = what.addr;
    w->size = what.length;
    w->access = what.mw_access_flags;
    w->key = wr.bind_mw.rkey;
    w->base.rkey = wr.bind_mw.rkey;
    return IBV_WC_SUCCESS;
}

ibv_wc_status withdraw(state& s, const queue_pair& pair, std::uint32_t key) {
    window* const w = s.window_of(key);
    if (w == nullptr || w->bound_to != &pair) {
        s.complain("a key is withdrawn that opens nothing here");
        return IBV_WC_LOC_QP_OP_ERR;
    }
    w->unbind();
    return IBV_WC_SUCCESS;
}

} // namespace

void window::unbind() noexcept {
    if (bound_to == nullptr) return;
    --of->windows;
    bound_to = nullptr;
    of = nullptr;
}

window* state::window_at(std::uint32_t key) noexcept {
    const auto found = windows.find(key >> 8);
    return found == windows.end() ? nullptr : found->second;
}

window* state::window_of(std::uint32_t key) noexcept {
    window* const w = window_at(key);
    return w != nullptr && w->bound_to != nullptr && w->key == key ? w : nullptr;
}

std::optional<ibv_wc_status> state::send_connected(queue_pair& from, const ibv_send_wr& wr, byte_span bytes, bool& done) {
    if (wr.opcode == IBV_WR_BIND_MW) return bind_window(*this, from, wr);
    if (wr.opcode == IBV_WR_LOCAL_INV) return withdraw(*this, from, wr.invalidate_rkey);
    queue_pair* const to = peer_of(*this, from);
    if (to == nullptr) return IBV_WC_RETRY_EXC_ERR;
    const auto outcome = ask(*this, from, *to, wr, bytes);
    if (outcome == IBV_WC_SUCCESS) {
        ++counts.requests_served;
        if (lost_acknowledgements != 0) {
            --lost_acknowledgements;
            done = true;
            return IBV_WC_RETRY_EXC_ERR;
        }
    }
    return outcome;
}

/// 4.096 us x 2^timeout, for each time that it is sent (IBTA 9.7.6.1.3); 0: for ever.
time_point state::end_of_patience(const queue_pair& pair) const {
    if (!options.clock || pair.attributes.timeout == 0) return never;
    return options.clock() + (pair.attributes.retry_cnt + 1) * duration{4096} * (std::int64_t{1} << pair.attributes.timeout);
}

/// What waits for a receive of the other end, or for an answer: tried again, in order, as often as the queue pair is to (7: for ever).
void state::retry(queue_pair& pair) {
    while (!pair.waiting.empty()) {
        auto line = std::exchange(pair.waiting, {}); // the other end may be this very pair, and flush what waits
        waiting_send& first = line.front();
        first.wr.sg_list = first.pieces.data();
        std::optional<ibv_wc_status> outcome = IBV_WC_RETRY_EXC_ERR;
        if (!first.done) outcome = send_connected(pair, first.wr, first.bytes, first.done);
        pair.waiting.swap(line);
        if (!outcome && (pair.attributes.rnr_retry == 7 || first.tries++ < pair.attributes.rnr_retry)) return;
        if (outcome == IBV_WC_RETRY_EXC_ERR && options.clock && options.clock() < first.give_up) return;
        accepted_send done = first.about;
        done.status = outcome.value_or(IBV_WC_RNR_RETRY_EXC_ERR);
        pair.waiting.pop_front();
        finish_send(pair, done); // flushes the rest if it has failed
    }
}

ibv_mw* alloc_mw(ibv_pd* in, ibv_mw_type type) {
    const std::lock_guard guard(lock());
    state& s = state_of(in->context);
    if (const int error = s.options.windows && type == IBV_MW_TYPE_2 ? s.fault("alloc_mw") : EOPNOTSUPP; error != 0) return refuse(error);
    auto* w = new window;
    w->in = domain_of(in).plain;
    ++w->in->users;
    const auto index = static_cast<std::uint32_t>(s.regions.size()); // out of the same numbers, none of which is used twice
    s.regions.push_back(nullptr);
    w->base = {in->context, in, index << 8 | 0x40, 0, type};
    s.windows.emplace(index, w);
    return &w->base;
}

int dealloc_mw(ibv_mw* base) {
    const std::lock_guard guard(lock());
    auto* w = reinterpret_cast<window*>(base);
    w->unbind();
    --w->in->users;
    state_of(base->context).windows.erase(base->rkey >> 8);
    delete w;
    return 0;
}

} // namespace corewire::fake
