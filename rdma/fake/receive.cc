// The receive side: posted buffers, steering, hashing, and frames put where they belong.
#include <corewire/rdma/fake/objects.hh>
#include <corewire/rdma/fake/offload.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace corewire::fake {

namespace {

int post_to(state& s, receive_queue& queue, ibv_recv_wr* chain, ibv_recv_wr** bad) {
    ++s.counts.receive_doorbells;
    for (; chain != nullptr; chain = chain->next) {
        int error = 0;
        if (s.removed) error = EIO;
        else if (queue.used >= queue.room) error = ENOMEM;
        else if (chain->num_sge < 0 || static_cast<unsigned>(chain->num_sge) > queue.pieces) error = EINVAL;
        if (error != 0) {
            if (error == EINVAL) s.complain("a receive has more pieces than its queue was made with");
            *bad = chain;
            return error;
        }
        posted_receive r{.id = chain->wr_id, .pieces = {}, .count = static_cast<unsigned>(chain->num_sge)};
        std::copy_n(chain->sg_list, r.count, r.pieces.begin());
        (s.slow ? queue.hidden : queue.visible).push_back(r);
        ++queue.used;
    }
    return 0;
}

/// Copies `frame` into the pieces of `into`; the status with which that ends.
ibv_wc_status scatter(state& s, const receive_queue& queue, const posted_receive& into, byte_span frame) {
    std::size_t at = 0;
    for (unsigned i = 0; i < into.count && at < frame.size(); ++i) {
        std::byte* to = s.reach(into.pieces[i], queue.in, IBV_ACCESS_LOCAL_WRITE);
        if (to == nullptr) {
            s.complain("a receive names memory that is not registered for writing with this key and domain");
            return IBV_WC_LOC_PROT_ERR;
        }
        const std::size_t n = std::min<std::size_t>(into.pieces[i].length, frame.size() - at);
        std::memcpy(to, frame.data() + at, n);
        at += n;
    }
    return at == frame.size() ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
}

/// How every ibv_flow_spec_* begins.
struct spec_header {
    ibv_flow_spec_type type;
    std::uint16_t size;
};

/// Specifications follow each other without gaps, so they are not aligned.
template <typename Spec>
Spec spec_at(const std::byte* at) {
    Spec spec;
    std::memcpy(&spec, at, sizeof spec);
    return spec;
}

bool masked(const void* value, const void* mask, const void* actual, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
        const auto m = static_cast<const std::uint8_t*>(mask)[i];
        if ((static_cast<const std::uint8_t*>(value)[i] & m) != (static_cast<const std::uint8_t*>(actual)[i] & m)) return false;
    }
    return true;
}

bool matches_ethernet(const ibv_flow_spec_eth& spec, byte_span frame) {
    ibv_flow_eth_filter is{};
    std::memcpy(is.dst_mac, frame.data(), 6);
    std::memcpy(is.src_mac, frame.data() + 6, 6);
    std::memcpy(&is.ether_type, frame.data() + 12, 2);
    if (load_be16(frame.data() + 12) == 0x8100 && frame.size() >= 18) {
        std::memcpy(&is.vlan_tag, frame.data() + 14, 2);
        std::memcpy(&is.ether_type, frame.data() + 16, 2);
    } else if (spec.mask.vlan_tag != 0) {
        return false;
    }
    return masked(&spec.val, &spec.mask, &is, sizeof is);
}

bool matches_ipv4(const ibv_flow_spec_ipv4& spec, const flow_fields& f) {
    const ibv_flow_ipv4_filter is{host_to_be(f.source.v4().value()), host_to_be(f.destination.v4().value())};
    return f.ipv4 && masked(&spec.val, &spec.mask, &is, sizeof is);
}

bool matches_ipv6(const ibv_flow_spec_ipv6& spec, const flow_fields& f) {
    ibv_flow_ipv6_filter is{};
    f.source.v6().store(reinterpret_cast<std::byte*>(is.src_ip));
    f.destination.v6().store(reinterpret_cast<std::byte*>(is.dst_ip));
    return f.ipv6 && masked(&spec.val, &spec.mask, &is, sizeof is);
}

