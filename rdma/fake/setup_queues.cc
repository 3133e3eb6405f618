// Queue pairs and receive queues: making, moving through their states, unmaking.
#include <corewire/rdma/fake/setup.hh>
#include <corewire/rdma/verbs/datagram_header.hh>

#include <algorithm>
#include <bit>
#include <cstring>

namespace corewire::fake {

namespace {

std::uint32_t next_number = 0x100; ///< of queue pairs, over all NICs, so that connected ones find each other

void use(ibv_cq* queue) {
    if (queue != nullptr) ++queue_of(queue).users;
}
void leave(ibv_cq* queue) {
    if (queue != nullptr) --queue_of(queue).users;
}

/// What the kernel demands beside the state itself (ib_modify_qp_is_ok); -1: there is no such step.
int needed(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
    if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) return 0;
    const bool rc = type == IBV_QPT_RC, ud = type == IBV_QPT_UD;
    if (from == IBV_QPS_RESET && to == IBV_QPS_INIT) {
        if (rc) return IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        return ud ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY : static_cast<int>(IBV_QP_PORT);
    }
    if (from == IBV_QPS_INIT && to == IBV_QPS_INIT) return 0;
    if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
        return rc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
                  : 0;
    if (from == IBV_QPS_RTR && to == IBV_QPS_RTS) {
        if (rc) return IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        return ud ? static_cast<int>(IBV_QP_SQ_PSN) : 0;
    }
    if (to == IBV_QPS_RTS && (from == IBV_QPS_RTS || (from == IBV_QPS_SQE && !rc))) return 0;
    return -1;
}

void take_over(ibv_qp_attr& into, const ibv_qp_attr& a, int mask) {
    if ((mask & IBV_QP_PORT) != 0) into.port_num = a.port_num;
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0) into.qp_access_flags = a.qp_access_flags;
    if ((mask & IBV_QP_QKEY) != 0) into.qkey = a.qkey;
    if ((mask & IBV_QP_AV) != 0) into.ah_attr = a.ah_attr;
    if ((mask & IBV_QP_PATH_MTU) != 0) into.path_mtu = a.path_mtu;
    if ((mask & IBV_QP_DEST_QPN) != 0) into.dest_qp_num = a.dest_qp_num;
    if ((mask & IBV_QP_RETRY_CNT) != 0) into.retry_cnt = a.retry_cnt;
    if ((mask & IBV_QP_TIMEOUT) != 0) into.timeout = a.timeout;
    if ((mask & IBV_QP_RNR_RETRY) != 0) into.rnr_retry = a.rnr_retry;
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0) into.max_rd_atomic = a.max_rd_atomic;
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0) into.max_dest_rd_atomic = a.max_dest_rd_atomic;
}

/// Forgets all work of a pair: what RESET and destruction do. Its completions that nobody has polled go too.
void forget_work(queue_pair& pair) {
    for (ibv_cq* each : {pair.qp().send_cq, pair.qp().recv_cq}) {
        if (each == nullptr) continue;
        auto& entries = queue_of(each).entries;
        for (const completion& c : entries)
            if (c.pair == &pair && c.receives != nullptr) --c.receives->used;
        std::erase_if(entries, [&pair](const completion& c) { return c.pair == &pair; });
    }
    if (!pair.receives_alone()) {
        pair.own.visible.clear();
        pair.own.hidden.clear();
        pair.own.used = 0;
    }
    pair.held.clear();
    pair.waiting.clear();
    pair.reads_under_way = 0;
    pair.sends_retired = pair.sends_posted;
}

