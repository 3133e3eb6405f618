// One end of a reliable connection: its queue pair, its buffers, and the credits by which neither end overruns the other.
// What rc_channel, message and the awaiters stand on. Belongs to one shard.
//
//     operations --serve()--> send queue (a ring of `send_depth`) --post_work(), once a turn--> device
//         ^ in line while there is no credit, no room, or as many READs as the peer serves
//     device --completed()--> arrived (a ring) --> receive() --> message --give_back()--> posted anew, owed to the peer
//
// Credits: a peer may have `receive_depth` messages under way or unconsumed. What was consumed is owed, and told with the next
// message, or by itself when half of receive_depth is owed. So no send ever meets an empty receive queue, and rnr_retry is 0.
// Who has heard nothing for rc_options::silence asks the peer's device, by a WRITE of no bytes, which nobody there notices: the end
// that only receives would else never hear that the other one has lost its power.
// A peer that keeps no credits, or sends what makes no sense, loses the connection; nobody else notices.
//
//     connecting --> open --goodbye sent--> closing --> closed          any --> broken (why() says with what)
//                      `--goodbye heard--> peer_closed --> closed
//
// Bounds: send_depth and receive_depth; operations in line are as many as coroutines that wait. Counted: statistics().
#pragma once

#include <corewire/net/socket/address.hh>
#include <corewire/rdma/channel/cm_events.hh>
#include <corewire/rdma/channel/exposed_window.hh>
#include <corewire/rdma/channel/introduction.hh>
#include <corewire/rdma/channel/rc_operation.hh>
#include <corewire/rdma/channel/rc_options.hh>
#include <corewire/rdma/channel/registered_buffer.hh>
#include <corewire/rdma/channel/rendezvous.hh>
#include <corewire/rdma/verbs/work_chain.hh>
#include <corewire/reactor/task/event.hh>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

namespace corewire::rdma {

class context;

struct rc_statistics {
    std::uint64_t messages_sent = 0, messages_received = 0;
    std::uint64_t credit_messages_sent = 0;    ///< credits that found no message to go with
    std::uint64_t waits_for_credit = 0, waits_for_room = 0, waits_for_reads = 0; ///< operations that stood in line, by what for
    std::uint64_t waits_for_slot = 0;          ///< likewise: as many large messages are under way as both ends allow
    std::uint64_t waits_for_memory = 0;        ///< likewise, and fetches: the pool was at its limit
    std::uint64_t large_sent = 0, large_received = 0; ///< of the messages, those that were announced and fetched
    std::uint64_t fetches = 0;                 ///< READs for them
    std::uint64_t inline_sends = 0, signalled = 0, work_requests = 0;
    std::uint64_t doorbells = 0;
    std::uint64_t overdue = 0;                 ///< 0 or 1: large messages did not get on for rc_options::fetch_within
    std::uint64_t keepalives = 0;              ///< sent because nothing had completed for rc_options::silence
    std::uint64_t violations = 0;              ///< of the peer's: 0 or 1, as the first ends the connection
};

/// Who made a passive end: told when it is open, or has failed. It must not destroy it there and then.
class rc_parent {
public:
    virtual void child_changed() noexcept = 0;

protected:
    ~rc_parent() = default;
};

/// By what the ends of a connection that rdma_cm has not made hear that the other one leaves.
class rc_tether {
public:
    virtual ~rc_tether() = default;
    /// This end leaves.
    virtual void part() noexcept = 0;
    virtual socket_address peer_address() const = 0;
};

class rc_connection final : public work_source, public cm_handler {
public:
    enum class state : std::uint8_t { connecting, open, closing, peer_closed, closed, broken };

    /// A new end, with one reference to it. `id` becomes its own.
    rc_connection(context& in, const rc_options& options);
    rc_connection(const rc_connection&) = delete;

    // ---- making it (rc_connection_setup.cc) ----
    /// Actively: resolves, connects. made() is set when it is open, or has failed.
    void start_connecting(const sockaddr* from, const sockaddr* to);
    /// Passively: takes over the request's id, and accepts. Throws what making a queue pair throws; the request is then rejected.
    void accept(const cm_event& request, const rc_hello& peer, rc_parent& listener);
    event& made() noexcept { return made_; }
    void adopt() noexcept { listener_ = nullptr; } ///< by a channel: the listener hears no more of it
    void on_cm_event(const cm_event& e) noexcept override;
    /// Throws why it is not open.
    void throw_if_not_open() const;

