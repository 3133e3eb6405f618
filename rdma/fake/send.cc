// The send side: what a work request has to be, and what it does.
#include <corewire/rdma/fake/objects.hh>
#include <corewire/rdma/fake/offload.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace corewire::fake {

namespace {

std::uint64_t total_size(const ibv_send_wr& wr) {
    std::uint64_t all = 0;
    for (int i = 0; i < wr.num_sge; ++i) all += wr.sg_list[i].length;
    return all;
}

bool knows(const queue_pair& pair, ibv_wr_opcode opcode) {
    switch (pair.made_with.qp_type) {
    case IBV_QPT_RAW_PACKET: return opcode == IBV_WR_SEND || (opcode == IBV_WR_TSO && pair.made_with.max_tso_header != 0);
    case IBV_QPT_UD: return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
    default: return opcode <= IBV_WR_BIND_MW;
    }
}

/// What a driver finds wrong before the device sees it; an errno.
int check(state& s, queue_pair& pair, const ibv_send_wr& wr, std::uint64_t ahead) {
    const ibv_qp_cap& has = pair.made_with.cap;
    if (pair.receives_alone()) return EINVAL;
    switch (pair.qp().state) {
    case IBV_QPS_RTS:
    case IBV_QPS_SQD:
    case IBV_QPS_SQE:
    case IBV_QPS_ERR: break;
    default: s.complain("a send was posted in a state without sends"); return EINVAL;
    }
    if (pair.sends_posted + ahead - pair.sends_retired >= has.max_send_wr) return ENOMEM;
    if (wr.num_sge < 0 || static_cast<unsigned>(wr.num_sge) > has.max_send_sge) {
        s.complain("a send has more pieces than its queue pair was made with");
        return EINVAL;
    }
    if (!knows(pair, wr.opcode)) {
        s.complain("a send has an operation that its queue pair does not know");
        return EINVAL;
    }
    if (pair.made_with.qp_type == IBV_QPT_UD && s.handle_of(wr.wr.ud.ah) == nullptr) {
        s.complain("a datagram names an address handle that there is not");
        return EINVAL;
    }
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        const bool carries = wr.opcode != IBV_WR_RDMA_READ && wr.opcode != IBV_WR_TSO && wr.opcode < IBV_WR_ATOMIC_CMP_AND_SWP;
        if (!carries || total_size(wr) > has.max_inline_data) {
            s.complain("an inline send is longer than the queue pair takes, or of a kind that is never inline");
            return EINVAL;
        }
    }
    if ((wr.send_flags & IBV_SEND_IP_CSUM) != 0 && !s.options.checksums) {
        s.complain("checksum offload was asked of a device without it");
        return EINVAL;
    }
    if (wr.opcode == IBV_WR_TSO && (wr.tso.hdr_sz == 0 || wr.tso.hdr_sz > pair.made_with.max_tso_header || wr.tso.mss == 0)) {
        s.complain("a TSO send has no headers, more than its queue pair was made for, or no segment size");
        return EINVAL;
    }
    if (wr.opcode == IBV_WR_TSO)
        if (const int error = s.fault("tso"); error != 0) return error;
    if (wr.opcode == IBV_WR_TSO && wr.tso.hdr_sz + total_size(wr) > s.options.max_segmented) {
        s.complain("a TSO send is longer than the device cuts");
        return EINVAL;
    }
    return 0;
}

/// The bytes of a send, or the status with which it fails.
ibv_wc_status gather(state& s, queue_pair& pair, const ibv_send_wr& wr, std::vector<std::byte>& out) {
    out.clear();
    const bool inlined = (wr.send_flags & IBV_SEND_INLINE) != 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        const ibv_sge& piece = wr.sg_list[i];
        const std::byte* at = inlined ? reinterpret_cast<const std::byte*>(piece.addr) : s.reach(piece, pair.in, 0);
        if (at == nullptr) {
            s.complain("a send names memory that is not registered with this key and domain");
            return IBV_WC_LOC_PROT_ERR;
        }
        out.insert(out.end(), at, at + piece.length);
    }
    return IBV_WC_SUCCESS;
}