bool matches_ports(const ibv_flow_spec_tcp_udp& spec, const flow_fields& f) {
    if (spec.type == IBV_FLOW_SPEC_TCP ? !f.tcp : !f.udp) return false;
    const ibv_flow_tcp_udp_filter is{host_to_be(f.destination_port), host_to_be(f.source_port)};
    return masked(&spec.val, &spec.mask, &is, sizeof is);
}

bool matches(const flow& rule, byte_span frame, const flow_fields& f) {
    const std::byte* at = rule.rule.data() + sizeof(ibv_flow_attr);
    for (unsigned i = 0; i < rule.attributes().num_of_specs; ++i) {
        const auto header = spec_at<spec_header>(at);
        switch (header.type) {
        case IBV_FLOW_SPEC_ETH:
            if (!matches_ethernet(spec_at<ibv_flow_spec_eth>(at), frame)) return false;
            break;
        case IBV_FLOW_SPEC_IPV4:
            if (!matches_ipv4(spec_at<ibv_flow_spec_ipv4>(at), f)) return false;
            break;
        case IBV_FLOW_SPEC_IPV6:
            if (!matches_ipv6(spec_at<ibv_flow_spec_ipv6>(at), f)) return false;
            break;
        default:
            if (!matches_ports(spec_at<ibv_flow_spec_tcp_udp>(at), f)) return false;
        }
        at += header.size;
    }
    return true;
}

/// Which of a hashing pair's queues a packet belongs to.
work_queue& spread_over(const queue_pair& pair, const flow_fields& f) {
    const std::uint64_t fields = pair.made_with.rx_hash_conf.rx_hash_fields_mask;
    const bool ports = ((fields & IBV_RX_HASH_SRC_PORT_TCP) != 0 && f.tcp) || ((fields & IBV_RX_HASH_SRC_PORT_UDP) != 0 && f.udp);
    const std::uint16_t from = ports ? f.source_port : std::uint16_t{0}, to = ports ? f.destination_port : std::uint16_t{0};
    std::uint32_t h = 0;
    if (f.ipv4 && (fields & IBV_RX_HASH_SRC_IPV4) != 0) h = pair.hash->hash(f.source.v4(), from, f.destination.v4(), to);
    if (f.ipv6 && (fields & IBV_RX_HASH_SRC_IPV6) != 0) h = pair.hash->hash(f.source.v6(), from, f.destination.v6(), to);
    return *pair.table->slots[h & (pair.table->slots.size() - 1)];
}

} // namespace

receive_queue& queue_pair::receives() noexcept {
    return made_with.srq != nullptr ? reinterpret_cast<shared_receives*>(made_with.srq)->queue : own;
}

ibv_wc_status state::fill(queue_pair& pair, receive_queue& from, completion_queue& to, byte_span frame, const ibv_wc& about) {
    if (from.visible.empty()) {
        ++counts.no_receive;
        return IBV_WC_SUCCESS;
    }
    const posted_receive into = from.visible.front();
    from.visible.pop_front();
    completion c{};
    c.receives = &from;
    c.pair = &pair;
    c.wc = about;
    c.wc.wr_id = into.id;
    c.wc.qp_num = pair.qp().qp_num;
    if (about.opcode != IBV_WC_RECV_RDMA_WITH_IMM) { // which brings the size of what was written
        c.wc.opcode = IBV_WC_RECV;
        c.wc.byte_len = static_cast<std::uint32_t>(frame.size());
    }
    if (bad_receives.second != 0) {
        --bad_receives.second;
        c.wc.status = bad_receives.first;
    } else {
        c.wc.status = scatter(*this, from, into, frame);
    }
    const bool good = c.wc.status == IBV_WC_SUCCESS;
    if (good) ++counts.frames_received;
    complete(to, c);
    if (!good && !pair.receives_alone()) fail_pair(pair, IBV_QPS_ERR);
    return c.wc.status;
}