    // ---- the same without rdma_cm (rc_connection_over.cc) ----
    /// A queue pair in INIT, with its receives posted. Throws.
    void prepare_over(adapter& on, const verbs::connection_parameters& way);
    /// What the peer is to be told; afterwards what both have agreed on.
    rc_introduction introduction(const verbs::port_address& ours, const ibv_port_attr& port, const verbs::connection_parameters& way) const;
    /// To RTS, as the peer has said; the shard goes on while the kernel asks for the peer's GID. What it sends is taken in from now on;
    /// nothing is sent before open_over(). Throws.
    task<> meet(const rc_introduction& peer, verbs::connection_parameters& way, wait_limits limits);
    void open_over(std::unique_ptr<rc_tether> tether) noexcept { tether_ = std::move(tether), opened(peer_, reads_limit_); }
    /// By the tether: the peer has left, or (`spoke`) says what it must not.
    void peer_left(bool spoke) noexcept;
    /// Takes in what is in the completion queue by now, which nobody may have looked at yet.
    void catch_up() noexcept;

    // ---- who holds it: the channel, and every message ----
    void hold() noexcept { ++references_; }
    void release() noexcept;
    /// The channel has gone: the queue pair as well. Waits end with ECANCELED. Messages keep their bytes.
    void shut_down() noexcept;

    // ---- operations ----
    bool start(rc_operation& op) noexcept;   ///< true: it is over already
    void stand_in_line(rc_operation& op) noexcept { line_.push_back(op); }
    void leave_line(rc_operation& op) noexcept;
    void forget(std::uint32_t sequence) noexcept { sends_[sequence % options_.send_depth].op = nullptr; }
    void forget_announced(std::uint32_t slot) noexcept { large_.out[slot].op = nullptr; }
    /// Why nothing can be asked of it; nothing: it is open.
    std::errc refused() const noexcept {
        if (state_ == state::broken) return why_;
        if (state_ == state::connecting) return std::errc::not_connected;
        return state_ == state::open ? std::errc{} : std::errc::broken_pipe;
    }
    /// For its queue pair; of who asks. Throws std::system_error: ENOMEM when the device has no more of them.
    ibv_mw* make_window();
    /// A window that is to be bound here, or what stands for one: it goes before the queue pair does.
    void keep(exposed_window& w) noexcept { windows_.push_back(w); }
    /// Operations in line that can be posted now are.
    void serve() noexcept;

    // ---- receiving ----
    struct arrival {
        static constexpr std::uint32_t no_buffer = ~0u;
        static constexpr std::uint32_t large = ~0u - 1;
        std::uint32_t buffer = no_buffer; ///< none: a WRITE with immediate data; large: `block`
        std::uint32_t size = 0;           ///< of the message, or of what was written
        std::uint32_t immediate = 0;
        memory_block* block = nullptr;    ///< of a large one; null as long as it has not been fetched
        bool whole() const noexcept { return buffer != large || block != nullptr; }
    };
    std::optional<arrival> take_arrival() noexcept;
    void put_back(const arrival& a) noexcept;
    void give_back(const arrival& a) noexcept;
    mutable_byte_span bytes_of(const arrival& a) noexcept;
    intrusive_list<waiter>& receivers() noexcept { return receivers_; }
    /// Nothing more will arrive.
    bool over() const noexcept { return state_ == state::peer_closed || state_ >= state::closed; }

    // ---- ending ----
    /// Says goodbye behind everything sent. all_sent() is set when the peer has it all.
    void begin_close() noexcept;
    void finish_close() noexcept;
    event& all_sent() noexcept { return all_sent_; }
    void break_down(std::errc why) noexcept;

    // ---- the device's side ----
    void completed(const ibv_wc& wc) noexcept;
    void post_work() noexcept override;
    void device_failed(std::errc why) noexcept override { break_down(why); }
    bool stands_on(std::uint32_t pair) const noexcept override { return pair_ && pair_->number() == pair; }
    void pair_failed() noexcept override { break_down(std::errc::io_error); }

