// What the fake's verbs objects are inside. Each begins with the library's structure, which is what the code under test
// holds; internal to rdma/fake. All under one lock (lock.hh).
#pragma once

#include <corewire/net/port/rss.hh>
#include <corewire/rdma/fake/nic.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <array>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

namespace corewire::fake {

struct queue_pair;
struct completion_queue;

/// One lock for all fakes: they are for tests, and connected ones touch each other's queues.
std::recursive_mutex& lock() noexcept;

struct context {
    ibv_context base{};
    fake::state* state = nullptr;
    std::deque<ibv_async_event> async; ///< each hears of everything
};

struct domain {
    ibv_pd base{};
    domain* plain = nullptr; ///< of a parent domain: what it stands on; else itself
    unsigned users = 0;
};

struct region {
    ibv_mr base{};
    domain* in = nullptr;
    unsigned access = 0;
    unsigned windows = 0; ///< bound to it
};

/// Of type 2.
struct window {
    ibv_mw base{};
    domain* in = nullptr;
    queue_pair* bound_to = nullptr; ///< null: opens nothing
    region* of = nullptr;
    std::uintptr_t begin = 0;
    std::uint64_t size = 0;
    unsigned access = 0;
    std::uint32_t key = 0;
    void unbind() noexcept;
};

struct channel {
    ibv_comp_channel base{};
    unique_fd wake;                         ///< eventfd; base.fd is an epoll set of it and the wire's
    std::deque<completion_queue*> pending;
    unsigned users = 0;
};

/// A receive that was posted and has not been filled.
struct posted_receive {
    std::uint64_t id = 0;
    std::array<ibv_sge, 8> pieces{};
    unsigned count = 0;
};

struct receive_queue {
    std::deque<posted_receive> visible, hidden; ///< hidden: posted, and not seen by the device yet (slow refill)
    unsigned room = 0;                      ///< of work requests, posted or filled and not polled yet
    unsigned used = 0;
    unsigned pieces = 1;
    domain* in = nullptr;
};

struct completion {
    ibv_wc wc{};
    queue_pair* pair = nullptr;
    receive_queue* receives = nullptr;      ///< of receives: gets its room back when this is polled
    std::uint64_t send_index = 0;           ///< of sends: everything up to it is retired when this is polled
    std::uint64_t time = 0;
};

struct completion_queue {
    ibv_cq_ex base{};                       ///< begins like an ibv_cq
    std::deque<completion> entries;
    channel* wakes = nullptr;
    unsigned users = 0;
    unsigned events_given = 0, events_acknowledged = 0;
    bool armed = false, armed_for_solicited = false;
    unsigned moderate_count = 1, since_event = 0; ///< completions that an event waits for; that have come since it was armed
    bool failed = false;
    std::optional<unsigned> shrunk;         ///< by a fault: room for so many
    bool quiet = false;                     ///< polls do not say that it has failed
    std::optional<completion> current;      ///< of an extended poll
};

struct shared_receives {
    ibv_srq base{};
    receive_queue queue;
    unsigned limit = 0;
    unsigned users = 0;
};

struct work_queue {
    ibv_wq base{};
    receive_queue queue;
    unsigned users = 0;
};

struct indirection {
    ibv_rwq_ind_table base{};
    std::vector<work_queue*> slots;
    unsigned users = 0;
};

struct address {
    ibv_ah base{};
    ibv_ah_attr attributes{};
    domain* in = nullptr;
};

/// A send that was accepted; its effect is done at once or when it waits no more (waiting_send), its completion may come later.
struct accepted_send {
    std::uint64_t id = 0;
    std::uint64_t index = 0;
    ibv_wc_opcode opcode = IBV_WC_SEND;
    std::uint32_t bytes = 0;
    bool signalled = false;
    ibv_wc_status status = IBV_WC_SUCCESS;
};

/// A send that the other end was not ready for, or has not answered yet.
struct waiting_send {
    ibv_send_wr wr{};
    std::array<ibv_sge, 16> pieces{};
    std::vector<std::byte> bytes;           ///< as they were when it was posted
    accepted_send about;
    unsigned tries = 0;
    time_point give_up = never;             ///< when nobody answers
    bool done = false;                      ///< by the other end, whose answer was lost: it is not asked again
};

struct queue_pair {
    ibv_qp_ex base{};                       ///< begins with an ibv_qp
    ibv_qp_init_attr_ex made_with{};
    ibv_qp_attr attributes{};
    receive_queue own;
    domain* in = nullptr;
    indirection* table = nullptr;
    std::unique_ptr<rss::toeplitz> hash;
    std::uint64_t sends_posted = 0, sends_retired = 0;
    std::vector<accepted_send> held;        ///< completions that a fault keeps back
    unsigned rules = 0;
    std::set<std::array<std::uint8_t, 16>> groups;
    bool mute = false;                      ///< without power
    unsigned reads_under_way = 0;           ///< READs and atomics whose completions nobody has polled
    // Of ibv_wr_start() ... ibv_wr_complete():
    struct building {
        ibv_send_wr wr{};
        std::array<ibv_sge, 16> pieces{};
        std::vector<std::byte> inlined;
        bool has_data = false;
    };
    std::vector<building> batch;
    std::deque<waiting_send> waiting;       ///< of a connected pair: until the other end has a receive for the first of them
    bool batching = false;
    int batch_error = 0;

