// Devices, memory, completion queues, events; and the table of all set-up calls.
#include <corewire/rdma/fake/setup.hh>

#include <algorithm>
#include <bit>
#include <cstring>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace corewire::fake {

namespace {

// ---- devices ----

ibv_device** get_device_list(int* count) {
    const std::lock_guard guard(lock());
    const auto& all = detail::all_nics();
    auto** list = new ibv_device*[all.size() + 1]{};
    std::transform(all.begin(), all.end(), list, [](state* s) { return &s->device; });
    if (count != nullptr) *count = static_cast<int>(all.size());
    return list;
}

void free_device_list(ibv_device** list) { delete[] list; }

state* nic_of(const ibv_device* device) {
    for (state* s : detail::all_nics())
        if (&s->device == device) return s;
    return nullptr;
}

std::uint64_t guid_of(const state& s) {
    std::uint8_t bytes[8] = {0, 0, 0, 0xff, 0xfe, 0, 0, 0};
    std::byte mac[6];
    s.options.mac.store(mac);
    std::memcpy(bytes, mac, 3);
    std::memcpy(bytes + 5, mac + 3, 3);
    bytes[0] ^= 2;
    return std::bit_cast<std::uint64_t>(bytes);
}

std::uint64_t get_device_guid(ibv_device* device) { return guid_of(*nic_of(device)); }

} // namespace

ibv_context* open_device(ibv_device* device) {
    const std::lock_guard guard(lock());
    state* s = nic_of(device);
    if (s == nullptr) return refuse(ENODEV);
    if (const int error = s->fault("open_device"); error != 0) return refuse(error);
    auto* c = new context;
    c->state = s;
    c->base.device = device;
    c->base.cmd_fd = -1;
    c->base.async_fd = ::eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    c->base.num_comp_vectors = 1;
    c->base.ops.post_send = post_send;
    c->base.ops.post_recv = post_receive;
    c->base.ops.post_srq_recv = post_shared_receive;
    c->base.ops.poll_cq = poll_queue;
    c->base.ops.req_notify_cq = request_notification;
    c->base.ops.alloc_mw = alloc_mw;
    c->base.ops.dealloc_mw = dealloc_mw;
    s->open.insert(c);
    return &c->base;
}

int close_device(ibv_context* base) {
    const std::lock_guard guard(lock());
    auto* c = reinterpret_cast<context*>(base);
    c->state->open.erase(c);
    ::close(base->async_fd);
    delete c;
    return 0;
}

namespace {

int query_device(ibv_context* base, ibv_device_attr_ex* out) {
    const std::lock_guard guard(lock());
    state& s = state_of(base);
    if (const int error = s.fault("query_device"); error != 0) return error;
    const nic_options& o = s.options;
    *out = {};
    ibv_device_attr& a = out->orig_attr;
    std::strcpy(a.fw_ver, "fake");
    a.node_guid = get_device_guid(base->device);
    a.max_mr_size = ~0ull;
    a.max_qp = a.max_cq = a.max_mr = a.max_pd = a.max_ah = a.max_srq = 65536;
    a.max_qp_wr = a.max_srq_wr = static_cast<int>(o.max_work_requests);
    a.max_sge = a.max_srq_sge = static_cast<int>(o.max_pieces);
    a.max_cqe = static_cast<int>(o.max_entries);
    a.max_qp_rd_atom = a.max_qp_init_rd_atom = 16;
    a.atomic_cap = IBV_ATOMIC_HCA;
    a.max_pkeys = 1;
    a.phys_port_cnt = 1;
    if (o.checksums) a.device_cap_flags |= IBV_DEVICE_RAW_IP_CSUM;
    if (o.windows) a.device_cap_flags |= IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    if (o.windows) a.max_mw = 65536;
    if (o.checksums) out->raw_packet_caps |= IBV_RAW_PACKET_CAP_IP_CSUM;
    if (o.ethernet) a.max_raw_ethy_qp = 1024;
    if (o.segmentation) out->tso_caps = {o.max_segmented, 1u << IBV_QPT_RAW_PACKET};
    if (o.spreading) {
        out->rss_caps.supported_qpts = 1u << IBV_QPT_RAW_PACKET;
        out->rss_caps.max_rwq_indirection_tables = 64;
        out->rss_caps.max_rwq_indirection_table_size = 512;
        out->rss_caps.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ;
        out->rss_caps.rx_hash_fields_mask = 0xff;
        out->max_wq_type_rq = 1024;
    }
    if (o.extended_completions) {
        out->completion_timestamp_mask = ~0ull;
        out->hca_core_clock = 1'000'000;
    }
    if (o.moderation) out->cq_mod_caps = {65535, 4095};
    out->phys_port_cnt_ex = 1;
    return 0;
}

int query_port(ibv_context* base, std::uint8_t number, ibv_port_attr* out) {
    const std::lock_guard guard(lock());
    state& s = state_of(base);
    if (const int error = s.fault("query_port"); error != 0) return error;
    if (number != 1) return EINVAL;
    *out = {};
    out->state = s.up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    out->max_mtu = IBV_MTU_4096;
    out->active_mtu = static_cast<ibv_mtu>(std::countr_zero(s.path_mtu()) - 7);
    out->gid_tbl_len = static_cast<int>(s.gid_count());
    out->pkey_tbl_len = 1;
    out->max_msg_sz = 1u << 30;
    out->link_layer = s.options.ethernet ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    out->lid = s.options.ethernet ? std::uint16_t{0} : s.lid;
    return 0;
}

int query_pkey(ibv_context*, std::uint8_t, int index, __be16* out) {
    if (index != 0) return EINVAL;
    *out = 0xffff;
    return 0;
}

std::ptrdiff_t query_gid_table(ibv_context* base, ibv_gid_entry* out, std::size_t room) {
    const std::lock_guard guard(lock());
    state& s = state_of(base);
    if (const int error = s.fault("query_gid_table"); error != 0) return -error;
    std::vector<ibv_gid_entry> all(s.gid_count());
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].gid_index = static_cast<std::uint32_t>(i);
        all[i].port_num = 1;
        all[i].ndev_ifindex = s.options.interface;
        all[i].gid_type = s.gid_type_at(i);
        all[i].gid = s.gid_at(i);
    }
    if (all.size() > room) return -EINVAL;
    std::copy(all.begin(), all.end(), out);
    return static_cast<std::ptrdiff_t>(all.size());
}

