// rdma_cm between fake NICs: RC connections by IP address, of either family, and port.
//
//     connect -- to a listener's channel: CONNECT_REQUEST, with the caller's data --> accept: both queue pairs to RTS, ESTABLISHED
//             <- REJECTED: nobody listens, refused, the listener or the request destroyed     at both ends
//     disconnect, or an id destroyed: its queue pair to ERR; DISCONNECTED at both ends
//
// On InfiniBand it also joins ports to multicast groups, as the subnet's administrator would (port space IPOIB).
//
// Each step is done at once and its event waits in the channel of its id, whose descriptor is readable as long. An id destroyed takes
// its events along; with one that was taken and not acknowledged, rdma_destroy_id(3) would wait for ever: an assertion here.
#include <corewire/net/wire/net_address.hh>
#include <corewire/rdma/fake/setup.hh>

#include <cstring>
#include <memory>
#include <infiniband/ib.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace corewire::fake {

namespace {

struct cm_channel;

struct cm_id {
    rdma_cm_id base{};
    enum class phase { idle, bound, listening, resolved, routed, asking, asked, connected, over };
    phase now = phase::idle;
    cm_id* peer = nullptr;
    rdma_conn_param asked_with{}; ///< of the active end
    std::uint8_t patience = 17;   ///< 4.096 us x 2^17: about half a second, a try
    unsigned events_taken = 0;
    std::set<std::array<std::uint8_t, 16>> groups; ///< that its port is in by this

