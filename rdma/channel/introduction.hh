// What the two ends of a reliable connection tell each other over a stream, where rdma_cm does not do it for them. Frames, big-endian:
//
//     head, 8 bytes     "CWRX", version (16 bits), kind (8), how many bytes follow (8); the same in every version
//     introduction      where its queue pair is, what it asks of the peer, and the rc_hello that rdma_cm would carry as private data
//     ready             nothing: who has heard it may send
//     refusal           a sentence that says why not; in every version
//
// Plain values; from_wire() takes any bytes.
#pragma once

#include <corewire/rdma/channel/rc_options.hh>
#include <corewire/rdma/verbs/queue_pair.hh>

#include <string>

namespace corewire::rdma {

struct rc_frame {
    enum class kind : std::uint8_t { introduction = 1, ready = 2, refusal = 3 };
    static constexpr std::size_t wire_size = 8;
    static constexpr std::uint32_t magic = 0x43575258;
    static constexpr std::uint16_t version = 2; ///< from 2 on an introduction says the kind of its GID
    static constexpr std::size_t longest_sentence = 240;

    kind what = kind::ready;
    std::uint8_t size = 0; ///< bytes that follow
    std::uint16_t spoken = version;

    std::array<std::byte, wire_size> to_wire() const noexcept;
    /// Nothing if this is no frame of ours. Of another version than this one `what` is `refusal`, or means nothing.
    static std::optional<rc_frame> from_wire(byte_span bytes) noexcept;
    bool is_known() const noexcept { return spoken == version || what == kind::refusal; }
};

struct rc_introduction {
    static constexpr std::size_t wire_size = 56;

    verbs::remote_end end{};               ///< queue pair, first sequence number, GID, LID
    std::uint16_t partition = 0xffff;      ///< P_Key
    std::uint8_t link = IBV_LINK_LAYER_ETHERNET;
    std::uint8_t path_mtu = IBV_MTU_1024;  ///< the largest that its port has: IBV_MTU_...
    std::uint8_t port = 1;                 ///< of its device
    std::uint8_t retries = rdma::retries;  ///< how often the other end is to send anew what is not acknowledged
    std::uint8_t not_ready_retries = rdma::not_ready_retries; ///< and what finds no receive posted
    std::uint8_t reads_as_responder = 0;   ///< READs and atomics at a time that it serves,
    std::uint8_t reads_as_initiator = 0;   ///< and that it has under way
    std::uint8_t gid_type = IBV_GID_TYPE_ROCE_V2; ///< IBV_GID_TYPE_...: of `end.gid`; on InfiniBand IBV_GID_TYPE_IB
    rc_hello hello{};

    std::array<std::byte, wire_size> to_wire() const noexcept;
    /// Nothing if a field is out of its bounds.
    static std::optional<rc_introduction> from_wire(byte_span bytes) noexcept;
    /// Whether packets from an address of the type `type` reach this end's, and the other way round: of one version of RoCE and one family
    /// of addresses, or of one InfiniBand subnet (no router is asked for).
    bool is_reached_from(const ibv_gid& gid, std::uint8_t type) const noexcept;
    /// Why one end, which says `ours`, cannot be connected to the other; empty if it can.
    std::string refused_by(const rc_introduction& ours) const;
};

} // namespace corewire::rdma