// ---- domains and memory ----

ibv_pd* make_domain(ibv_context* on, domain* plain) {
    auto* d = new domain;
    d->base.context = on;
    d->plain = plain == nullptr ? d : plain;
    if (plain != nullptr) ++plain->users;
    state_of(on).domains.insert(d);
    return &d->base;
}

ibv_pd* alloc_pd(ibv_context* on) {
    const std::lock_guard guard(lock());
    if (const int error = state_of(on).fault("alloc_pd"); error != 0) return refuse(error);
    return make_domain(on, nullptr);
}

int dealloc_pd(ibv_pd* base) {
    const std::lock_guard guard(lock());
    domain& d = domain_of(base);
    if (d.users != 0) return EBUSY;
    if (d.plain != &d) --d.plain->users;
    state_of(base->context).domains.erase(&d);
    delete &d;
    return 0;
}

ibv_td* alloc_td(ibv_context* on) {
    const std::lock_guard guard(lock());
    state& s = state_of(on);
    if (const int error = s.options.thread_domains ? s.fault("alloc_td") : EOPNOTSUPP; error != 0) return refuse(error);
    ++s.others;
    return new ibv_td{on};
}

int dealloc_td(ibv_td* base) {
    const std::lock_guard guard(lock());
    --state_of(base->context).others;
    delete base;
    return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* on, ibv_pd* base, ibv_td*) {
    const std::lock_guard guard(lock());
    if (const int error = state_of(on).fault("alloc_parent_domain"); error != 0) return refuse(error);
    return make_domain(on, &domain_of(base));
}