    ibv_qp& qp() noexcept { return base.qp_base; }
    receive_queue& receives() noexcept;
    bool receives_alone() const noexcept { return table != nullptr; }
};

struct flow {
    ibv_flow base{};
    queue_pair* to = nullptr;
    std::vector<std::byte> rule;            ///< the ibv_flow_attr with its specifications
    std::uint64_t order = 0;
    bool forgotten = false;                 ///< nic_options::forgetful
    const ibv_flow_attr& attributes() const noexcept { return *reinterpret_cast<const ibv_flow_attr*>(rule.data()); }
};

struct failing_call {
    int error = 0;
    unsigned times = 0, after = 0;
};

struct state {
    explicit state(nic_options o, std::unique_ptr<port> w);
    nic_options options;
    std::unique_ptr<port> wire;
    ibv_device device{};
    nic_statistics counts;
    std::vector<std::string> violations;
    std::function<void(byte_span)> kernel, sent;
    unsigned contexts = 0;

    std::vector<region*> regions;           ///< by key >> 8
    std::set<domain*> domains;
    std::set<completion_queue*> queues;
    std::set<channel*> channels;
    std::set<queue_pair*> pairs;
    std::set<work_queue*> work_queues;
    std::set<shared_receives*> shared;
    std::vector<flow*> flows;               ///< by priority, then by age
    std::set<address*> handles;
    std::map<std::uint32_t, window*> windows; ///< by the index in their keys
    unsigned others = 0;                    ///< tables, thread domains
    std::uint64_t next_order = 0;
    std::uint64_t clock = 0;                ///< ticks once a completion

    std::set<context*> open;
    std::weak_ptr<ibv_context> opened_by_cm;

    // Of ways that are held: beside the one lock, which nobody keeps while he waits.
    mutable std::mutex ways_mutex;
    std::condition_variable ways_changed;
    std::set<std::array<std::uint8_t, 16>> held_ways;
    unsigned ways_awaited = 0;
    int way_error = 0;                      ///< of those that were let go last
    bool holds_way(const ibv_gid& to) const;
    int await_way(const ibv_gid& to);       ///< an errno

    bool up = true, removed = false;
    bool hold = false, slow = false, wire_asleep = false, pumping = false;
    std::map<std::string, failing_call, std::less<>> failing;
    std::pair<ibv_wc_status, unsigned> bad_sends{IBV_WC_SUCCESS, 0}, bad_receives{IBV_WC_SUCCESS, 0};
    std::pair<unsigned, bool> spoiled_headers{0, false}; ///< how many more; without IBV_WC_GRH
    unsigned lost_events = 0, lost_datagrams = 0, lost_acknowledgements = 0;
    std::uint16_t lid = 0;                  ///< of InfiniBand links: all fakes are on one
    std::map<std::array<std::uint8_t, 16>, unsigned> joined; ///< groups of InfiniBand links, by how many ids