ibv_wc_status send_raw(state& s, const ibv_send_wr& wr, std::vector<std::byte>& bytes) {
    const std::size_t longest = s.options.mtu + 18;
    if (wr.opcode == IBV_WR_TSO) {
        const byte_span headers{static_cast<const std::byte*>(wr.tso.hdr), wr.tso.hdr_sz};
        if (wr.tso.hdr_sz + std::size_t{wr.tso.mss} > longest) return IBV_WC_LOC_LEN_ERR;
        const auto emit = [&s](byte_span segment) {
            ++s.counts.segments;
            s.send_frame(segment);
        };
        return cut_segments(headers, bytes, wr.tso.mss, emit) ? IBV_WC_SUCCESS : IBV_WC_LOC_QP_OP_ERR;
    }
    if (bytes.size() < 14 || bytes.size() > longest) {
        s.complain("a frame is shorter than an Ethernet header or longer than the MTU");
        return IBV_WC_LOC_LEN_ERR;
    }
    if ((wr.send_flags & IBV_SEND_IP_CSUM) != 0) complete_checksums(bytes);
    s.send_frame(bytes);
    return IBV_WC_SUCCESS;
}

ibv_wc_opcode completed_as(ibv_wr_opcode opcode) {
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
    case IBV_WR_TSO: return IBV_WC_TSO;
    case IBV_WR_BIND_MW: return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV: return IBV_WC_LOCAL_INV;
    default: return IBV_WC_SEND;
    }
}

} // namespace

namespace {

bool brings_bytes(ibv_wr_opcode opcode) {
    return opcode != IBV_WR_RDMA_READ && opcode != IBV_WR_ATOMIC_CMP_AND_SWP && opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
}

} // namespace

int accept_send(state& s, queue_pair& pair, const ibv_send_wr& wr) {
    if (const int error = check(s, pair, wr, 0); error != 0) return error;
    ++s.counts.sends;
    accepted_send send{.id = wr.wr_id, .index = ++pair.sends_posted, .opcode = completed_as(wr.opcode)};
    send.signalled = pair.made_with.sq_sig_all != 0 || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
    s.counts.signalled += send.signalled;
    s.counts.inline_sends += (wr.send_flags & IBV_SEND_INLINE) != 0;
    s.counts.gathered += wr.num_sge > 1;
    if (pair.qp().state == IBV_QPS_ERR || pair.qp().state == IBV_QPS_SQE) {
        send.status = IBV_WC_WR_FLUSH_ERR;
        s.complete_send(pair, send);
        return 0;
    }
    static std::vector<std::byte> bytes; // under the lock
    if (s.bad_sends.second != 0) {
        --s.bad_sends.second;
        send.status = s.bad_sends.first;
    } else if (brings_bytes(wr.opcode)) {
        send.status = gather(s, pair, wr, bytes);
    } else {
        bytes.clear();
    }
    send.bytes = static_cast<std::uint32_t>(total_size(wr));
    if (send.status == IBV_WC_SUCCESS && pair.made_with.qp_type == IBV_QPT_RAW_PACKET) send.status = send_raw(s, wr, bytes);
    if (send.status == IBV_WC_SUCCESS && pair.made_with.qp_type == IBV_QPT_UD) send.status = s.send_datagram(pair, wr, bytes);
    if (send.status == IBV_WC_SUCCESS && pair.made_with.qp_type == IBV_QPT_RC) {
        bool done = false;
        const auto outcome = pair.waiting.empty() ? s.send_connected(pair, wr, bytes, done) : std::nullopt;
        if (!outcome || (outcome == IBV_WC_RETRY_EXC_ERR && s.options.clock)) {
            waiting_send& later = pair.waiting.emplace_back();
            later.wr = wr;
            std::copy_n(wr.sg_list, wr.num_sge, later.pieces.begin());
            later.bytes = bytes;
            later.about = send;
            later.give_up = s.end_of_patience(pair);
            later.done = done;
            if (pair.waiting.size() == 1 && !outcome && pair.attributes.rnr_retry == 0) s.retry(pair); // at once too late
            return 0;
        }
        send.status = *outcome;
    }
    s.finish_send(pair, send);
    return 0;
}

