// Datagrams between UD queue pairs. All fakes are ports of one switch: it finds a port by its GID (or LID, on InfiniBand), and
// a group by who is attached to it.
//
//     send -> handle, size -> 40 bytes of header + payload -> the queue pair of that number | each one in the group
//                                                             state, Q_Key, a posted buffer -> completion
//
// What does not fit at the receiver is lost without a word, as on any network; what is wrong at the sender fails the send.
#include <corewire/net/wire/checksum.hh>
#include <corewire/rdma/fake/setup.hh>

#include <algorithm>
#include <cstring>

namespace corewire::fake {

namespace {

constexpr std::size_t header_size = 40;
constexpr std::uint32_t group_pair = 0xffffff; ///< the number that datagrams to a group name
constexpr std::uint32_t own_key = 0x80000000;  ///< a work request with this bit sends its queue pair's own Q_Key


/// What stands in front of a payload: the GRH, or, over IPv4, its header in the last 20 bytes (RoCE v2, annex A17.4.5). What is before that
/// is nobody's: it looks like the beginning of another header here.
void write_header(std::byte* out, ibv_gid_type type, const ibv_gid& from, const ibv_gid& to, std::size_t payload, std::uint8_t hops) {
    std::memset(out, 0, header_size);
    if (type == IBV_GID_TYPE_ROCE_V2 && is_mapped(from) && is_mapped(to)) {
        std::memset(out, 0x6a, 20);
        std::byte* const ip = out + 20;
        ip[0] = std::byte{0x45};
        store_be16(ip + 2, static_cast<std::uint16_t>(payload + 52)); // IPv4, UDP, BTH, DETH, ICRC
        ip[8] = std::byte{hops};
        ip[9] = std::byte{17};
        std::memcpy(ip + 12, from.raw + 12, 4);
        std::memcpy(ip + 16, to.raw + 12, 4);
        store_be16(ip + 10, wire::internet_checksum({ip, 20}));
        return;
    }
    out[0] = std::byte{0x60};
    store_be16(out + 4, static_cast<std::uint16_t>(payload + 24));
    out[6] = std::byte{0x1b};
    out[7] = std::byte{hops};
    std::memcpy(out + 8, from.raw, 16);
    std::memcpy(out + 24, to.raw, 16);
}

bool hears(const queue_pair& pair, ibv_qp_type type) {
    const ibv_qp_state s = pair.base.qp_base.state;
    return pair.made_with.qp_type == type && (s == IBV_QPS_RTR || s == IBV_QPS_RTS || s == IBV_QPS_SQE);
}

/// Hands it to one queue pair, if that would take it.
bool deliver(queue_pair& to, std::uint32_t key, byte_span whole, const ibv_wc& about) {
    state& there = state_of(to.qp().context);
    if (!there.up || there.removed || !hears(to, IBV_QPT_UD) || to.attributes.qkey != key) return false;
    const std::uint64_t before = there.counts.frames_received;
    ibv_wc told = about;
    std::vector<std::byte> spoiled;
    if (there.spoiled_headers.first != 0) {
        --there.spoiled_headers.first;
        spoiled.assign(whole.begin(), whole.end());
        std::fill_n(spoiled.begin(), header_size, std::byte{0x11});
        if (there.spoiled_headers.second) told.wc_flags &= ~unsigned{IBV_WC_GRH};
        whole = spoiled;
    }
    there.fill(to, to.receives(), queue_of(to.qp().recv_cq), whole, told);
    there.counts.datagrams_received += there.counts.frames_received - before;
    return true;
}

} // namespace

address* state::handle_of(const ibv_ah* handle) const noexcept {
    for (address* each : handles)
        if (&each->base == handle) return each;
    return nullptr;
}

ibv_wc_status state::send_datagram(queue_pair& from, const ibv_send_wr& wr, byte_span payload) {
    const address& to = *handle_of(wr.wr.ud.ah);
    if (to.in->plain != from.in->plain) {
        complain("a datagram names an address handle of another domain");
        return IBV_WC_LOC_QP_OP_ERR;
    }
    if (payload.size() > path_mtu()) {
        complain("a datagram is longer than the MTU of its path");
        return IBV_WC_LOC_LEN_ERR;
    }
    ++counts.datagrams_sent;
    if (!up || lost_datagrams != 0) {
        if (up) --lost_datagrams;
        ++counts.lost_on_wire;
        return IBV_WC_SUCCESS;
    }
    const ibv_gid ours = gid_at(to.attributes.grh.sgid_index), theirs = to.attributes.grh.dgid;
    const bool global = to.attributes.is_global != 0, group = global && is_group(theirs);
    if (group != (wr.wr.ud.remote_qpn == group_pair)) complain("0xffffff is the number of a group's queue pairs, and of no other");
    const ibv_gid_type version = gid_type_at(to.attributes.grh.sgid_index);
    const std::uint32_t key = (wr.wr.ud.remote_qkey & own_key) != 0 ? from.attributes.qkey : wr.wr.ud.remote_qkey;

    std::vector<std::byte> whole(header_size + payload.size());
    if (global) write_header(whole.data(), version, ours, theirs, payload.size(), to.attributes.grh.hop_limit);
    else std::memset(whole.data(), 0xa5, header_size); // nobody promises what stands there
    if (!payload.empty()) std::memcpy(whole.data() + header_size, payload.data(), payload.size());
    ibv_wc about{};
    about.wc_flags = global ? unsigned{IBV_WC_GRH} : 0u;
    about.src_qp = from.qp().qp_num;
    about.slid = options.ethernet ? std::uint16_t{0} : lid;
    if (wr.opcode == IBV_WR_SEND_WITH_IMM) {
        about.wc_flags |= IBV_WC_WITH_IMM;
        about.imm_data = wr.imm_data;
    }

    // A subnet carries what goes to a group as its administrator has said, from members to members.
    const fabric_options& said = options.fabric;
    const bool as_said = to.attributes.dlid == said.lid && to.attributes.sl == said.service_level;
    const bool carried = options.ethernet || !group || (as_said && joined.contains(std::to_array(theirs.raw)));
    const bool level = options.ethernet || to.attributes.sl == said.service_level; // its switches drop what has another
    bool heard = false;
    for (state* nic : detail::all_nics()) {
        if (nic->options.ethernet != options.ethernet) continue;
        bool addressed = !global && nic->lid == to.attributes.dlid;
        addressed |= global && nic->has_gid(theirs, version);
        if (group && (!carried || (!options.ethernet && !nic->joined.contains(std::to_array(theirs.raw))))) continue;
        if ((!addressed && !group) || !level) continue;
        for (queue_pair* pair : std::vector(nic->pairs.begin(), nic->pairs.end())) {
            const bool meant = group ? pair->groups.contains(std::to_array(theirs.raw)) &&
                                           (pair != &from || (pair->made_with.create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB) == 0)
                                     : pair->qp().qp_num == wr.wr.ud.remote_qpn;
            if (meant) heard |= deliver(*pair, key, whole, about);
        }
    }
    counts.datagrams_lost += !heard;
    return IBV_WC_SUCCESS;
}

} // namespace corewire::fake
