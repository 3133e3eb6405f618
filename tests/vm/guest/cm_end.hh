// An end of a connection that rdma_cm makes, and what it stands on, for tests that speak another program's protocol by themselves.
#pragma once

#include "tests/vm/guest/rxe_pair.hh"

#include <memory>
#include <optional>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>
#include <vector>

namespace corewire::test {

/// One of them on rxe0 (as a client) or on rxe1 (as a server).
class cm_end {
public:
    explicit cm_end(rdma_port_space space) : space_(space), channel_(::rdma_create_event_channel()) {
        BOOST_REQUIRE(channel_ != nullptr);
    }
    cm_end(const cm_end&) = delete;
    ~cm_end() {
        drop(id_);
        drop(listening_);
        ::rdma_destroy_event_channel(channel_);
    }

    /// Connects to rxe1; again while nobody listens there, for ten seconds. `prepare()` posts the first receives.
    template <typename Prepare>
    void connect(std::uint16_t port, Prepare prepare) {
        for (int tries = 0;; ++tries) {
            drop(id_);
            BOOST_REQUIRE(::rdma_create_id(channel_, &id_, nullptr, space_) == 0);
            sockaddr_in from = name_of(address_of_rxe0), to = name_of(address_of_rxe1, port);
            BOOST_REQUIRE(::rdma_resolve_addr(id_, reinterpret_cast<sockaddr*>(&from), reinterpret_cast<sockaddr*>(&to), 2000) == 0);
            expect(RDMA_CM_EVENT_ADDR_RESOLVED);
            BOOST_REQUIRE(::rdma_resolve_route(id_, 2000) == 0);
            expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
            make_queue_pair();
            prepare();
            rdma_conn_param p = parameters();
            BOOST_REQUIRE(::rdma_connect(id_, &p) == 0);
            if (next_event() == RDMA_CM_EVENT_ESTABLISHED) return;
            BOOST_REQUIRE_MESSAGE(tries < 200, "the program does not listen");
            ::usleep(50'000);
        }
    }
    void listen(std::uint16_t port) {
        BOOST_REQUIRE(::rdma_create_id(channel_, &listening_, nullptr, space_) == 0);
        sockaddr_in at = name_of(address_of_rxe1, port);
        BOOST_REQUIRE(::rdma_bind_addr(listening_, reinterpret_cast<sockaddr*>(&at)) == 0);
        BOOST_REQUIRE(::rdma_listen(listening_, 1) == 0);
    }
    template <typename Prepare>
    void accept(Prepare prepare) {
        expect(RDMA_CM_EVENT_CONNECT_REQUEST);
        id_ = asking_;
        make_queue_pair();
        prepare();
        rdma_conn_param p = parameters();
        p.qp_num = id_->qp->qp_num;
        BOOST_REQUIRE(::rdma_accept(id_, &p) == 0);
        if (space_ == RDMA_PS_TCP) expect(RDMA_CM_EVENT_ESTABLISHED);
    }
    void disconnect() { ::rdma_disconnect(id_); }
    void expect(rdma_cm_event_type what) {
        const rdma_cm_event_type came = next_event();
        BOOST_REQUIRE_MESSAGE(came == what, "rdma_cm says " << ::rdma_event_str(came) << " and not " << ::rdma_event_str(what));
    }

    void receive(std::size_t offset, std::uint32_t size, std::uint64_t id = 0) {
        BOOST_REQUIRE(post_receive(*on_->pair, piece(offset, size), id) == 0);
    }
    /// `patch(wr)` turns a signalled SEND into what is wanted.
    template <typename Patch>
    void post(std::size_t offset, std::uint32_t size, Patch patch) {
        BOOST_REQUIRE(post_send(*on_->pair, piece(offset, size), patch) == 0);
    }
    /// Waits for the next completion, which must be a good one.
    ibv_wc next() {
        const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds{10};
        ibv_wc out{};
        while (on_->queue.poll({&out, 1}) == 0) {
            BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < give_up, "no completion came");
            ::sched_yield();
        }
        BOOST_REQUIRE_MESSAGE(out.status == IBV_WC_SUCCESS, ::ibv_wc_status_str(out.status));
        return out;
    }

    std::byte* memory() noexcept { return on_->memory.data(); }
    std::uint64_t address(std::size_t offset) const noexcept { return reinterpret_cast<std::uintptr_t>(on_->memory.data()) + offset; }
    std::uint32_t key() const noexcept { return on_->region.remote_key(); }
    std::uint32_t number() const noexcept { return on_->pair->number(); }
    const verbs::device& device() const noexcept { return on_->device; }
    verbs::protection_domain& domain() noexcept { return on_->domain; }
    /// Of datagrams: what rdma_cm said of the peer when it was found.
    const rdma_ud_param& peer() const noexcept { return peer_; }

private:
    struct stack {
        explicit stack(ibv_context* opened)
            : device(verbs::device::borrowed(opened)), domain(device), memory(16384),
              region(domain, memory, verbs::access::local_write | verbs::access::remote_read | verbs::access::remote_write),
              queue(device, {.entries = 64}) {}
        verbs::device device;
        verbs::protection_domain domain;
        std::vector<std::byte> memory;
        verbs::memory_region region;
        verbs::completion_queue queue;
        std::optional<verbs::queue_pair> pair; ///< the id's
    };
    ibv_sge piece(std::size_t offset, std::uint32_t size) const { return {address(offset), size, on_->region.local_key()}; }
    static rdma_conn_param parameters() {
        rdma_conn_param p{};
        p.responder_resources = p.initiator_depth = 1;
        p.retry_count = 6;
        p.rnr_retry_count = 6;
        return p;
    }
    void make_queue_pair() {
        on_ = std::make_unique<stack>(id_->verbs);
        ibv_qp_init_attr a{};
        a.send_cq = a.recv_cq = on_->queue.get();
        const bool datagrams = space_ != RDMA_PS_TCP;
        a.qp_type = datagrams ? IBV_QPT_UD : IBV_QPT_RC;
        a.cap = {16, 16, 1, 1, 0};
        BOOST_REQUIRE(::rdma_create_qp(id_, on_->domain.get(), &a) == 0);
        const auto kind = datagrams ? verbs::transport::unreliable_datagram : verbs::transport::reliable_connection;
        on_->pair = verbs::queue_pair::borrowed(id_->qp, a.cap, kind, on_->device.name());
    }
    void drop(rdma_cm_id*& id) {
        if (id == nullptr) return;
        if (id->qp != nullptr) ::rdma_destroy_qp(id);
        if (id == id_) on_.reset();
        ::rdma_destroy_id(std::exchange(id, nullptr));
    }
    rdma_cm_event_type next_event() {
        pollfd readable{channel_->fd, POLLIN, 0};
        BOOST_REQUIRE_MESSAGE(::poll(&readable, 1, 10'000) == 1, "rdma_cm says nothing");
        rdma_cm_event* event = nullptr;
        BOOST_REQUIRE(::rdma_get_cm_event(channel_, &event) == 0);
        const rdma_cm_event_type what = event->event;
        if (what == RDMA_CM_EVENT_CONNECT_REQUEST) asking_ = event->id;
        if (what == RDMA_CM_EVENT_ESTABLISHED) peer_ = event->param.ud;
        ::rdma_ack_cm_event(event);
        return what;
    }

    rdma_port_space space_;
    rdma_event_channel* channel_;
    rdma_cm_id *id_ = nullptr, *listening_ = nullptr, *asking_ = nullptr;
    std::unique_ptr<stack> on_;
    rdma_ud_param peer_{};
};

} // namespace corewire::test