void state::finish_send(queue_pair& pair, const accepted_send& send) {
    if (send.signalled || send.status != IBV_WC_SUCCESS) complete_send(pair, send);
    if (send.status == IBV_WC_SUCCESS || send.status == IBV_WC_WR_FLUSH_ERR) return;
    // A failed send stops the send queue of a datagram or raw-packet pair, and all of a connected one.
    const bool connected = pair.made_with.qp_type == IBV_QPT_RC || pair.made_with.qp_type == IBV_QPT_UC;
    fail_pair(pair, connected ? IBV_QPS_ERR : IBV_QPS_SQE);
}

void state::send_frame(byte_span frame) {
    if (sent) sent(frame);
    if (!up) {
        ++counts.lost_on_wire;
        return;
    }
    ++counts.frames_sent;
    if (options.loopback && open.size() > 1 && frame.size() >= 14 && mac_address::load(frame.data()) == options.mac) return take_in(frame);
    if (wire == nullptr) return;
    packet p;
    p.head = wire->pool().allocate_buffer();
    if (p.head.underlying_frame() == nullptr || frame.size() > p.head.tailroom()) {
        ++counts.lost_on_wire;
        return;
    }
    std::memcpy(p.head.append(static_cast<std::uint32_t>(frame.size())), frame.data(), frame.size());
    if (wire->transmit({&p, 1}) != 1) ++counts.lost_on_wire;
}

int post_send(ibv_qp* to, ibv_send_wr* chain, ibv_send_wr** bad) {
    const std::lock_guard guard(lock());
    queue_pair& pair = pair_of(to);
    state& s = state_of(to->context);
    ++s.counts.doorbells;
    for (; chain != nullptr; chain = chain->next) {
        const int error = s.removed ? EIO : accept_send(s, pair, *chain);
        if (error == 0) continue;
        *bad = chain;
        return error;
    }
    return 0;
}

// ---- ibv_wr_* ----

namespace {

queue_pair::building& begin(ibv_qp_ex* qp, ibv_wr_opcode opcode) {
    queue_pair& pair = pair_of(qp);
    if (!pair.batching) pair.batch_error = EINVAL;
    queue_pair::building& b = pair.batch.emplace_back();
    b.wr.wr_id = qp->wr_id;
    b.wr.send_flags = qp->wr_flags & ~static_cast<unsigned>(IBV_SEND_INLINE);
    b.wr.opcode = opcode;
    return b;
}

void set_pieces(ibv_qp_ex* qp, std::size_t count, const ibv_sge* pieces) {
    queue_pair& pair = pair_of(qp);
    if (pair.batch.empty() || pair.batch.back().has_data || count > 16) {
        pair.batch_error = EINVAL;
        return;
    }
    queue_pair::building& b = pair.batch.back();
    std::copy_n(pieces, count, b.pieces.begin());
    b.wr.num_sge = static_cast<int>(count);
    b.has_data = true;
}

void set_inline(ibv_qp_ex* qp, std::size_t count, const ibv_data_buf* pieces) {
    queue_pair& pair = pair_of(qp);
    if (pair.batch.empty() || pair.batch.back().has_data) {
        pair.batch_error = EINVAL;
        return;
    }
    queue_pair::building& b = pair.batch.back();
    for (std::size_t i = 0; i < count; ++i) {
        const auto* at = static_cast<const std::byte*>(pieces[i].addr);
        b.inlined.insert(b.inlined.end(), at, at + pieces[i].length);
    }
    b.wr.send_flags |= IBV_SEND_INLINE;
    b.wr.num_sge = 1;
    b.has_data = true;
}

void start(ibv_qp_ex* qp) {
    queue_pair& pair = pair_of(qp);
    pair.batch.clear();
    pair.batching = true;
    pair.batch_error = 0;
}

/// All of the batch, or nothing.
int complete_batch(ibv_qp_ex* qp) {
    const std::lock_guard guard(lock());
    queue_pair& pair = pair_of(qp);
    state& s = state_of(pair.qp().context);
    pair.batching = false;
    ++s.counts.doorbells;
    if (s.removed) return EIO;
    if (pair.batch_error != 0) {
        s.complain("ibv_wr_*() calls came in an order that makes no work request");
        return pair.batch_error;
    }
    std::uint64_t ahead = 0;
    for (queue_pair::building& b : pair.batch) {
        b.wr.sg_list = b.pieces.data();
        if ((b.wr.send_flags & IBV_SEND_INLINE) != 0)
            b.pieces[0] = {reinterpret_cast<std::uintptr_t>(b.inlined.data()), static_cast<std::uint32_t>(b.inlined.size()), 0};
        if (const int error = check(s, pair, b.wr, ahead++); error != 0) return error;
    }
    for (const queue_pair::building& b : pair.batch) static_cast<void>(accept_send(s, pair, b.wr));
    return 0;
}

} // namespace