    cm_channel& channel() noexcept { return *reinterpret_cast<cm_channel*>(base.channel); }
    sockaddr_storage& ours() noexcept { return base.route.addr.src_storage; }
    sockaddr_storage& theirs() noexcept { return base.route.addr.dst_storage; }
    __be16& our_port() noexcept { return base.route.addr.src_sin.sin_port; } // sin6_port stands there, too
    __be16& their_port() noexcept { return base.route.addr.dst_sin.sin_port; }
};

struct event {
    rdma_cm_event base{};
    std::array<std::byte, 256> data{};
};

struct cm_channel {
    rdma_event_channel base{}; ///< first
    std::deque<std::unique_ptr<event>> waiting;
    /// As librdmacm, one for all channels; closed with the last of them, as librdmacm closes devices with the process.
    std::map<state*, std::shared_ptr<ibv_context>> opened;
};

std::set<cm_id*> all_ids;
std::uint16_t next_port = 40'000;

constexpr int fabric_full_of_strangers = -110; ///< the status of ADDR_ERROR: -ETIMEDOUT
constexpr int nobody_listens = 8;              ///< IB_CM_REJ_INVALID_SERVICE_ID
constexpr int refused_by_consumer = 28;        ///< IB_CM_REJ_CONSUMER_DEFINED

cm_id& of(rdma_cm_id* id) noexcept { return *reinterpret_cast<cm_id*>(id); }
int fail(int error) noexcept { return errno = error, -1; }

net_address address_in(const sockaddr_storage& name) {
    if (name.ss_family == AF_INET) return ipv4(host_to_be(reinterpret_cast<const sockaddr_in&>(name).sin_addr.s_addr));
    return ipv6::load(reinterpret_cast<const std::byte*>(&reinterpret_cast<const sockaddr_in6&>(name).sin6_addr));
}

/// False: a family that this knows not.
bool copy_name(sockaddr_storage& out, const sockaddr* name) {
    if (name->sa_family != AF_INET && name->sa_family != AF_INET6) return false;
    out = {};
    std::memcpy(&out, name, name->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    return true;
}

ibv_gid gid_of(const net_address& a) {
    ibv_gid out;
    a.v6().store(reinterpret_cast<std::byte*>(out.raw));
    return out;
}

/// Where it stands in a NIC's table of GIDs; 0: nowhere.
std::size_t index_of(const state& nic, const net_address& a) {
    const ibv_gid wanted = gid_of(a);
    for (std::size_t i = 1; i < nic.gid_count(); ++i) {
        const ibv_gid each = nic.gid_at(i);
        if (nic.options.ethernet && nic.gid_type_at(i) != IBV_GID_TYPE_ROCE_V2) continue;
        if (std::memcmp(&each, &wanted, sizeof each) == 0) return i;
    }
    return 0;
}

state* nic_with(const net_address& address) {
    for (state* nic : detail::all_nics())
        if (!nic->removed && index_of(*nic, address) != 0) return nic;
    return nullptr;
}

state* nic_of(const cm_id& id) noexcept { return id.base.verbs == nullptr ? nullptr : &state_of(id.base.verbs); }

/// As librdmacm does when it looks for a device that it does not know yet: those that were removed, and have no id, are closed.
void close_removed(cm_channel& channel) {
    for (auto& [nic, context] : channel.opened) {
        const auto stands_on = [on = context.get()](const cm_id* id) { return id->base.verbs == on; };
        if (!nic->removed || !context || std::ranges::any_of(all_ids, stands_on)) continue;
        context.reset();
    }
}

bool use_device(cm_id& id, state& nic) {
    std::shared_ptr<ibv_context>& context = id.channel().opened[&nic];
    if (!context) {
        close_removed(id.channel());
        context = nic.opened_by_cm.lock();
    }
    if (!context) {
        if (ibv_context* const made = open_device(&nic.device); made != nullptr) context.reset(made, close_device);
        nic.opened_by_cm = context;
    }
    id.base.verbs = context.get();
    id.base.port_num = 1;
    return context != nullptr;
}

void tell(cm_id& whom, rdma_cm_event_type what, int status = 0, const rdma_conn_param* with = nullptr, rdma_cm_id* about = nullptr,
          std::size_t room = 0) {
    auto e = std::make_unique<event>();
    e->base.event = what;
    e->base.status = status;
    e->base.id = about != nullptr ? about : &whom.base;
    e->base.listen_id = about != nullptr ? &whom.base : nullptr;
    if (with != nullptr) {
        e->base.param.conn = *with;
        if (with->private_data != nullptr) std::memcpy(e->data.data(), with->private_data, with->private_data_len);
        e->base.param.conn.private_data = e->data.data();
        e->base.param.conn.private_data_len = static_cast<std::uint8_t>(room); // the packet's, zeros behind what was sent
    }
    cm_channel& channel = whom.channel();
    channel.waiting.push_back(std::move(e));
    const std::uint64_t one = 1;
    static_cast<void>(!::write(channel.base.fd, &one, sizeof one));
}

void forget_events(cm_id& id) {
    auto& waiting = id.channel().waiting;
    for (auto it = waiting.begin(); it != waiting.end();) {
        if ((*it)->base.id != &id.base && (*it)->base.listen_id != &id.base) {
            ++it;
            continue;
        }
        it = waiting.erase(it);
        std::uint64_t one;
        static_cast<void>(!::read(id.channel().base.fd, &one, sizeof one));
    }
}

// ---- channels ----

rdma_event_channel* create_event_channel() {
    const std::lock_guard guard(lock());
    auto* c = new cm_channel;
    c->base.fd = ::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC);
    return &c->base;
}

void destroy_event_channel(rdma_event_channel* base) {
    const std::lock_guard guard(lock());
    auto* c = reinterpret_cast<cm_channel*>(base);
    for (const cm_id* id : all_ids) CW_ASSERT(id->base.channel != base, "an event channel of rdma_cm goes before its ids");
    ::close(base->fd);
    delete c;
}

int get_cm_event(rdma_event_channel* base, rdma_cm_event** out) {
    const std::lock_guard guard(lock());
    auto* c = reinterpret_cast<cm_channel*>(base);
    if (c->waiting.empty()) return fail(EAGAIN);
    std::uint64_t one;
    static_cast<void>(!::read(base->fd, &one, sizeof one));
    event* const e = c->waiting.front().release();
    c->waiting.pop_front();
    ++of(e->base.id).events_taken;
    *out = &e->base;
    return 0;
}

int ack_cm_event(rdma_cm_event* base) {
    const std::lock_guard guard(lock());
    --of(base->id).events_taken;
    delete reinterpret_cast<event*>(base);
    return 0;
}

// ---- ids ----

int create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context, rdma_port_space space) {
    const std::lock_guard guard(lock());
    // Neither calls that wait, nor datagrams.
    if (channel == nullptr || (space != RDMA_PS_TCP && space != RDMA_PS_IPOIB)) return fail(EOPNOTSUPP);
    auto* id = new cm_id;
    id->base.channel = channel;
    id->base.context = context;
    id->base.ps = space;
    all_ids.insert(id);
    *out = &id->base;
    return 0;
}

