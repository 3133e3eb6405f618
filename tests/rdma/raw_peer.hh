// A peer that speaks rdma_cm and verbs by itself, beside the test, and keeps to no rules of ours unless it wants to. No wait of its own
// is longer than `patience`. In a world of streams the test's side speaks on the stream for it (raw_meeting).
#pragma once

#include <corewire/rdma/channel/introduction.hh>
#include <corewire/rdma/verbs/device.hh>
#include <corewire/reactor/task/as_result.hh>
#include <corewire/reactor/task/sleep.hh>

#include "tests/rdma/ways.hh"

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <vector>

namespace corewire::test {

/// What a peer over a stream and the coroutine that speaks for it know of each other.
struct raw_meeting {
    enum class stage : std::uint8_t { nothing, introduced, answered, refused, ready, made };
    std::atomic<stage> now{stage::nothing};
    std::atomic<bool> gone{false}; ///< the peer
    std::atomic<bool> left{false}; ///< the other end
    std::array<std::byte, rdma::rc_introduction::wire_size> ours{};
    rdma::rc_introduction theirs;

    static task<> speak(over_streams& way, std::uint16_t port, std::shared_ptr<raw_meeting> m) {
        using frame = rdma::rc_frame;
        while (m->now == stage::nothing && !m->gone) co_await sleep_for(std::chrono::milliseconds{1});
        tcp_stream stream = co_await way.stream_to(port);
        const auto head = frame{frame::kind::introduction, sizeof m->ours}.to_wire();
        co_await stream.write(head);
        co_await stream.write(m->ours);
        std::array<std::byte, frame::wire_size + rdma::rc_introduction::wire_size> heard{};
        const std::size_t got = co_await stream.read_exactly(heard);
        const auto what = frame::from_wire(heard);
        const auto said = rdma::rc_introduction::from_wire(byte_span(heard).subspan(frame::wire_size));
        if (got != heard.size() || !what || what->what != frame::kind::introduction || !said) {
            m->now = stage::refused;
            co_return;
        }
        m->theirs = *said;
        m->now = stage::answered;
        while (m->now == stage::answered && !m->gone) co_await sleep_for(std::chrono::milliseconds{1});
        const auto ready = frame{frame::kind::ready}.to_wire();
        co_await stream.write(ready);
        m->now = stage::made;
        while (!m->gone) {
            const auto more = co_await as_result(stream.read({.deadline = way.loop.now() + std::chrono::milliseconds{1}}));
            if (!more && more.error() == std::errc::timed_out) continue;
            m->left = true;
            break;
        }
    }
};

class raw_peer {
public:
    static constexpr std::uint32_t data_header = 1u << 28, credits_header = 2u << 28, goodbye_header = 3u << 28,
                                   announcement_header = 4u << 28, fetched_header = 5u << 28;
    static constexpr std::chrono::seconds patience{8}; ///< less than the tests have for it

    /// How often the other end is to send again what is not acknowledged, or meets no receive; and what this one posts.
    struct habits {
        std::uint8_t unacknowledged = 6; ///< 7 is for ever with rdma_rxe
        std::uint8_t not_ready = 0;
        unsigned receives = 68;
    };
    /// Connects to the world's listener from the client's device with this hello; after go() does `work` with itself.
    template <typename World>
    raw_peer(World& w, std::vector<std::byte> hello, std::function<void(raw_peer&)> work, habits has)
        : verbs_(w.verbs()), cm_(w.cm()), habits_(has), meeting_(meeting_of(w.r, w.way, w.listening.port())),
          beside_(w.start([this, port = w.listening.port(), hello = std::move(hello), work = std::move(work)](companion& self) {
              self_ = &self;
              connected_ = meeting_ ? connect_over(hello) : connect(port, hello);
              if (connected_) {
                  while (!go_) self.pause();
                  work(*this);
              }
              disconnect();
              done_ = true;
          })) {}
    template <typename World>
    raw_peer(World& w, std::vector<std::byte> hello, std::function<void(raw_peer&)> work)
        : raw_peer(w, std::move(hello), std::move(work), habits{}) {}
    ~raw_peer() { go_ = true; }
    raw_peer(const raw_peer&) = delete;

