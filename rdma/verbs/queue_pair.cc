#include <corewire/rdma/verbs/queue_pair.hh>

#include <corewire/rdma/verbs/error.hh>

#include <fmt/format.h>

namespace corewire::verbs {

std::string_view name_of(transport t) noexcept {
    switch (t) {
    case transport::reliable_connection: return "RC";
    case transport::unreliable_datagram: return "UD";
    case transport::raw_packet: return "raw-packet";
    }
    return "?";
}

std::string_view name_of(ibv_qp_state s) noexcept {
    switch (s) {
    case IBV_QPS_RESET: return "RESET";
    case IBV_QPS_INIT: return "INIT";
    case IBV_QPS_RTR: return "RTR";
    case IBV_QPS_RTS: return "RTS";
    case IBV_QPS_SQD: return "SQD";
    case IBV_QPS_SQE: return "SQE";
    case IBV_QPS_ERR: return "ERR";
    default: return "UNKNOWN";
    }
}

namespace {

ibv_qp_init_attr_ex attributes_for(const protection_domain& in, const queue_pair_options& o) {
    ibv_qp_init_attr_ex a{};
    a.qp_type = static_cast<ibv_qp_type>(o.type);
    a.pd = in.get();
    a.comp_mask = IBV_QP_INIT_ATTR_PD;
    a.create_flags = o.create_flags;
    if (o.create_flags != 0) a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    if (o.indirection != nullptr) {
        a.rwq_ind_tbl = o.indirection;
        a.rx_hash_conf = o.hash;
        a.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH;
        return a;
    }
    a.send_cq = o.sends->get();
    a.recv_cq = (o.receives == nullptr ? o.sends : o.receives)->get();
    a.srq = o.shared_receives;
    a.sq_sig_all = o.signal_all ? 1 : 0;
    a.cap.max_send_wr = o.max_sends;
    a.cap.max_send_sge = o.send_pieces;
    a.cap.max_inline_data = o.inline_bytes;
    if (o.shared_receives == nullptr) {
        a.cap.max_recv_wr = o.max_receives;
        a.cap.max_recv_sge = o.receive_pieces;
    }
    if (o.segmentation_header != 0) {
        a.max_tso_header = o.segmentation_header;
        a.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    }
    if (o.send_operations != 0) {
        a.send_ops_flags = o.send_operations;
        a.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    }
    return a;
}

constexpr unsigned fewest_pieces = 2; ///< of a frame: head and body

bool driver_may_lack_it(int error) { return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL; }

} // namespace

queue_pair::queue_pair(const protection_domain& in, const queue_pair_options& options) : type_(options.type) {
    CW_ASSERT(options.indirection != nullptr || options.sends != nullptr, "a queue pair that sends needs a completion queue");
    api_ = &in.api();
    device_ = in.device_name();
    make(in, options);
}

/// Each thing that a driver may lack is left out, and as little as may be, since it does not say which: long lists of pieces, for which a
/// queue of raw packets needs much memory, then ibv_wr_*, then both, then inline sends, and so on.
void queue_pair::make(const protection_domain& in, const queue_pair_options& options) {
    queue_pair_options asked = options;
    const bool long_lists = options.segmentation_header != 0 && options.send_pieces > fewest_pieces;
    for (;;) {
        ibv_qp_init_attr_ex attributes = attributes_for(in, asked);
        pair_ = api_->create_qp(in.context(), &attributes);
        if (pair_ != nullptr) {
            owned_ = {*api_, pair_};
            capacity_ = attributes.cap;
            segments_ = asked.segmentation_header != 0;
            if (asked.send_operations != 0) extended_ = api_->qp_to_qp_ex(pair_);
            return;
        }
        const int error = errno;
        if (long_lists && asked.send_pieces > fewest_pieces && (error == EINVAL || error == ENOMEM)) {
            asked.send_pieces = fewest_pieces;
        } else if (asked.send_operations != 0 && driver_may_lack_it(error)) {
            asked.send_operations = 0;
            asked.send_pieces = options.send_pieces;
        } else if (asked.inline_bytes != 0 && error == EINVAL) {
            asked.inline_bytes = 0;
            asked.send_operations = options.send_operations;
            asked.send_pieces = options.send_pieces;
        } else {
            fail(type_ == transport::raw_packet ? operation::create_raw_queue_pair : operation::create_queue_pair, error,
                 fmt::format("make a {} queue pair on {} ({} sends of {} pieces, {} receives, {} bytes inline)", name_of(type_),
                             device_, options.max_sends, options.send_pieces, options.max_receives, options.inline_bytes));
        }
    }
}

queue_pair queue_pair::borrowed(ibv_qp* pair, const ibv_qp_cap& capacity, transport type, std::string device,
                                const verbs_api& api) {
    queue_pair q;
    q.api_ = &api;
    q.pair_ = pair;
    q.capacity_ = capacity;
    q.type_ = type;
    q.device_ = std::move(device);
    return q;
}

std::string queue_pair::describe() const { return fmt::format("{} queue pair {:#x} on {}", name_of(type_), number(), device_); }

int queue_pair::try_modify(ibv_qp_attr& attributes, int mask) noexcept { return api_->modify_qp(pair_, &attributes, mask); }

void queue_pair::modify(ibv_qp_attr& attributes, int mask, std::string_view step) {
    if (const int error = try_modify(attributes, mask); error != 0)
        fail(operation::move_queue_pair, error, fmt::format("move {} from {}", describe(), step));
}

void queue_pair::to_init(const connection_parameters& p) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.pkey_index = p.partition_index;
    a.port_num = p.port;
    a.qp_access_flags = p.remote_access;
    modify(a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
           fmt::format("RESET to INIT (port {}, P_Key index {})", p.port, p.partition_index));
}