/// The other end hears of it: as of a disconnection, or as of a refusal where there is no connection yet.
void part(cm_id& id) {
    cm_id* const peer = std::exchange(id.peer, nullptr);
    if (peer == nullptr) return;
    peer->peer = nullptr;
    if ((id.base.qp != nullptr && pair_of(id.base.qp).mute) || (nic_of(id) != nullptr && nic_of(id)->removed)) return;
    const auto cut_off = [](const cm_id& each) { return nic_of(each) != nullptr && !nic_of(each)->up; };
    if (cut_off(id) || cut_off(*peer)) return; // the word is lost
    if (id.now == cm_id::phase::connected) {
        peer->now = cm_id::phase::over;
        tell(*peer, RDMA_CM_EVENT_DISCONNECTED);
    } else if (id.now == cm_id::phase::asked) {
        peer->now = cm_id::phase::over;
        tell(*peer, RDMA_CM_EVENT_REJECTED, refused_by_consumer);
    }
    id.now = cm_id::phase::over;
}

int destroy_id(rdma_cm_id* base) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    CW_ASSERT(id.events_taken == 0, "destroying this rdma_cm_id would wait for ever: acknowledge its events");
    if (base->qp != nullptr) return fail(EBUSY);
    part(id);
    for (const auto& group : id.groups) nic_of(id)->leave_group(group);
    if (id.now == cm_id::phase::listening) { // requests that nobody has taken are refused
        auto waiting = std::exchange(id.channel().waiting, {});
        for (auto& each : waiting) {
            if (each->base.listen_id != base) {
                id.channel().waiting.push_back(std::move(each));
                continue;
            }
            std::uint64_t one;
            static_cast<void>(!::read(base->channel->fd, &one, sizeof one));
            part(of(each->base.id));
            all_ids.erase(&of(each->base.id));
            delete &of(each->base.id);
        }
    }
    forget_events(id);
    all_ids.erase(&id);
    delete &id;
    return 0;
}

int set_option(rdma_cm_id* base, int level, int name, void* value, std::size_t size) {
    if (level != RDMA_OPTION_ID || name != RDMA_OPTION_ID_ACK_TIMEOUT || size != 1) return fail(ENOSYS);
    of(base).patience = *static_cast<const std::uint8_t*>(value);
    return 0;
}

int bind_addr(rdma_cm_id* base, sockaddr* address) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    sockaddr_storage at;
    if (id.now != cm_id::phase::idle || !copy_name(at, address)) return fail(EINVAL);
    __be16& port = reinterpret_cast<sockaddr_in&>(at).sin_port;
    if (port == 0) port = host_to_be(next_port++);
    const net_address ours = address_in(at);
    for (cm_id* each : all_ids) {
        if (each->now != cm_id::phase::listening || each->our_port() != port) continue;
        const net_address theirs = address_in(each->ours());
        if (theirs == ours || theirs.is_any() || ours.is_any()) return fail(EADDRINUSE);
    }
    if (!ours.is_any()) {
        state* const nic = nic_with(ours);
        if (nic == nullptr) return fail(EADDRNOTAVAIL);
        if (!use_device(id, *nic)) return -1;
    }
    id.ours() = at;
    id.now = cm_id::phase::bound;
    return 0;
}

int listen(rdma_cm_id* base, int) {
    const std::lock_guard guard(lock());
    if (of(base).now != cm_id::phase::bound) return fail(EINVAL);
    of(base).now = cm_id::phase::listening;
    return 0;
}

__be16 get_src_port(rdma_cm_id* base) { return of(base).our_port(); }

int resolve_addr(rdma_cm_id* base, sockaddr* from, sockaddr* to, int) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    if (id.now != cm_id::phase::idle || !copy_name(id.theirs(), to)) return fail(EINVAL);
    state* const there = nic_with(address_in(id.theirs()));
    state* here = there; // an address of one's own stays within the device
    if (from != nullptr) {
        if (from->sa_family != to->sa_family || !copy_name(id.ours(), from)) return fail(EINVAL);
        here = nic_with(address_in(id.ours()));
        if (here == nullptr) return fail(EADDRNOTAVAIL);
    } else {
        id.ours() = id.theirs();
    }
    id.our_port() = host_to_be(next_port++);
    if (there == nullptr || !here->up) {
        tell(id, RDMA_CM_EVENT_ADDR_ERROR, fabric_full_of_strangers);
        return 0;
    }
    if (!use_device(id, *here)) return -1;
    id.now = cm_id::phase::resolved;
    tell(id, RDMA_CM_EVENT_ADDR_RESOLVED);
    return 0;
}