int refuses_pair(state& s, const ibv_qp_init_attr_ex& a) {
    if (const int error = s.fault("create_qp"); error != 0) return error;
    const nic_options& o = s.options;
    if (a.pd == nullptr) return EINVAL;
    if (a.qp_type == IBV_QPT_RAW_PACKET) {
        if (!o.ethernet) return EOPNOTSUPP;
        if (!o.may_send_raw) return EPERM;
    } else if (a.qp_type != IBV_QPT_RC && a.qp_type != IBV_QPT_UD) {
        return EOPNOTSUPP;
    }
    if ((a.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 && !o.extended_sends) return EOPNOTSUPP;
    if ((a.comp_mask & IBV_QP_INIT_ATTR_MAX_TSO_HEADER) != 0 && !o.segmentation) return EOPNOTSUPP;
    if ((a.comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) != 0) {
        constexpr std::uint64_t tcp = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP;
        constexpr std::uint64_t udp = IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP;
        const ibv_rx_hash_conf& h = a.rx_hash_conf;
        const bool both = (h.rx_hash_fields_mask & tcp) != 0 && (h.rx_hash_fields_mask & udp) != 0; // no device takes both
        constexpr std::uint64_t four = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4, six = IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6;
        const bool families = (h.rx_hash_fields_mask & four) != 0 && (h.rx_hash_fields_mask & six) != 0; // nor these
        return h.rx_hash_function != IBV_RX_HASH_FUNC_TOEPLITZ || h.rx_hash_key_len != 40 || both || families ? EINVAL : 0;
    }
    if (a.send_cq == nullptr || a.recv_cq == nullptr) return EINVAL;
    const bool fits = a.cap.max_send_wr <= o.max_work_requests && a.cap.max_recv_wr <= o.max_work_requests &&
                      a.cap.max_send_sge <= o.max_pieces && a.cap.max_recv_sge <= o.max_pieces &&
                      a.cap.max_inline_data <= o.max_inline;
    return fits ? 0 : EINVAL;
}

} // namespace

ibv_srq* create_srq(ibv_pd* in, ibv_srq_init_attr* a) {
    const std::lock_guard guard(lock());
    state& s = state_of(in->context);
    if (const int error = s.fault("create_srq"); error != 0) return refuse(error);
    if (a->attr.max_wr > s.options.max_work_requests || a->attr.max_sge > s.options.max_pieces) return refuse(EINVAL);
    auto* q = new shared_receives;
    q->base.context = in->context;
    q->base.pd = in;
    q->queue.room = a->attr.max_wr;
    q->queue.pieces = a->attr.max_sge;
    q->queue.in = &domain_of(in);
    ++domain_of(in).users;
    s.shared.insert(q);
    return &q->base;
}

int modify_srq(ibv_srq* base, ibv_srq_attr* a, int mask) {
    const std::lock_guard guard(lock());
    if (const int error = state_of(base->context).fault("modify_srq"); error != 0) return error;
    if ((mask & IBV_SRQ_LIMIT) != 0) reinterpret_cast<shared_receives*>(base)->limit = a->srq_limit;
    return 0;
}

int destroy_srq(ibv_srq* base) {
    const std::lock_guard guard(lock());
    auto* q = reinterpret_cast<shared_receives*>(base);
    if (q->users != 0) return EBUSY;
    --q->queue.in->users;
    state_of(base->context).shared.erase(q);
    delete q;
    return 0;
}