    state phase() const noexcept { return state_; }
    std::errc why() const noexcept { return why_; }
    const rc_statistics& statistics() const noexcept { return counts_; }
    const rc_options& options() const noexcept { return options_; }
    /// The longest message that goes into a buffer of the peer's.
    std::uint32_t peer_message_size() const noexcept { return peer_.message_size; }
    /// The longest of all, fetched by the peer or not.
    std::uint32_t peer_largest_message() const noexcept { return large_.out.empty() ? peer_.message_size : peer_.largest_message; }
    std::uint32_t credits() const noexcept { return credits_; }
    /// By rdma_cm, or by the stream.
    socket_address peer_address() const;
    adapter& device() noexcept { return *device_; }
    ibv_qp* pair() const noexcept { return pair_->get(); }
    /// Asserts what must hold between any two calls.
    void check_invariants() const;

private:
    friend class rc_operation;
    struct sending {
        rc_operation* op = nullptr; ///< who waits for the completion
        std::array<memory_block*, most_regions> held{}; ///< what the device may touch until then
        std::uint8_t held_count = 0;
        bool reads = false;         ///< holds one of the READs
        std::uint8_t fetches = 0;   ///< slot + 1 of the large message of the peer's that it is a piece of
        std::uint8_t withdraws = 0; ///< slot + 1 of that of ours whose last key goes by it
        exposed_window* binds = nullptr; ///< with the memory in `held`
    };
    struct memory_wait final : memory_waiter {
        explicit memory_wait(rc_connection& c) noexcept : connection(c) {}
        void memory_came_free() noexcept override {
            connection.serve_soon();
        }
        rc_connection& connection;
    };
    ~rc_connection() = default;
    // set-up
    void use(adapter& on);
    unsigned stretches() const noexcept { return std::min(most_regions, static_cast<unsigned>(device_->device().limits().max_sge)); }
    void make_queue_pair();
    void lend_buffers();
    static std::uint8_t patience(duration silence) noexcept;
    void set_patience();
    [[noreturn]] void not_connected(std::errc why) const;
    void disconnect() noexcept;
    rdma_conn_param parameters(const std::array<std::byte, rc_hello::wire_size>& hello) const noexcept;
    void opened(const rc_hello& peer, unsigned reads) noexcept;
    // sending
    bool may_post(const rc_request& r) noexcept;
    bool has_room(unsigned kept_back) const noexcept { return posted_ - retired_ + kept_back < options_.send_depth; }
    ibv_send_wr& next_send(bool signalled) noexcept;
    bool post(rc_operation& op) noexcept; ///< true: it is over already
    void fill(ibv_send_wr& wr, const rc_request& r) noexcept;
    void post_control(rc_header::kind what, std::uint32_t slot = 0) noexcept;
    void serve_soon() noexcept {
        serve_wanted_ = true;
        device_->has_work(*this);
    }
    std::uint32_t take_owed() noexcept;
    void flush_sends() noexcept;
    std::byte* slot(std::uint32_t sequence) noexcept;
    unsigned receives() const noexcept { return options_.receive_depth + control_receives + options_.large_messages; }
    static bool needs_credit(rc_request::kind k) noexcept {
        return k == rc_request::kind::send || k == rc_request::kind::send_in_place || k == rc_request::kind::write_with_immediate;
    }
    static bool takes_read(rc_request::kind k) noexcept {
        return k == rc_request::kind::read || k == rc_request::kind::fetch_and_add || k == rc_request::kind::compare_and_swap;
    }
    struct keepalive_timer final : timer {
        explicit keepalive_timer(rc_connection& c) noexcept
            : timer([](timer& t) noexcept { static_cast<keepalive_timer&>(t).connection.look_for_peer(); }), connection(c) {}
        rc_connection& connection;
    };
    struct fetch_timer final : timer {
        explicit fetch_timer(rc_connection& c) noexcept
            : timer([](timer& t) noexcept { static_cast<fetch_timer&>(t).connection.look_for_progress(); }), connection(c) {}
        rc_connection& connection;
    };
    duration silence() const noexcept { return options_.silence > duration::zero() ? options_.silence : usual_silence; }
    void look_for_peer() noexcept;
    static void hold(sending& s, memory_block* block) noexcept {
        if (block == nullptr) return;
        block->hold();
        s.held[s.held_count++] = block;
    }
    static void let_go(sending& s) noexcept {
        if (exposed_window* const w = std::exchange(s.binds, nullptr); w != nullptr) w->over();
        while (s.held_count != 0) s.held[--s.held_count]->release();
    }
    /// meet(), by another thread. It holds the connection, whose queue pair stays until it is over.
    struct walk;
    bool walking_ = false, goes_after_walk_ = false;
    std::exception_ptr walk_failure_;
    event walked_;
    // large messages (rc_connection_large.cc)
    rc_hello hello() const noexcept;
    std::size_t room_to_fetch() const noexcept;
    void agree_on_large() noexcept;
    bool is_large(const rc_request& r) const noexcept {
        return (r.what == rc_request::kind::send && r.size > copied_size_) ||
               (r.what == rc_request::kind::send_in_place && r.size > peer_.message_size);
    }
    std::errc large_refused(const rc_request& r) const noexcept;
    bool may_announce(const rc_request& r) noexcept;
    memory_block* allocate_or_wait(std::uint64_t size, memory_use of, std::errc& failed) noexcept;
    bool announce(rc_operation& op) noexcept; ///< true: it is over already
    void open_key(rendezvous::outgoing& o, std::byte* data, std::uint32_t size, memory_block* block);
    void post_announcement(std::uint32_t slot, const rc_announcement& what) noexcept;
    void close_keys(rendezvous::outgoing& o) noexcept;
    void withdraw(std::uint32_t slot, std::errc result) noexcept;
    void withdrawn(std::uint32_t slot) noexcept;
    void withdrawal_done(rendezvous::outgoing& o) noexcept;
    void announced(const rc_header& header, byte_span body) noexcept;
    void heard_fetched(const rc_header& header) noexcept;
    void serve_large() noexcept;
    void post_withdrawals() noexcept;
    void post_fetches() noexcept;
    bool post_pieces(std::uint32_t slot) noexcept;
    void piece_fetched(std::uint32_t slot) noexcept;
    void drop_unfetched() noexcept;
    void end_announced(std::errc why) noexcept;
    void shut_regions() noexcept;
    void drop_keys() noexcept;
    void drop_windows() noexcept;
    void forsake_large() noexcept;
    void got_on(time_point& at) noexcept;
    void look_for_progress() noexcept;
    // completions
    void send_completed(const ibv_wc& wc) noexcept;
    void received(const ibv_wc& wc) noexcept;
    void deliver(const arrival& a) noexcept;
    void repost(std::uint32_t buffer) noexcept;
    void violated() noexcept;
    void wake_receivers() noexcept; // receive_awaiter.cc
    void end_operations(std::errc why) noexcept;