int resolve_route(rdma_cm_id* base, int) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    if (id.now != cm_id::phase::resolved) return fail(EINVAL);
    id.now = cm_id::phase::routed;
    tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
    return 0;
}

int create_qp(rdma_cm_id* base, ibv_pd* in, ibv_qp_init_attr* a) {
    const std::lock_guard guard(lock());
    if (base->verbs == nullptr || base->qp != nullptr) return fail(EINVAL);
    ibv_qp_init_attr_ex all{};
    all.send_cq = a->send_cq;
    all.recv_cq = a->recv_cq;
    all.srq = a->srq;
    all.cap = a->cap;
    all.qp_type = a->qp_type;
    all.sq_sig_all = a->sq_sig_all;
    all.pd = in;
    all.comp_mask = IBV_QP_INIT_ATTR_PD;
    base->qp = fake::create_qp(base->verbs, &all);
    if (base->qp == nullptr) return -1;
    a->cap = all.cap;
    ibv_qp_attr to{};
    to.qp_state = IBV_QPS_INIT;
    to.port_num = 1;
    modify_qp(base->qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    return 0;
}

void destroy_qp(rdma_cm_id* base) {
    const std::lock_guard guard(lock());
    fake::destroy_qp(std::exchange(base->qp, nullptr));
}

// ---- connections ----

int connect(rdma_cm_id* base, rdma_conn_param* parameters) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    if (id.now != cm_id::phase::routed || base->qp == nullptr || parameters->private_data_len > 56) return fail(EINVAL);
    id.asked_with = *parameters;
    const net_address wanted = address_in(id.theirs());
    state* const there = nic_with(wanted);
    if (there == nullptr || !there->up || !nic_of(id)->up) {
        tell(id, RDMA_CM_EVENT_UNREACHABLE, fabric_full_of_strangers);
        return 0;
    }
    const auto listens = [&](cm_id* each) {
        return each->now == cm_id::phase::listening && each->our_port() == id.their_port() && address_in(each->ours()).covers(wanted);
    };
    const auto listener = std::ranges::find_if(all_ids, listens);
    if (listener == all_ids.end()) {
        id.now = cm_id::phase::over;
        tell(id, RDMA_CM_EVENT_REJECTED, nobody_listens);
        return 0;
    }
    auto* asked = new cm_id;
    asked->base.channel = (*listener)->base.channel;
    asked->base.context = (*listener)->base.context;
    asked->base.ps = RDMA_PS_TCP;
    asked->ours() = id.theirs();
    asked->theirs() = id.ours();
    asked->now = cm_id::phase::asked;
    asked->peer = &id;
    id.peer = asked;
    id.now = cm_id::phase::asking;
    all_ids.insert(asked);
    use_device(*asked, *there);
    tell(**listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0, parameters, &asked->base, 56);
    return 0;
}

/// To RTS, with what rdma_cm takes from the two requests.
void activate(cm_id& id, const cm_id& peer, unsigned reads_served, unsigned reads_asked, unsigned retries, unsigned not_ready) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer.base.qp->qp_num;
    a.max_dest_rd_atomic = static_cast<std::uint8_t>(reads_served);
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    a.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index_of(*nic_of(id), address_in(id.ours())));
    a.ah_attr.grh.dgid = gid_of(address_in(id.theirs()));
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    modify_qp(id.base.qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER | IBV_QP_ACCESS_FLAGS);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = id.patience;
    a.retry_cnt = static_cast<std::uint8_t>(retries);
    a.rnr_retry = static_cast<std::uint8_t>(not_ready);
    a.max_rd_atomic = static_cast<std::uint8_t>(reads_asked);
    modify_qp(id.base.qp, &a,
              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
    id.now = cm_id::phase::connected;
}