void add_extended_sends(queue_pair& pair) {
    ibv_qp_ex& qp = pair.base;
    qp.wr_start = start;
    qp.wr_complete = complete_batch;
    qp.wr_abort = [](ibv_qp_ex* q) { pair_of(q).batch.clear(); };
    qp.wr_send = [](ibv_qp_ex* q) { begin(q, IBV_WR_SEND); };
    qp.wr_send_imm = [](ibv_qp_ex* q, __be32 imm) { begin(q, IBV_WR_SEND_WITH_IMM).wr.imm_data = imm; };
    qp.wr_send_tso = [](ibv_qp_ex* q, void* headers, std::uint16_t size, std::uint16_t mss) {
        queue_pair::building& b = begin(q, IBV_WR_TSO);
        b.wr.tso.hdr = headers;
        b.wr.tso.hdr_sz = size;
        b.wr.tso.mss = mss;
    };
    qp.wr_rdma_write = [](ibv_qp_ex* q, std::uint32_t key, std::uint64_t at) {
        begin(q, IBV_WR_RDMA_WRITE).wr.wr.rdma = {at, key};
    };
    qp.wr_rdma_write_imm = [](ibv_qp_ex* q, std::uint32_t key, std::uint64_t at, __be32 imm) {
        queue_pair::building& b = begin(q, IBV_WR_RDMA_WRITE_WITH_IMM);
        b.wr.wr.rdma = {at, key};
        b.wr.imm_data = imm;
    };
    qp.wr_rdma_read = [](ibv_qp_ex* q, std::uint32_t key, std::uint64_t at) {
        begin(q, IBV_WR_RDMA_READ).wr.wr.rdma = {at, key};
    };
    qp.wr_atomic_cmp_swp = [](ibv_qp_ex* q, std::uint32_t key, std::uint64_t at, std::uint64_t compare, std::uint64_t swap) {
        begin(q, IBV_WR_ATOMIC_CMP_AND_SWP).wr.wr.atomic = {at, compare, swap, key};
    };
    qp.wr_atomic_fetch_add = [](ibv_qp_ex* q, std::uint32_t key, std::uint64_t at, std::uint64_t add) {
        begin(q, IBV_WR_ATOMIC_FETCH_AND_ADD).wr.wr.atomic = {at, add, 0, key};
    };
    qp.wr_set_ud_addr = [](ibv_qp_ex* q, ibv_ah* handle, std::uint32_t number, std::uint32_t key) {
        if (!pair_of(q).batch.empty()) pair_of(q).batch.back().wr.wr.ud = {handle, number, key};
    };
    qp.wr_set_sge = [](ibv_qp_ex* q, std::uint32_t key, std::uint64_t at, std::uint32_t length) {
        const ibv_sge one{at, length, key};
        set_pieces(q, 1, &one);
    };
    qp.wr_set_sge_list = [](ibv_qp_ex* q, std::size_t count, const ibv_sge* pieces) { set_pieces(q, count, pieces); };
    qp.wr_set_inline_data = [](ibv_qp_ex* q, void* at, std::size_t length) {
        const ibv_data_buf one{at, length};
        set_inline(q, 1, &one);
    };
    qp.wr_set_inline_data_list = [](ibv_qp_ex* q, std::size_t count, const ibv_data_buf* pieces) { set_inline(q, count, pieces); };
}

} // namespace corewire::fake