    void go() { go_ = true; }
    bool done() const { return done_; }
    bool connected() const { return connected_; }
    unsigned refused() const { return refused_; } ///< sends that the other end's device turned away, or that its leaving cut short
    bool stuck() const { return stuck_; }         ///< a completion has not come in time: the device's fault, or the test's

    static std::vector<std::byte> good_hello() {
        const auto h = rdma::rc_hello{64, 4096, 1u << 20, 4}.to_wire();
        return {h.begin(), h.end()};
    }

    // ---- for `work` ----
    /// What the other end may read; send() sends its beginning, and what comes is received at `received`.
    std::byte* memory() noexcept { return memory_.data(); }
    const std::byte* received() const noexcept { return memory_.data() + receive_at; }
    std::uint32_t key() const noexcept { return region_->rkey; }
    /// False: it has not come about in time.
    template <typename Condition>
    bool await(Condition condition) {
        const time_point end = self_->now() + patience;
        while (!condition()) {
            if (self_->now() >= end) return false;
            self_->pause();
        }
        return true;
    }
    /// Waits for the next message of the other end; gives its immediate data. Nothing: the connection is over.
    std::optional<std::uint32_t> receive() {
        ibv_wc wc{};
        if (await([&] { return comes_to(receives_, wc); }))
            return wc.status == IBV_WC_SUCCESS ? std::optional(ntohl(wc.imm_data)) : std::nullopt;
        stuck_ = true;
        return std::nullopt;
    }
    ibv_wc_status read(std::uint64_t address, std::uint32_t remote_key, std::uint32_t size) {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_RDMA_READ;
        wr.wr.rdma = {address, remote_key};
        wr.send_flags = IBV_SEND_SIGNALED;
        return post(wr, size) ? completion() : IBV_WC_FATAL_ERR;
    }
    /// Sends `size` bytes with `immediate` and waits for the completion.
    ibv_wc_status send(std::uint32_t size, std::uint32_t immediate, ibv_wr_opcode how = IBV_WR_SEND_WITH_IMM) {
        ibv_send_wr wr{};
        wr.opcode = how;
        wr.imm_data = htonl(immediate);
        wr.send_flags = IBV_SEND_SIGNALED;
        if (!post(wr, size)) return IBV_WC_FATAL_ERR;
        const ibv_wc_status how_it_went = completion();
        if (how_it_went != IBV_WC_SUCCESS) ++refused_;
        return how_it_went;
    }
    /// Takes nothing any more, and tells nobody.
    void vanish() { move_to(IBV_QPS_RESET); }
    /// Without waiting: as much as the queue takes.
    void pour(unsigned count, std::uint32_t size, std::uint32_t immediate = data_header) {
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = htonl(immediate);
        while (count-- > 0 && post(wr, size)) {}
    }

private:
    void move_to(ibv_qp_state state) {
        ibv_qp_attr a{};
        a.qp_state = state;
        verbs_.modify_qp(pair_, &a, IBV_QP_STATE);
    }
    static std::shared_ptr<raw_meeting> meeting_of(reactor&, by_rdma_cm&, std::uint16_t) { return nullptr; }
    static std::shared_ptr<raw_meeting> meeting_of(reactor& r, over_streams& way, std::uint16_t port) {
        auto m = std::make_shared<raw_meeting>();
        r.root_group().spawn(raw_meeting::speak(way, port, m));
        return m;
    }
    bool post(ibv_send_wr& wr, std::uint32_t size) {
        ibv_sge at{reinterpret_cast<std::uintptr_t>(memory_.data()), size, region_->lkey};
        wr.sg_list = &at;
        wr.num_sge = 1;
        ibv_send_wr* bad = nullptr;
        return ::ibv_post_send(pair_, &wr, &bad) == 0;
    }
    std::optional<rdma_cm_event_type> next_event() {
        rdma_cm_event* event = nullptr;
        if (cm_.get_cm_event(channel_, &event) != 0) return std::nullopt;
        const rdma_cm_event_type what = event->event;
        cm_.ack_cm_event(event);
        return what;
    }
    bool comes(rdma_cm_event_type what) {
        std::optional<rdma_cm_event_type> came;
        return await([&] { return (came = next_event()).has_value(); }) && *came == what;
    }
    /// Who ends the connection may do so before its device has acknowledged what made it do so: then no acknowledgement comes, nor a
    /// message, only the word of rdma_cm, upon which the queue pair is made to give back what it holds.
    bool comes_to(ibv_cq* queue, ibv_wc& wc) {
        if (::ibv_poll_cq(queue, 1, &wc) != 0) return true;
        const bool left = meeting_ ? meeting_->left.exchange(false) : next_event() == RDMA_CM_EVENT_DISCONNECTED;
        if (left) move_to(IBV_QPS_ERR);
        return false;
    }
    /// Of the one signalled send.
    ibv_wc_status completion() {
        ibv_wc wc{};
        if (await([&] { return comes_to(sends_, wc); })) return wc.status;
        stuck_ = true;
        return IBV_WC_RESP_TIMEOUT_ERR;
    }
    bool connect(std::uint16_t port, const std::vector<std::byte>& hello) {
        channel_ = cm_.create_event_channel();
        if (channel_ == nullptr) return false;
        ::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
        if (cm_.create_id(channel_, &id_, nullptr, RDMA_PS_TCP) != 0) return false;
        sockaddr_in from{}, to{};
        from.sin_family = to.sin_family = AF_INET;
        from.sin_addr.s_addr = htonl(address_of_client.value());
        to.sin_addr.s_addr = htonl(address_of_server.value());
        to.sin_port = htons(port);
        if (cm_.resolve_addr(id_, reinterpret_cast<sockaddr*>(&from), reinterpret_cast<sockaddr*>(&to), 2000) != 0) return false;
        if (!comes(RDMA_CM_EVENT_ADDR_RESOLVED) || cm_.resolve_route(id_, 2000) != 0) return false;
        if (!comes(RDMA_CM_EVENT_ROUTE_RESOLVED)) return false;
        if (!make_queues(id_->verbs)) return false;
        ibv_qp_init_attr a{};
        a.cap = {128, 128, 1, 1, 0};
        a.qp_type = IBV_QPT_RC;
        a.send_cq = sends_;
        a.recv_cq = receives_;
        if (cm_.create_qp(id_, domain_, &a) != 0) return false;
        pair_ = id_->qp;
        post_receives();
        rdma_conn_param p{};
        p.private_data = hello.data();
        p.private_data_len = static_cast<std::uint8_t>(hello.size());
        p.responder_resources = p.initiator_depth = 1;
        p.retry_count = habits_.unacknowledged;
        p.rnr_retry_count = habits_.not_ready;
        return cm_.connect(id_, &p) == 0 && comes(RDMA_CM_EVENT_ESTABLISHED);
    }
    bool make_queues(ibv_context* on) {
        domain_ = verbs_.alloc_pd(on);
        sends_ = verbs_.create_cq(on, 256, nullptr, nullptr, 0);
        receives_ = verbs_.create_cq(on, 256, nullptr, nullptr, 0);
        return domain_ != nullptr && sends_ != nullptr && receives_ != nullptr;
    }
    void post_receives() {
        region_ = verbs_.reg_mr(domain_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
        ibv_sge at{reinterpret_cast<std::uintptr_t>(memory_.data()) + receive_at, 4096, region_->lkey};
        ibv_recv_wr receive{0, nullptr, &at, 1};
        ibv_recv_wr* bad = nullptr;
        for (unsigned i = 0; i < habits_.receives; ++i) ::ibv_post_recv(pair_, &receive, &bad);
    }
    /// Without rdma_cm. The hello stands at the end of the introduction.
    bool connect_over(const std::vector<std::byte>& hello) {
        std::optional<verbs::port_address> address;
        for (const std::string& name : verbs::device_names(verbs_)) {
            device_.emplace(verbs::device::open(name, verbs_));
            for (const verbs::port_address& each : device_->addresses())
                if (each.is_ipv4() && each.as_ipv4() == address_of_client) address = each;
            if (address) break;
        }
        if (!address || !make_queues(device_->context())) return false;
        ibv_qp_init_attr_ex a{};
        a.cap = {128, 128, 1, 1, 0};
        a.qp_type = IBV_QPT_RC;
        a.send_cq = sends_;
        a.recv_cq = receives_;
        a.pd = domain_;
        a.comp_mask = IBV_QP_INIT_ATTR_PD;
        own_ = pair_ = verbs_.create_qp(device_->context(), &a);
        if (pair_ == nullptr) return false;
        verbs::queue_pair walking = verbs::queue_pair::borrowed(pair_, a.cap, verbs::transport::reliable_connection, "raw", verbs_);
        verbs::connection_parameters way{.gid_index = static_cast<std::uint8_t>(address->index)};
        way.remote_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        walking.to_init(way);
        post_receives();
        rdma::rc_introduction i;
        i.end = {.queue_pair = pair_->qp_num, .gid = address->gid};
        i.retries = habits_.unacknowledged;
        i.not_ready_retries = habits_.not_ready;
        i.reads_as_responder = i.reads_as_initiator = 1;
        meeting_->ours = i.to_wire();
        const std::size_t at = meeting_->ours.size() - rdma::rc_hello::wire_size;
        std::memset(meeting_->ours.data() + at, 0, rdma::rc_hello::wire_size);
        std::memcpy(meeting_->ours.data() + at, hello.data(), std::min(hello.size(), rdma::rc_hello::wire_size));
        using stage = raw_meeting::stage;
        meeting_->now = stage::introduced;
        if (!await([&] { return meeting_->now != stage::introduced; }) || meeting_->now != stage::answered) return false;
        way.path_mtu = static_cast<ibv_mtu>(meeting_->theirs.path_mtu);
        walking.to_ready_to_receive(meeting_->theirs.end, way);
        walking.to_ready_to_send(way);
        meeting_->now = stage::ready;
        return await([&] { return meeting_->now == stage::made; });
    }
    /// Without a goodbye, in the middle of whatever is under way.
    void disconnect() {
        if (id_ != nullptr && id_->qp != nullptr) cm_.destroy_qp(id_);
        if (own_ != nullptr) verbs_.destroy_qp(own_);
        if (meeting_) meeting_->gone = true;
        if (region_ != nullptr) verbs_.dereg_mr(region_);
        for (ibv_cq* queue : {sends_, receives_})
            if (queue != nullptr) verbs_.destroy_cq(queue);
        if (domain_ != nullptr) verbs_.dealloc_pd(domain_);
        if (id_ != nullptr) cm_.destroy_id(id_);
        if (channel_ != nullptr) cm_.destroy_event_channel(channel_);
        device_.reset();
    }

    static constexpr std::size_t receive_at = 8192;
    const verbs::verbs_api& verbs_;
    const verbs::cm_api& cm_;
    const habits habits_;
    const std::shared_ptr<raw_meeting> meeting_; ///< null: by rdma_cm
    std::optional<verbs::device> device_;
    ibv_qp *pair_ = nullptr, *own_ = nullptr; ///< own: not rdma_cm's
    std::array<std::byte, receive_at + 4096> memory_{};
    companion* self_ = nullptr;
    rdma_event_channel* channel_ = nullptr;
    rdma_cm_id* id_ = nullptr;
    ibv_pd* domain_ = nullptr;
    ibv_cq *sends_ = nullptr, *receives_ = nullptr;
    ibv_mr* region_ = nullptr;
    std::atomic<bool> connected_{false}, done_{false}, stuck_{false}, go_{false};
    std::atomic<unsigned> refused_{0};
    std::unique_ptr<companion> beside_; ///< last: it uses all of these
};

} // namespace corewire::test
