// A peer that speaks rdma_cm and verbs by itself, on a thread of its own, and keeps to no rules of ours unless it wants to.
// It sleeps while it waits, so that it takes no processor from the device it waits for, and no wait is longer than `patience`.
#pragma once

#include <corewire/rdma/channel/rc_options.hh>

#include <arpa/inet.h>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <optional>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <semaphore>
#include <thread>

namespace corewire::test {

class raw_peer {
public:
    static constexpr std::uint32_t data_header = 1u << 28, credits_header = 2u << 28, goodbye_header = 3u << 28,
                                   announcement_header = 4u << 28, fetched_header = 5u << 28;
    static constexpr std::chrono::seconds patience{8}; ///< less than the tests have for it

    struct retry_counts {
        std::uint8_t unacknowledged = 6; ///< 7 is for ever with rdma_rxe
        std::uint8_t not_ready = 0;
    };
    /// Connects to `port` of rxe1 from rxe0 with this hello; after go() does `work` with itself. The counts are for the other end.
    raw_peer(std::uint16_t port, std::vector<std::byte> hello, std::function<void(raw_peer&)> work, retry_counts counts)
        : counts_(counts), thread_([this, port, hello = std::move(hello), work = std::move(work)] {
              connected_ = connect(port, hello);
              if (connected_) {
                  go_.acquire();
                  work(*this);
              }
              disconnect();
              done_ = true;
          }) {}
    raw_peer(std::uint16_t port, std::vector<std::byte> hello, std::function<void(raw_peer&)> work)
        : raw_peer(port, std::move(hello), std::move(work), retry_counts{}) {}
    ~raw_peer() {
        go_.release();
        thread_.join();
    }
    raw_peer(const raw_peer&) = delete;

