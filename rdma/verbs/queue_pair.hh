// A queue pair: work goes in, completions come out of the queues it was made with. Belongs to one shard.
//
//     RESET --to_init--> INIT --to_ready_to_receive--> RTR --to_ready_to_send--> RTS        any --to_error--> ERR
//       ^------------------------------------ to_reset ------------------------------------------------------'
//
// Receives may be posted from INIT on, sends in RTS. A queue pair in ERR completes everything with IBV_WC_WR_FLUSH_ERR.
// Bounds: the capacities it was made with; posting more fails with ENOMEM.
#pragma once

#include <corewire/rdma/verbs/completion_queue.hh>
#include <corewire/rdma/verbs/protection_domain.hh>

#include <optional>

namespace corewire::verbs {

enum class transport {
    reliable_connection = IBV_QPT_RC,
    unreliable_datagram = IBV_QPT_UD,
    raw_packet = IBV_QPT_RAW_PACKET,
};
std::string_view name_of(transport t) noexcept;
std::string_view name_of(ibv_qp_state s) noexcept;

struct queue_pair_options {
    transport type = transport::reliable_connection;
    completion_queue* sends = nullptr;    ///< where sends complete; needed unless `indirection` is set
    completion_queue* receives = nullptr; ///< where receives complete
    ibv_srq* shared_receives = nullptr;   ///< instead of a receive queue of its own
    unsigned max_sends = 256;             ///< work requests that may be outstanding
    unsigned max_receives = 256;
    unsigned send_pieces = 2;             ///< scatter/gather elements of a work request
    unsigned receive_pieces = 1;
    unsigned inline_bytes = 0;            ///< what is this small may be sent inline; the device may give more or less
    bool signal_all = false;              ///< every send completes, whatever its flags say
    std::uint64_t send_operations = 0;    ///< IBV_QP_EX_WITH_...: for ibv_wr_*; without them, or a driver's help, work chains
    std::uint16_t segmentation_header = 0; ///< raw packets: longest headers of a TSO send; 0: none
    std::uint32_t create_flags = 0;       ///< IBV_QP_CREATE_...
    ibv_rwq_ind_table* indirection = nullptr; ///< raw packets: spread over these queues by `hash`; such a pair only receives
    ibv_rx_hash_conf hash{};
};

/// Where the other end of a reliable connection is.
struct remote_end {
    std::uint32_t queue_pair = 0;
    std::uint32_t first_sequence = 0;  ///< 24 bits: the packet sequence number that it starts with
    ibv_gid gid{};
    std::uint16_t lid = 0;             ///< InfiniBand only
};

struct connection_parameters {
    std::uint8_t port = 1;
    std::uint8_t gid_index = 0;        ///< of our address
    std::uint16_t partition_index = 0;
    std::uint32_t first_sequence = 0;  ///< ours
    ibv_mtu path_mtu = IBV_MTU_1024;
    unsigned remote_access = 0;        ///< what the peer may do: IBV_ACCESS_REMOTE_...
    std::uint8_t reads_as_responder = 1; ///< READs and atomics of the peer that we serve at a time
    std::uint8_t reads_as_initiator = 1; ///< of ours that may be outstanding
    std::uint8_t hop_limit = 64;
    std::uint8_t traffic_class = 0;
    std::uint8_t service_level = 0;
    std::uint8_t timeout = 14;         ///< 4.096 us x 2^timeout for an acknowledgement: 67 ms
    std::uint8_t retries = 6;          ///< 7 is for ever with rdma_rxe
    std::uint8_t receiver_not_ready_retries = 7; ///< 7: for ever
    std::uint8_t receiver_not_ready_delay = 12;  ///< code of 0.64 ms
};

struct datagram_parameters {
    std::uint8_t port = 1;
    std::uint16_t partition_index = 0;
    std::uint32_t key = 0x11111111;    ///< the Q_Key that senders have to name
    std::uint32_t first_sequence = 0;
};

class queue_pair {
public:
    /// Throws std::system_error with a sentence. Falls back to one without send_operations if the driver has none.
    queue_pair(const protection_domain& in, const queue_pair_options& options);
    /// One that somebody else made and destroys (an rdma_cm_id's).
    static queue_pair borrowed(ibv_qp* pair, const ibv_qp_cap& capacity, transport type, std::string device,
                               const verbs_api& api = system_api());

    // The whole walk to RTS. Each throws std::system_error that names the step which failed.
    void activate(const remote_end& peer, const connection_parameters& parameters);  ///< RC
    void activate(const datagram_parameters& parameters);                            ///< UD
    void activate_raw(std::uint8_t port = 1);                                        ///< raw packets

    // One step each, for those who do something in between.
    void to_init(const connection_parameters& parameters);
    void to_init(const datagram_parameters& parameters);
    void to_ready_to_receive(const remote_end& peer, const connection_parameters& parameters);
    void to_ready_to_send(const connection_parameters& parameters);
    void to_reset();
    void to_error();
    /// Any other change; `step` is for the message: "INIT to RTR".
    void modify(ibv_qp_attr& attributes, int mask, std::string_view step);
    /// The same without a message: an errno, for those who may fail.
    int try_modify(ibv_qp_attr& attributes, int mask) noexcept;
    /// As the device sees it; nothing when it cannot say.
    std::optional<ibv_qp_state> state() const noexcept;

    // Hot path: errno, and what was not posted in `bad`.
    int post_send(ibv_send_wr* chain, ibv_send_wr** bad) noexcept { return ::ibv_post_send(pair_, chain, bad); }
    int post_receive(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept { return ::ibv_post_recv(pair_, chain, bad); }
    /// For ibv_wr_start() and the rest; null if the driver has it not, or it was not asked for.
    ibv_qp_ex* extended() const noexcept { return extended_; }

    ibv_qp* get() const noexcept { return pair_; }
    std::uint32_t number() const noexcept { return pair_->qp_num; }
    /// As the device gave it.
    const ibv_qp_cap& capacity() const noexcept { return capacity_; }
    transport type() const noexcept { return type_; }
    /// Whether ibv_wr_send_tso() or IBV_WR_TSO may be used.
    bool segments() const noexcept { return segments_; }

private:
    queue_pair() = default;
    void make(const protection_domain& in, const queue_pair_options& options);
    std::string describe() const;

    handle<ibv_qp, &verbs_api::destroy_qp> owned_;
    const verbs_api* api_ = nullptr;
    ibv_qp* pair_ = nullptr;
    ibv_qp_ex* extended_ = nullptr;
    ibv_qp_cap capacity_{};
    transport type_ = transport::reliable_connection;
    bool segments_ = false;
    std::string device_;
};

} // namespace corewire::verbs