    // ---- what the parts of the fake ask of each other ----
    /// The errno that a call has to fail with, or 0.
    int fault(std::string_view call);
    void complain(std::string why) { violations.push_back(std::move(why)); }
    region* region_of(std::uint32_t key) noexcept;
    /// The bytes of a piece, or null if the device may not touch them.
    std::byte* reach(const ibv_sge& piece, const domain* in, unsigned access) noexcept;
    void raise(const ibv_async_event& event);
    void complete(completion_queue& to, const completion& c);
    void complete_send(queue_pair& pair, const accepted_send& send);
    void finish_send(queue_pair& pair, const accepted_send& send);
    void fail_pair(queue_pair& pair, ibv_qp_state to);
    void flush_receives(queue_pair& pair);
    void flush_receives(work_queue& queue);
    void fail_work_queue(work_queue& queue);
    void take_in(byte_span frame);
    /// `about`: flags and sender of what has come.
    ibv_wc_status fill(queue_pair& pair, receive_queue& from, completion_queue& to, byte_span frame, const ibv_wc& about);
    ibv_wc_status send_datagram(queue_pair& from, const ibv_send_wr& wr, byte_span payload);
    /// Nothing: the other end has no receive for it. `done`: it has done it, and its answer was lost.
    std::optional<ibv_wc_status> send_connected(queue_pair& from, const ibv_send_wr& wr, byte_span bytes, bool& done);
    void retry(queue_pair& pair);
    time_point end_of_patience(const queue_pair& pair) const;
    window* window_at(std::uint32_t key) noexcept; ///< whose key it is or was
    window* window_of(std::uint32_t key) noexcept; ///< null: it opens nothing
    address* handle_of(const ibv_ah* handle) const noexcept;
    void join_group(const std::array<std::uint8_t, 16>& group) { ++joined[group]; }
    void leave_group(const std::array<std::uint8_t, 16>& group) noexcept {
        const auto found = joined.find(group);
        if (found != joined.end() && --found->second == 0) joined.erase(found);
    }
    std::size_t gid_count() const noexcept { return 1 + options.addresses.size() + options.more_gids.size(); }
    ibv_gid gid_at(std::size_t index) const noexcept;
    ibv_gid_type gid_type_at(std::size_t index) const noexcept;
    bool has_gid(const ibv_gid& gid, ibv_gid_type type) const noexcept;
    /// An errno for a way that leads nowhere: a wrong index, or addresses of two families (as the kernel has it).
    int refuses_way(const ibv_ah_attr& way) const noexcept;
    std::uint32_t path_mtu() const noexcept { return options.mtu >= 4200 ? 4096 : options.mtu >= 2200 ? 2048 : 1024; }
    void send_frame(byte_span frame);
    void pump();
};

/// 1.. for ports that make sense.
inline completion_queue& queue_of(ibv_cq* q) noexcept { return *reinterpret_cast<completion_queue*>(q); }
inline queue_pair& pair_of(ibv_qp* p) noexcept { return *reinterpret_cast<queue_pair*>(p); }
inline queue_pair& pair_of(ibv_qp_ex* p) noexcept { return *reinterpret_cast<queue_pair*>(p); }
inline domain& domain_of(ibv_pd* d) noexcept { return *reinterpret_cast<domain*>(d); }
inline state& state_of(ibv_context* c) noexcept { return *reinterpret_cast<context*>(c)->state; }

// send.cc, receive.cc, poll.cc, extended.cc: what the operation tables point to
int post_send(ibv_qp* to, ibv_send_wr* chain, ibv_send_wr** bad);
int post_receive(ibv_qp* to, ibv_recv_wr* chain, ibv_recv_wr** bad);
int post_shared_receive(ibv_srq* to, ibv_recv_wr* chain, ibv_recv_wr** bad);
int post_work_receive(ibv_wq* to, ibv_recv_wr* chain, ibv_recv_wr** bad);
int poll_queue(ibv_cq* from, int room, ibv_wc* out);
int request_notification(ibv_cq* of, int solicited_only);
void add_extended_sends(queue_pair& pair);
void add_extended_polling(completion_queue& queue);
int accept_send(state& s, queue_pair& pair, const ibv_send_wr& wr);

} // namespace corewire::fake