ibv_qp* create_qp(ibv_context* on, ibv_qp_init_attr_ex* a) {
    const std::lock_guard guard(lock());
    state& s = state_of(on);
    if (const int error = refuses_pair(s, *a); error != 0) return refuse(error);
    auto* pair = new queue_pair;
    ibv_qp& qp = pair->qp();
    qp.context = on;
    qp.qp_context = a->qp_context;
    qp.pd = a->pd;
    qp.qp_type = a->qp_type;
    qp.qp_num = next_number++;
    qp.state = IBV_QPS_RESET;
    pair->in = &domain_of(a->pd);
    ++pair->in->users;
    if ((a->comp_mask & IBV_QP_INIT_ATTR_IND_TABLE) != 0) {
        pair->table = reinterpret_cast<indirection*>(a->rwq_ind_tbl);
        ++pair->table->users;
        rss::key key;
        std::copy_n(a->rx_hash_conf.rx_hash_key, key.size(), key.begin());
        pair->hash = std::make_unique<rss::toeplitz>(key);
        qp.state = IBV_QPS_RTR; // it needs no walk
    } else {
        qp.send_cq = a->send_cq;
        qp.recv_cq = a->recv_cq;
        qp.srq = a->srq;
        use(qp.send_cq);
        use(qp.recv_cq);
        if (a->srq != nullptr) ++reinterpret_cast<shared_receives*>(a->srq)->users;
        pair->own.room = a->cap.max_recv_wr;
        pair->own.pieces = a->cap.max_recv_sge;
        pair->own.in = pair->in;
    }
    pair->made_with = *a;
    if (a->send_ops_flags != 0 && (a->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) add_extended_sends(*pair);
    s.pairs.insert(pair);
    return &qp;
}

ibv_qp_ex* qp_to_qp_ex(ibv_qp* base) {
    queue_pair& pair = pair_of(base);
    return (pair.made_with.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? &pair.base : nullptr;
}

int modify_qp(ibv_qp* base, ibv_qp_attr* a, int mask) {
    if ((mask & IBV_QP_AV) != 0)
        if (const int error = state_of(base->context).await_way(a->ah_attr.grh.dgid); error != 0) return error;
    const std::lock_guard guard(lock());
    queue_pair& pair = pair_of(base);
    state& s = state_of(base->context);
    if (const int error = s.fault("modify_qp"); error != 0) return error;
    if (pair.receives_alone()) return EOPNOTSUPP;
    if ((mask & IBV_QP_STATE) == 0) return EINVAL;
    const int wanted = needed(base->qp_type, base->state, a->qp_state);
    if (wanted < 0 || (mask & wanted) != wanted) {
        s.complain("a queue pair was moved along a way that there is not, or without an attribute that it needs");
        return EINVAL;
    }
    if ((mask & IBV_QP_PORT) != 0 && a->port_num != 1) return EINVAL;
    if ((mask & IBV_QP_PKEY_INDEX) != 0 && a->pkey_index != 0) return EINVAL;
    if ((mask & IBV_QP_AV) != 0)
        if (const int error = s.refuses_way(a->ah_attr); error != 0) return error;
    take_over(pair.attributes, *a, mask);
    if (a->qp_state == IBV_QPS_ERR) {
        s.fail_pair(pair, IBV_QPS_ERR);
    } else {
        if (a->qp_state == IBV_QPS_RESET) forget_work(pair);
        if (a->qp_state == IBV_QPS_RESET && s.options.forgetful)
            for (flow* each : s.flows) each->forgotten = each->forgotten || each->to == &pair;
        base->state = a->qp_state;
    }
    return 0;
}

int query_qp(ibv_qp* base, ibv_qp_attr* a, int, ibv_qp_init_attr* made_with) {
    const std::lock_guard guard(lock());
    queue_pair& pair = pair_of(base);
    if (const int error = state_of(base->context).fault("query_qp"); error != 0) return error;
    *a = pair.attributes;
    a->qp_state = base->state;
    a->cap = pair.made_with.cap;
    made_with->cap = pair.made_with.cap;
    made_with->qp_type = base->qp_type;
    return 0;
}

int destroy_qp(ibv_qp* base) {
    const std::lock_guard guard(lock());
    queue_pair& pair = pair_of(base);
    if (pair.rules != 0 || !pair.groups.empty()) return EBUSY;
    for (const auto& [index, window] : state_of(base->context).windows) {
        if (window->bound_to != &pair) continue;
        state_of(base->context).complain("a queue pair is destroyed before the windows that are bound to it"); // rdma_rxe waits for ever
        window->unbind();
    }
    forget_work(pair);
    leave(base->send_cq);
    leave(base->recv_cq);
    if (base->srq != nullptr) --reinterpret_cast<shared_receives*>(base->srq)->users;
    if (pair.table != nullptr) --pair.table->users;
    --pair.in->users;
    state_of(base->context).pairs.erase(&pair);
    delete &pair;
    return 0;
}

ibv_wq* create_wq(ibv_context* on, ibv_wq_init_attr* a) {
    const std::lock_guard guard(lock());
    state& s = state_of(on);
    if (const int error = s.options.spreading ? s.fault("create_wq") : EOPNOTSUPP; error != 0) return refuse(error);
    if (!s.options.may_send_raw) return refuse(EPERM);
    if (a->max_wr > s.options.max_work_requests || a->max_sge > s.options.max_pieces || a->wq_type != IBV_WQT_RQ)
        return refuse(EINVAL);
    auto* q = new work_queue;
    q->base.context = on;
    q->base.pd = a->pd;
    q->base.cq = a->cq;
    q->base.state = IBV_WQS_RESET;
    q->base.post_recv = post_work_receive;
    q->queue.room = a->max_wr;
    q->queue.pieces = a->max_sge;
    q->queue.in = &domain_of(a->pd);
    ++q->queue.in->users;
    use(a->cq);
    s.work_queues.insert(q);
    return &q->base;
}

int modify_wq(ibv_wq* base, ibv_wq_attr* a) {
    const std::lock_guard guard(lock());
    if (const int error = state_of(base->context).fault("modify_wq"); error != 0) return error;
    auto* q = reinterpret_cast<work_queue*>(base);
    if (a->wq_state == IBV_WQS_RDY && base->state != IBV_WQS_RESET && base->state != IBV_WQS_RDY) return EINVAL;
    if (a->wq_state == IBV_WQS_RESET) {
        q->queue.visible.clear();
        q->queue.hidden.clear();
        q->queue.used = 0;
        std::erase_if(queue_of(base->cq).entries, [q](const completion& c) { return c.receives == &q->queue; });
    }
    base->state = a->wq_state;
    if (a->wq_state == IBV_WQS_ERR) state_of(base->context).flush_receives(*q);
    return 0;
}

int destroy_wq(ibv_wq* base) {
    const std::lock_guard guard(lock());
    auto* q = reinterpret_cast<work_queue*>(base);
    if (q->users != 0) return EBUSY;
    std::erase_if(queue_of(base->cq).entries, [q](const completion& c) { return c.receives == &q->queue; });
    leave(base->cq);
    --q->queue.in->users;
    state_of(base->context).work_queues.erase(q);
    delete q;
    return 0;
}

ibv_rwq_ind_table* create_table(ibv_context* on, ibv_rwq_ind_table_init_attr* a) {
    const std::lock_guard guard(lock());
    state& s = state_of(on);
    if (const int error = s.options.spreading ? s.fault("create_rwq_ind_table") : EOPNOTSUPP; error != 0) return refuse(error);
    if (a->log_ind_tbl_size > 9) return refuse(EINVAL);
    auto* t = new indirection;
    t->base.context = on;
    for (unsigned i = 0; i < 1u << a->log_ind_tbl_size; ++i) {
        t->slots.push_back(reinterpret_cast<work_queue*>(a->ind_tbl[i]));
        ++t->slots.back()->users;
    }
    ++s.others;
    return &t->base;
}

int destroy_table(ibv_rwq_ind_table* base) {
    const std::lock_guard guard(lock());
    auto* t = reinterpret_cast<indirection*>(base);
    if (t->users != 0) return EBUSY;
    for (work_queue* q : t->slots) --q->users;
    --state_of(base->context).others;
    delete t;
    return 0;
}

ibv_ah* create_ah(ibv_pd* in, ibv_ah_attr* a) {
    if (const int error = state_of(in->context).await_way(a->grh.dgid); error != 0) return refuse(error);
    const std::lock_guard guard(lock());
    state& s = state_of(in->context);
    if (const int error = s.fault("create_ah"); error != 0) return refuse(error);
    if (const int error = s.refuses_way(*a); error != 0) return refuse(error);
    auto* h = new address;
    h->base.context = in->context;
    h->base.pd = in;
    h->attributes = *a;
    h->in = &domain_of(in);
    ++h->in->users;
    s.handles.insert(h);
    return &h->base;
}

int init_ah_from_wc(ibv_context* on, std::uint8_t port, ibv_wc* completion, ibv_grh* header, ibv_ah_attr* out) {
    const state& s = state_of(on);
    *out = {};
    out->port_num = port;
    out->dlid = completion->slid;
    if ((completion->wc_flags & IBV_WC_GRH) == 0) return s.options.ethernet ? EINVAL : 0;
    out->is_global = 1;
    const auto said = verbs::datagram_header::load(reinterpret_cast<const std::byte*>(header), s.options.ethernet);
    if (!said) return EINVAL;
    const ibv_gid ours = said->to;
    out->grh.dgid = said->from;
    out->grh.hop_limit = 64;
    for (std::size_t i = 0; i < s.gid_count(); ++i) {
        const ibv_gid each = s.gid_at(i);
        if (std::memcmp(&each, &ours, sizeof each) == 0) out->grh.sgid_index = static_cast<std::uint8_t>(i);
    }
    return 0;
}

int destroy_ah(ibv_ah* base) {
    const std::lock_guard guard(lock());
    auto* h = reinterpret_cast<address*>(base);
    --h->in->users;
    state_of(base->context).handles.erase(h);
    delete h;
    return 0;
}

int attach_mcast(ibv_qp* base, const ibv_gid* group, std::uint16_t) {
    const std::lock_guard guard(lock());
    if (const int error = state_of(base->context).fault("attach_mcast"); error != 0) return error;
    if (base->qp_type != IBV_QPT_UD || !is_group(*group)) return EINVAL;
    pair_of(base).groups.insert(std::to_array(group->raw));
    return 0;
}

int detach_mcast(ibv_qp* base, const ibv_gid* group, std::uint16_t) {
    const std::lock_guard guard(lock());
    return pair_of(base).groups.erase(std::to_array(group->raw)) == 1 ? 0 : EINVAL;
}

} // namespace corewire::fake