ibv_mr* reg_mr(ibv_pd* in, void* at, std::size_t size, unsigned access) {
    const std::lock_guard guard(lock());
    state& s = state_of(in->context);
    if (const int error = s.fault("reg_mr"); error != 0) return refuse(error);
    const bool remote_change = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
    if (remote_change && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return refuse(EINVAL);
    if ((access & IBV_ACCESS_ON_DEMAND) != 0) return refuse(EOPNOTSUPP);
    if (at == nullptr || size == 0) return refuse(EINVAL);
    auto* r = new region;
    r->in = domain_of(in).plain;
    ++r->in->users;
    r->access = access;
    // A key is never used twice: an index, and a byte so that neighbours differ.
    const auto key = static_cast<std::uint32_t>(s.regions.size() << 8 | (s.regions.size() * 37 & 0xff));
    r->base = {in->context, in, at, size, 0, key, key};
    s.regions.push_back(r);
    return &r->base;
}

int dereg_mr(ibv_mr* base) {
    const std::lock_guard guard(lock());
    auto* r = reinterpret_cast<region*>(base);
    if (r->windows != 0) return EBUSY;
    --r->in->users;
    state_of(base->context).regions[base->lkey >> 8] = nullptr;
    delete r;
    return 0;
}

// ---- completion queues and events ----

ibv_comp_channel* create_comp_channel(ibv_context* on) {
    const std::lock_guard guard(lock());
    state& s = state_of(on);
    if (const int error = s.fault("create_comp_channel"); error != 0) return refuse(error);
    auto* c = new channel;
    c->base.context = on;
    c->base.fd = ::epoll_create1(EPOLL_CLOEXEC);
    c->wake.reset(::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN;
    ::epoll_ctl(c->base.fd, EPOLL_CTL_ADD, c->wake.get(), &event);
    if (s.wire != nullptr && s.wire->wake_fd() >= 0) ::epoll_ctl(c->base.fd, EPOLL_CTL_ADD, s.wire->wake_fd(), &event);
    s.channels.insert(c);
    return &c->base;
}

int destroy_comp_channel(ibv_comp_channel* base) {
    const std::lock_guard guard(lock());
    auto* c = reinterpret_cast<channel*>(base);
    if (c->users != 0) return EBUSY;
    ::close(base->fd);
    state_of(base->context).channels.erase(c);
    delete c;
    return 0;
}

completion_queue* make_queue(ibv_context* on, unsigned entries, void* user, ibv_comp_channel* wakes) {
    state& s = state_of(on);
    auto* q = new completion_queue;
    q->base.context = on;
    q->base.channel = wakes;
    q->base.cq_context = user;
    q->base.cqe = static_cast<int>(entries);
    q->wakes = reinterpret_cast<channel*>(wakes);
    if (q->wakes != nullptr) ++q->wakes->users;
    s.queues.insert(q);
    return q;
}

int refuses_queue(state& s, std::uint64_t entries, std::uint32_t vector) {
    if (const int error = s.fault("create_cq"); error != 0) return error;
    return entries == 0 || entries > s.options.max_entries || vector != 0 ? EINVAL : 0;
}

ibv_cq* create_cq(ibv_context* on, int entries, void* user, ibv_comp_channel* wakes, int vector) {
    const std::lock_guard guard(lock());
    const int error = refuses_queue(state_of(on), static_cast<std::uint64_t>(entries), static_cast<std::uint32_t>(vector));
    if (error != 0) return refuse(error);
    return ::ibv_cq_ex_to_cq(&make_queue(on, static_cast<unsigned>(entries), user, wakes)->base);
}

ibv_cq_ex* create_cq_ex(ibv_context* on, ibv_cq_init_attr_ex* a) {
    const std::lock_guard guard(lock());
    state& s = state_of(on);
    if (!s.options.extended_completions) return refuse(EOPNOTSUPP);
    if (const int error = refuses_queue(s, a->cqe, a->comp_vector); error != 0) return refuse(error);
    completion_queue* q = make_queue(on, a->cqe, a->cq_context, a->channel);
    add_extended_polling(*q);
    return &q->base;
}

int modify_cq(ibv_cq* base, ibv_modify_cq_attr* a) {
    const std::lock_guard guard(lock());
    state& s = state_of(base->context);
    if (const int error = s.fault("modify_cq"); error != 0) return error;
    if (!s.options.moderation || (a->attr_mask & ~unsigned{IBV_CQ_ATTR_MODERATE}) != 0) return EOPNOTSUPP;
    queue_of(base).moderate_count = a->moderate.cq_count;
    s.counts.moderated_us = a->moderate.cq_period;
    return 0;
}

int destroy_cq(ibv_cq* base) {
    const std::lock_guard guard(lock());
    completion_queue& q = queue_of(base);
    state& s = state_of(base->context);
    if (q.users != 0) return EBUSY;
    CW_ASSERT(q.events_given == q.events_acknowledged, "destroying this completion queue would wait for ever: acknowledge its events");
    if (q.wakes != nullptr) {
        std::erase(q.wakes->pending, &q);
        --q.wakes->users;
    }
    s.queues.erase(&q);
    delete &q;
    return 0;
}

int get_cq_event(ibv_comp_channel* base, ibv_cq** queue, void** user) {
    const std::lock_guard guard(lock());
    auto* c = reinterpret_cast<channel*>(base);
    state& s = state_of(base->context);
    if (std::exchange(s.wire_asleep, false)) s.wire->finish_sleep();
    if (!s.removed) s.pump();
    if (c->pending.empty()) return errno = EAGAIN, -1;
    std::uint64_t one;
    static_cast<void>(!::read(c->wake.get(), &one, sizeof one));
    completion_queue* q = c->pending.front();
    c->pending.pop_front();
    ++q->events_given;
    *queue = ::ibv_cq_ex_to_cq(&q->base);
    *user = q->base.cq_context;
    return 0;
}

void ack_cq_events(ibv_cq* base, unsigned count) {
    const std::lock_guard guard(lock());
    queue_of(base).events_acknowledged += count;
    CW_ASSERT(queue_of(base).events_acknowledged <= queue_of(base).events_given, "more events were acknowledged than taken");
}

int get_async_event(ibv_context* base, ibv_async_event* out) {
    const std::lock_guard guard(lock());
    state& s = state_of(base);
    auto& waiting = reinterpret_cast<context*>(base)->async;
    if (waiting.empty()) return errno = s.removed ? EIO : EAGAIN, -1;
    std::uint64_t one;
    static_cast<void>(!::read(base->async_fd, &one, sizeof one));
    *out = waiting.front();
    waiting.pop_front();
    return 0;
}

void ack_async_event(ibv_async_event*) {}

ibv_fork_status is_fork_initialized() { return IBV_FORK_UNNEEDED; }

constexpr verbs::verbs_api table{
    .get_device_list = get_device_list,
    .free_device_list = free_device_list,
    .get_device_guid = get_device_guid,
    .open_device = open_device,
    .close_device = close_device,
    .query_device = query_device,
    .query_port = query_port,
    .query_pkey = query_pkey,
    .query_gid_table = query_gid_table,
    .alloc_pd = alloc_pd,
    .dealloc_pd = dealloc_pd,
    .alloc_td = alloc_td,
    .dealloc_td = dealloc_td,
    .alloc_parent_domain = alloc_parent_domain,
    .reg_mr = reg_mr,
    .dereg_mr = dereg_mr,
    .create_comp_channel = create_comp_channel,
    .destroy_comp_channel = destroy_comp_channel,
    .create_cq = create_cq,
    .create_cq_ex = create_cq_ex,
    .modify_cq = modify_cq,
    .destroy_cq = destroy_cq,
    .get_cq_event = get_cq_event,
    .ack_cq_events = ack_cq_events,
    .create_srq = create_srq,
    .modify_srq = modify_srq,
    .destroy_srq = destroy_srq,
    .create_qp = create_qp,
    .qp_to_qp_ex = qp_to_qp_ex,
    .modify_qp = modify_qp,
    .query_qp = query_qp,
    .destroy_qp = destroy_qp,
    .create_wq = create_wq,
    .modify_wq = modify_wq,
    .destroy_wq = destroy_wq,
    .create_rwq_ind_table = create_table,
    .destroy_rwq_ind_table = destroy_table,
    .create_flow = create_flow,
    .destroy_flow = destroy_flow,
    .create_ah = create_ah,
    .init_ah_from_wc = init_ah_from_wc,
    .destroy_ah = destroy_ah,
    .waits_for = [](ibv_context* on, const ibv_gid* to) { return state_of(on).holds_way(*to); },
    .attach_mcast = attach_mcast,
    .detach_mcast = detach_mcast,
    .get_async_event = get_async_event,
    .ack_async_event = ack_async_event,
    .is_fork_initialized = is_fork_initialized,
};

} // namespace

const verbs::verbs_api& api() noexcept { return table; }

/// The link-local one, and behind it those of the IPv4 addresses.
ibv_gid state::gid_at(std::size_t index) const noexcept {
    ibv_gid gid{};
    if (index == 0) {
        const std::uint64_t guid = guid_of(*this);
        gid.raw[0] = 0xfe;
        gid.raw[1] = 0x80;
        std::memcpy(gid.raw + 8, &guid, 8);
    } else if (index <= options.addresses.size()) {
        gid.raw[10] = gid.raw[11] = 0xff;
        store_be32(reinterpret_cast<std::byte*>(gid.raw + 12), options.addresses[index - 1].value());
    } else {
        gid = options.more_gids[index - 1 - options.addresses.size()].gid;
    }
    return gid;
}

ibv_gid_type state::gid_type_at(std::size_t index) const noexcept {
    if (!options.ethernet) return IBV_GID_TYPE_IB;
    return index <= options.addresses.size() ? IBV_GID_TYPE_ROCE_V2 : options.more_gids[index - 1 - options.addresses.size()].type;
}

bool state::has_gid(const ibv_gid& gid, ibv_gid_type type) const noexcept {
    for (std::size_t i = 0; i < gid_count(); ++i) {
        const ibv_gid each = gid_at(i);
        if (gid_type_at(i) == type && std::memcmp(&each, &gid, sizeof gid) == 0) return true;
    }
    return false;
}

int state::refuses_way(const ibv_ah_attr& way) const noexcept {
    if (way.is_global == 0) return options.ethernet ? EINVAL : 0; // Ethernet knows GIDs only
    const auto& to = way.grh.dgid.raw;
    if (way.port_num != 1 || way.grh.sgid_index >= gid_count()) return EINVAL;
    if (std::all_of(std::begin(to), std::end(to), [](std::uint8_t b) { return b == 0; })) return EINVAL;
    const bool asks = options.ethernet && !is_group(way.grh.dgid);
    return asks && is_mapped(gid_at(way.grh.sgid_index)) != is_mapped(way.grh.dgid) ? EINVAL : 0;
}

} // namespace corewire::fake