    context& context_;
    rc_options options_;
    adapter* device_ = nullptr;
    rdma_cm_id* id_ = nullptr;         ///< rdma_cm's, or none:
    std::unique_ptr<rc_tether> tether_;
    rc_parent* listener_ = nullptr;    ///< until it is accepted
    unsigned references_ = 1;
    state state_ = state::connecting;
    std::errc why_{};
    std::exception_ptr setup_failure_;
    event made_, all_sent_;
    rc_hello peer_{};
    unsigned reads_ = 0, reads_limit_ = 0;
    std::uint32_t copied_size_ = 0;     ///< the longest message that goes by a copy into a slot
    rendezvous large_;
    memory_wait copy_wait_{*this}, fetch_wait_{*this}; ///< apart: who waits to send goes on receiving
    keepalive_timer keepalive_{*this};
    fetch_timer fetch_timer_{*this};
    bool heard_ = false;                ///< something has completed since keepalive_ looked
    bool asked_ = false;                ///< a keepalive is under way
    std::uint32_t asked_at_ = 0;
    memory_block* staging_ = nullptr;   ///< between may_announce() and announce()
    std::errc staging_failed_{};

    registered_buffer memory_;          ///< receive_depth + control_receives buffers, then send_depth slots
    std::size_t stride_ = 0, send_stride_ = 0;
    std::optional<verbs::queue_pair> pair_; ///< the id's, or without one our own
    std::uint64_t work_base_ = 0;
    std::unique_ptr<verbs::send_chain> chain_;
    std::unique_ptr<verbs::receive_chain> refill_;
    std::vector<sending> sends_;        ///< ring, by sequence number
    std::uint32_t posted_ = 0, retired_ = 0, unsignalled_ = 0;
    bool entered_ = false;
    bool serve_wanted_ = false;         ///< there is memory again, or who stood first in line has left
    bool goodbye_wanted_ = false, goodbye_posted_ = false, goodbye_heard_ = false;
    std::uint32_t goodbye_at_ = 0;

    std::uint32_t credits_ = 0;         ///< messages that we may send
    std::uint32_t worth_telling() const noexcept { return std::max(1u, options_.receive_depth / 2); }
    std::uint32_t owed_ = 0;            ///< consumed here, and not told yet
    std::uint32_t outstanding_ = 0;     ///< arrived and not yet owed: in the ring, or held by a message
    intrusive_list<waiter> line_;       ///< of rc_operation
    std::vector<arrival> arrived_;      ///< ring of receive_depth
    std::uint32_t arrived_first_ = 0, arrived_count_ = 0;
    intrusive_list<waiter> receivers_;  ///< of receive_awaiter
    intrusive_list<exposed_window> windows_;
    rc_statistics counts_;
};

} // namespace corewire::rdma