    void go() { go_.release(); }
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
    /// Waits for the next message of the other end; gives its immediate data.
    std::optional<std::uint32_t> receive() {
        const auto end = std::chrono::steady_clock::now() + patience;
        while (std::chrono::steady_clock::now() < end) {
            ibv_wc wc{};
            if (::ibv_poll_cq(id_->recv_cq, 1, &wc) != 0)
                return wc.status == IBV_WC_SUCCESS ? std::optional(ntohl(wc.imm_data)) : std::nullopt;
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
        stuck_ = true;
        return std::nullopt;
    }
    ibv_wc_status read(std::uint64_t address, std::uint32_t remote_key, std::uint32_t size) {
        ibv_sge at{reinterpret_cast<std::uintptr_t>(memory_.data()), size, region_->lkey};
        ibv_send_wr wr{};
        wr.sg_list = &at;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_RDMA_READ;
        wr.wr.rdma = {address, remote_key};
        wr.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr* bad = nullptr;
        if (::ibv_post_send(id_->qp, &wr, &bad) != 0) return IBV_WC_FATAL_ERR;
        return completion();
    }
    /// Sends `size` bytes with `immediate` and waits for the completion.
    ibv_wc_status send(std::uint32_t size, std::uint32_t immediate, ibv_wr_opcode how = IBV_WR_SEND_WITH_IMM) {
        ibv_sge at{reinterpret_cast<std::uintptr_t>(memory_.data()), size, region_->lkey};
        ibv_send_wr wr{};
        wr.sg_list = &at;
        wr.num_sge = 1;
        wr.opcode = how;
        wr.imm_data = htonl(immediate);
        wr.send_flags = IBV_SEND_SIGNALED;
        ibv_send_wr* bad = nullptr;
        if (::ibv_post_send(id_->qp, &wr, &bad) != 0) return IBV_WC_FATAL_ERR;
        const ibv_wc_status how_it_went = completion();
        if (how_it_went != IBV_WC_SUCCESS) ++refused_;
        return how_it_went;
    }
    /// Takes nothing any more, and tells nobody.
    void vanish() {
        ibv_qp_attr a{};
        a.qp_state = IBV_QPS_RESET;
        ::ibv_modify_qp(id_->qp, &a, IBV_QP_STATE);
    }
    /// Without waiting: as much as the queue takes.
    void pour(unsigned count, std::uint32_t size, std::uint32_t immediate = data_header) {
        ibv_sge at{reinterpret_cast<std::uintptr_t>(memory_.data()), size, region_->lkey};
        ibv_send_wr wr{};
        wr.sg_list = &at;
        wr.num_sge = 1;
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = htonl(immediate);
        ibv_send_wr* bad = nullptr;
        while (count-- > 0 && ::ibv_post_send(id_->qp, &wr, &bad) == 0) {}
    }

private:
    void fail_queue_pair() {
        ibv_qp_attr a{};
        a.qp_state = IBV_QPS_ERR;
        ::ibv_modify_qp(id_->qp, &a, IBV_QP_STATE);
    }
    /// Of the one signalled send. Who ends the connection may do so before its device has acknowledged what made it do so: then no
    /// acknowledgement comes, only the word of rdma_cm, upon which the queue pair is made to give back what it holds.
    ibv_wc_status completion() {
        const auto end = std::chrono::steady_clock::now() + patience;
        ::fcntl(id_->channel->fd, F_SETFL, ::fcntl(id_->channel->fd, F_GETFL) | O_NONBLOCK);
        while (std::chrono::steady_clock::now() < end) {
            ::ibv_req_notify_cq(id_->send_cq, 0);
            ibv_wc wc{};
            if (::ibv_poll_cq(id_->send_cq, 1, &wc) != 0) return wc.status;
            std::array<pollfd, 2> on{pollfd{id_->send_cq_channel->fd, POLLIN, 0}, pollfd{id_->channel->fd, POLLIN, 0}};
            ::poll(on.data(), on.size(), 100);
            if ((on[0].revents & POLLIN) != 0) {
                ibv_cq* which = nullptr;
                void* of = nullptr;
                if (::ibv_get_cq_event(id_->send_cq_channel, &which, &of) == 0) ::ibv_ack_cq_events(which, 1);
            }
            rdma_cm_event* event = nullptr;
            if ((on[1].revents & POLLIN) != 0 && ::rdma_get_cm_event(id_->channel, &event) == 0) {
                const bool ended = event->event == RDMA_CM_EVENT_DISCONNECTED;
                ::rdma_ack_cm_event(event);
                if (ended) fail_queue_pair();
            }
        }
        stuck_ = true;
        return IBV_WC_RESP_TIMEOUT_ERR;
    }
    bool connect(std::uint16_t port, const std::vector<std::byte>& hello) {
        if (::rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_TCP) != 0) return false; // without a channel: each call waits
        sockaddr_in from{}, to{};
        from.sin_family = to.sin_family = AF_INET;
        from.sin_addr.s_addr = htonl(0xc0000201);
        to.sin_addr.s_addr = htonl(0xc0000202);
        to.sin_port = htons(port);
        if (::rdma_resolve_addr(id_, reinterpret_cast<sockaddr*>(&from), reinterpret_cast<sockaddr*>(&to), 2000) != 0) return false;
        if (::rdma_resolve_route(id_, 2000) != 0) return false;
        ibv_qp_init_attr a{};
        a.cap = {128, 128, 1, 1, 0};
        a.qp_type = IBV_QPT_RC;
        if (::rdma_create_qp(id_, nullptr, &a) != 0) return false;
        region_ = ::ibv_reg_mr(id_->pd, memory_.data(), memory_.size(),
                               static_cast<int>(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
        ibv_sge at{reinterpret_cast<std::uintptr_t>(memory_.data()) + receive_at, 4096, region_->lkey};
        ibv_recv_wr receive{0, nullptr, &at, 1};
        ibv_recv_wr* bad = nullptr;
        for (int i = 0; i < 68; ++i) ::ibv_post_recv(id_->qp, &receive, &bad);
        rdma_conn_param p{};
        p.private_data = hello.data();
        p.private_data_len = static_cast<std::uint8_t>(hello.size());
        p.responder_resources = p.initiator_depth = 1;
        p.retry_count = counts_.unacknowledged;
        p.rnr_retry_count = counts_.not_ready;
        return ::rdma_connect(id_, &p) == 0;
    }
    /// Without a goodbye, in the middle of whatever is under way.
    void disconnect() {
        if (id_ == nullptr) return;
        if (id_->qp != nullptr) ::rdma_destroy_qp(id_);
        if (region_ != nullptr) ::ibv_dereg_mr(region_);
        ::rdma_destroy_id(id_);
    }

    static constexpr std::size_t receive_at = 8192;
    const retry_counts counts_;
    std::array<std::byte, receive_at + 4096> memory_{};
    rdma_cm_id* id_ = nullptr;
    ibv_mr* region_ = nullptr;
    std::atomic<bool> connected_{false}, done_{false}, stuck_{false};
    std::counting_semaphore<8> go_{0};
    std::atomic<unsigned> refused_{0};
    std::thread thread_;
};

} // namespace corewire::test