void state::take_in(byte_span frame) {
    if (!up || removed || frame.size() < 14) {
        ++counts.lost_on_wire;
        return;
    }
    const flow_fields f = fields_of(frame);
    ibv_wc about{};
    about.wc_flags = options.checksums && checksums_are_good(frame) ? unsigned{IBV_WC_IP_CSUM_OK} : 0u;
    bool goes_on = true;
    std::vector<std::byte> plain;
    byte_span filled = frame;
    if (!options.keeps_tags && frame.size() >= 18 && load_be16(frame.data() + 12) == 0x8100) {
        plain.assign(frame.begin(), frame.end());
        plain.erase(plain.begin() + 12, plain.begin() + 16);
        filled = plain;
    }
    for (flow* rule : flows) {
        if (rule->forgotten || !matches(*rule, frame, f)) continue;
        queue_pair& pair = *rule->to;
        if (pair.receives_alone()) {
            work_queue& queue = spread_over(pair, f);
            ibv_wc told = about;
            if (!options.spread_verdicts) told.wc_flags &= ~unsigned{IBV_WC_IP_CSUM_OK};
            if (queue.base.state == IBV_WQS_RDY && fill(pair, queue.queue, queue_of(queue.base.cq), filled, told) != IBV_WC_SUCCESS)
                fail_work_queue(queue);
        } else if (pair.qp().state == IBV_QPS_RTR || pair.qp().state == IBV_QPS_RTS || pair.qp().state == IBV_QPS_SQE) {
            fill(pair, pair.receives(), queue_of(pair.qp().recv_cq), filled, about);
        }
        goes_on = (rule->attributes().flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP) != 0;
        if (!goes_on) break;
    }
    if (!goes_on) return;
    ++counts.to_kernel;
    if (kernel) kernel(frame);
}

void state::pump() {
    if (pumping) return;
    pumping = true;
    const auto show_one = [](receive_queue& q) {
        if (q.hidden.empty()) return;
        q.visible.push_back(q.hidden.front());
        q.hidden.pop_front();
    };
    for (queue_pair* pair : pairs) {
        show_one(pair->own);
        if (!pair->waiting.empty()) retry(*pair);
    }
    for (work_queue* queue : work_queues) show_one(queue->queue);
    for (shared_receives* queue : shared) show_one(queue->queue);
    if (wire != nullptr) {
        std::array<packet, 32> burst;
        std::vector<std::byte> whole;
        for (int round = 0; round < 8; ++round) {
            const std::size_t n = wire->receive(burst);
            for (std::size_t i = 0; i < n; ++i) {
                const packet& p = burst[i];
                whole.assign(p.head.data(), p.head.data() + p.head.size());
                if (!p.body.empty()) whole.insert(whole.end(), p.body.data(), p.body.data() + p.body.size());
                take_in(whole);
                burst[i] = {};
            }
            if (n < burst.size()) break;
        }
    }
    pumping = false;
}

int post_receive(ibv_qp* to, ibv_recv_wr* chain, ibv_recv_wr** bad) {
    const std::lock_guard guard(lock());
    queue_pair& pair = pair_of(to);
    state& s = state_of(to->context);
    if (to->state == IBV_QPS_RESET || to->srq != nullptr || pair.receives_alone()) {
        s.complain("a receive was posted to a queue pair in RESET, or to one without a receive queue");
        *bad = chain;
        return EINVAL;
    }
    const int error = post_to(s, pair.own, chain, bad);
    if (to->state == IBV_QPS_ERR) s.flush_receives(pair);
    return error;
}

int post_shared_receive(ibv_srq* to, ibv_recv_wr* chain, ibv_recv_wr** bad) {
    const std::lock_guard guard(lock());
    return post_to(state_of(to->context), reinterpret_cast<shared_receives*>(to)->queue, chain, bad);
}

int post_work_receive(ibv_wq* to, ibv_recv_wr* chain, ibv_recv_wr** bad) {
    const std::lock_guard guard(lock());
    state& s = state_of(to->context);
    auto& queue = *reinterpret_cast<work_queue*>(to);
    if (to->state == IBV_WQS_RESET) {
        s.complain("a receive was posted to a work queue in RESET");
        *bad = chain;
        return EINVAL;
    }
    const int error = post_to(s, queue.queue, chain, bad);
    if (to->state == IBV_WQS_ERR) s.flush_receives(queue);
    return error;
}

} // namespace corewire::fake