void queue_pair::to_init(const datagram_parameters& p) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.pkey_index = p.partition_index;
    a.port_num = p.port;
    a.qkey = p.key;
    modify(a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
           fmt::format("RESET to INIT (port {}, P_Key index {})", p.port, p.partition_index));
}

void queue_pair::to_ready_to_receive(const remote_end& peer, const connection_parameters& p) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = p.path_mtu;
    a.dest_qp_num = peer.queue_pair;
    a.rq_psn = peer.first_sequence;
    a.max_dest_rd_atomic = p.reads_as_responder;
    a.min_rnr_timer = p.receiver_not_ready_delay;
    a.ah_attr.port_num = p.port;
    a.ah_attr.dlid = peer.lid;
    a.ah_attr.sl = p.service_level;
    a.ah_attr.is_global = 1;
    a.ah_attr.grh.dgid = peer.gid;
    a.ah_attr.grh.sgid_index = p.gid_index;
    a.ah_attr.grh.hop_limit = p.hop_limit;
    a.ah_attr.grh.traffic_class = p.traffic_class;
    modify(a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                  IBV_QP_MIN_RNR_TIMER,
           fmt::format("INIT to RTR (peer {} queue pair {:#x}, our GID index {}, MTU {})", to_string(peer.gid), peer.queue_pair,
                       p.gid_index, bytes_of(p.path_mtu)));
}

void queue_pair::to_ready_to_send(const connection_parameters& p) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = p.first_sequence;
    a.timeout = p.timeout;
    a.retry_cnt = p.retries;
    a.rnr_retry = p.receiver_not_ready_retries;
    a.max_rd_atomic = p.reads_as_initiator;
    modify(a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
           "RTR to RTS");
}

void queue_pair::activate(const remote_end& peer, const connection_parameters& parameters) {
    to_init(parameters);
    to_ready_to_receive(peer, parameters);
    to_ready_to_send(parameters);
}

void queue_pair::activate(const datagram_parameters& parameters) {
    to_init(parameters);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    modify(a, IBV_QP_STATE, "INIT to RTR");
    a.qp_state = IBV_QPS_RTS;
    a.sq_psn = parameters.first_sequence;
    modify(a, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTR to RTS");
}

void queue_pair::activate_raw(std::uint8_t port) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = port;
    modify(a, IBV_QP_STATE | IBV_QP_PORT, fmt::format("RESET to INIT (port {})", port));
    a.qp_state = IBV_QPS_RTR;
    modify(a, IBV_QP_STATE, "INIT to RTR");
    a.qp_state = IBV_QPS_RTS;
    modify(a, IBV_QP_STATE, "RTR to RTS");
}

void queue_pair::to_reset() {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RESET;
    modify(a, IBV_QP_STATE, "its state to RESET");
}

void queue_pair::to_error() {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_ERR;
    modify(a, IBV_QP_STATE, "its state to ERR");
}

std::optional<ibv_qp_state> queue_pair::state() const noexcept {
    ibv_qp_attr a{};
    ibv_qp_init_attr made{};
    if (api_->query_qp(pair_, &a, IBV_QP_STATE, &made) != 0) return std::nullopt;
    return a.qp_state;
}

} // namespace corewire::verbs