int accept(rdma_cm_id* base, rdma_conn_param* p) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    if (base->qp == nullptr || p->private_data_len > 196) return fail(EINVAL);
    if (id.now != cm_id::phase::asked || id.peer == nullptr || id.peer->base.qp == nullptr) return fail(EINVAL); // who asked may have gone
    cm_id& active = *id.peer;
    const rdma_conn_param& asked = active.asked_with;
    activate(id, active, p->responder_resources, p->initiator_depth, asked.retry_count, asked.rnr_retry_count);
    activate(active, id, asked.responder_resources, asked.initiator_depth, asked.retry_count, p->rnr_retry_count);
    tell(active, RDMA_CM_EVENT_ESTABLISHED, 0, p, nullptr, 196);
    tell(id, RDMA_CM_EVENT_ESTABLISHED);
    return 0;
}

int reject(rdma_cm_id* base, const void*, std::uint8_t) {
    const std::lock_guard guard(lock());
    if (of(base).now != cm_id::phase::asked) return fail(EINVAL);
    part(of(base));
    return 0;
}

int disconnect(rdma_cm_id* base) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_ERR;
    if (base->qp != nullptr) modify_qp(base->qp, &a, IBV_QP_STATE);
    if (id.now == cm_id::phase::over) return 0; // it has been told
    if (id.now != cm_id::phase::connected) return fail(EINVAL);
    part(id);
    id.now = cm_id::phase::over;
    tell(id, RDMA_CM_EVENT_DISCONNECTED);
    return 0;
}

// ---- groups ----

int join_multicast(rdma_cm_id* base, sockaddr* name, void*) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    state* const nic = nic_of(id);
    if (base->ps != RDMA_PS_IPOIB || id.now != cm_id::phase::bound || nic == nullptr) return fail(EINVAL);
    if (nic->options.ethernet) return fail(EOPNOTSUPP);
    sockaddr_ib group;
    std::memcpy(&group, name, sizeof group);
    std::array<std::uint8_t, 16> raw;
    std::memcpy(raw.data(), &group.sib_addr, raw.size());
    auto e = std::make_unique<event>();
    e->base.id = base;
    e->base.event = RDMA_CM_EVENT_MULTICAST_JOIN;
    if (const int error = nic->fault("join_multicast"); error != 0) {
        e->base.event = RDMA_CM_EVENT_MULTICAST_ERROR;
        e->base.status = -error;
    } else {
        if (!id.groups.insert(raw).second) return fail(EADDRINUSE);
        nic->join_group(raw);
        rdma_ud_param& ud = e->base.param.ud;
        ud.qp_num = 0xffffff;
        ud.qkey = nic->options.fabric.key;
        ud.ah_attr.dlid = nic->options.fabric.lid;
        ud.ah_attr.sl = nic->options.fabric.service_level;
        ud.ah_attr.is_global = 1;
        std::memcpy(ud.ah_attr.grh.dgid.raw, raw.data(), raw.size());
    }
    if (!nic->options.fabric.answers) return 0;
    const std::uint64_t one = 1;
    id.channel().waiting.push_back(std::move(e));
    static_cast<void>(!::write(base->channel->fd, &one, sizeof one));
    return 0;
}

int leave_multicast(rdma_cm_id* base, sockaddr* name) {
    const std::lock_guard guard(lock());
    cm_id& id = of(base);
    sockaddr_ib group;
    std::memcpy(&group, name, sizeof group);
    std::array<std::uint8_t, 16> raw;
    std::memcpy(raw.data(), &group.sib_addr, raw.size());
    if (id.groups.erase(raw) == 0) return fail(EADDRNOTAVAIL);
    nic_of(id)->leave_group(raw);
    return 0;
}

constexpr verbs::cm_api table{
    .create_event_channel = create_event_channel,
    .destroy_event_channel = destroy_event_channel,
    .get_cm_event = get_cm_event,
    .ack_cm_event = ack_cm_event,
    .create_id = create_id,
    .destroy_id = destroy_id,
    .set_option = set_option,
    .bind_addr = bind_addr,
    .listen = listen,
    .get_src_port = get_src_port,
    .resolve_addr = resolve_addr,
    .resolve_route = resolve_route,
    .create_qp = create_qp,
    .destroy_qp = destroy_qp,
    .connect = connect,
    .accept = accept,
    .reject = reject,
    .disconnect = disconnect,
    .join_multicast = join_multicast,
    .leave_multicast = leave_multicast,
};

} // namespace

const verbs::cm_api& cm() noexcept { return table; }

void tell_of_removal(const state& nic) {
    for (cm_id* id : all_ids)
        if (nic_of(*id) == &nic) tell(*id, RDMA_CM_EVENT_DEVICE_REMOVAL);
}

} // namespace corewire::fake
