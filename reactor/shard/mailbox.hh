// One shard's end of its rings to and from every other shard: a poller of its reactor.
//
//      shard A                      ring A->B (B polls the slot itself)                      shard B
//      submit_to(B, f) --request--> [ .. | .. | f | .. ] --poll--> f() --reply--+
//      caller is ready <--poll-- [ .. | r | .. | .. ] <--------------------------+      ring B->A
//
// Both directions are always taken in, whatever the state of the other, so two shards can fill each other's rings and
// neither stands still. When a ring is full, a request waits in its caller's frame (on `waiting`) and a reply waits in the
// caller's own call record (on `parked`): nothing is lost and nothing is allocated. The order in which one scheduling
// group submits to another shard is the order in which its calls begin there.
//
// Bounds: slots of a ring (back-pressure: the caller waits), calls in flight of a shard (the call fails with EAGAIN).
// Messages are visible at once; a sleeping peer is woken by flush(), once a turn, not once a message.
#pragma once

#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/shard/call_table.hh>
#include <corewire/reactor/shard/message.hh>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace corewire {

struct mailbox_options {
    std::size_t ring_slots = 256;         ///< of each ordered pair of shards; 64 bytes each
    std::size_t calls_in_flight = 65'536; ///< of one shard to all others together
    unsigned batch = 64;                  ///< messages taken from one ring in one turn
};

struct mailbox_statistics {
    std::uint64_t sent = 0;         ///< messages into rings: requests, replies and posts
    std::uint64_t received = 0;     ///< messages taken from rings
    std::uint64_t waited = 0;       ///< requests that found the ring full and waited in their frame
    std::uint64_t parked = 0;       ///< replies that found the ring full and waited in their call record
    std::uint64_t posts_refused = 0;///< try_post() found the ring full
    std::uint64_t wakes = 0;        ///< times a peer was told that there is mail
};

class mailbox final : public poller {
public:
    /// Of shard `self` of `shards`. Registers itself with `home`, which must outlive it.
    mailbox(reactor& home, unsigned self, unsigned shards, const mailbox_options& options);
    ~mailbox();
    /// Joins two mailboxes, each way. Before either polls; once for each pair.
    static void connect(mailbox& a, mailbox& b);

    unsigned self() const noexcept { return self_; }
    unsigned shards() const noexcept { return static_cast<unsigned>(peers_.size()); }
    const mailbox_statistics& statistics() const noexcept { return statistics_; }
    const call_table& calls() const noexcept { return calls_; }
    call_table& calls() noexcept { return calls_; }
    /// Where a call that has come from that group stands in line; null: it is run at once.
    run_queue* line_of(unsigned group) const noexcept { return home_.line_of(group); }
    /// At the end, when no loop runs any more and all mailboxes are still there: destroys what has arrived, and sends on what
    /// waits for room. False: there was neither; all are done once that is so for all in the same round.
    bool discard() noexcept;
    /// True when nothing waits to be sent and nothing has arrived.
    bool quiet() noexcept;

    /// Sends `run` to shard `to` and asks for no answer. False: the ring is full, nothing was done and `run` is untouched
    /// (drop and count, or keep it). `run` is at most 40 bytes and must not throw when called.
    template <typename F>
    bool try_post(unsigned to, F&& run) noexcept;

    // --- for remote_call.hh --------------------------------------------------------------------------------------

    /// A place for a request in the ring to `to`, or null: full, or others wait already. Then send().
    message* claim_request(unsigned to) noexcept {
        peer& p = peers_[to];
        if (p.backlogged()) [[unlikely]]
            return nullptr;
        return static_cast<message*>(p.outgoing->try_claim());
    }
    void send(unsigned to) noexcept {
        peer& p = peers_[to];
        p.outgoing->commit();
        p.unannounced = true;
        any_unannounced_ = true;
        ++statistics_.sent;
    }
    /// Stands in line for the ring to `to`; its emplace_request() is called when there is room.
    void wait_for_room(unsigned to, remote_call_base& caller) noexcept;
    /// A place for the reply to `call`: in the ring to `to`, or in the record itself. Then send_reply().
    message& claim_reply(unsigned to, call_record& call) noexcept {
        peer& p = peers_[to];
        if (p.first_parked == nullptr) [[likely]]
            if (void* place = p.outgoing->try_claim()) return *static_cast<message*>(place);
        return call.parked;
    }
    void send_reply(unsigned to, call_record& call, message& reply) noexcept {
        if (&reply == &call.parked) [[unlikely]]
            park(to, call);
        else
            send(to);
    }

private:
    bool poll(time_point now) override;
    bool flush(time_point now) override;
    bool prepare_sleep() override;

    using ring = spsc_ring<message>;
    struct peer {
        ring* incoming = nullptr;
        ring* outgoing = nullptr;
        reactor* loop = nullptr;
        bool unannounced = false; ///< sent to since the last flush
        intrusive_list<waiter> waiting;
        call_record* first_parked = nullptr;
        call_record* last_parked = nullptr;
        std::unique_ptr<ring> owned; ///< `incoming`: touched first, and freed, by this end
        bool backlogged() noexcept { return first_parked != nullptr || !waiting.empty(); }
    };
    bool destroy_arrived() noexcept;
    void park(unsigned to, call_record& call) noexcept;
    void drain_backlog(unsigned to, peer& p) noexcept;

    reactor& home_;
    unsigned self_;
    unsigned batch_;
    bool any_unannounced_ = false;
    std::vector<peer> peers_; ///< by shard; our own entry stays empty
    call_table calls_;
    mailbox_statistics statistics_;
};

template <typename F>
bool mailbox::try_post(unsigned to, F&& run) noexcept {
    using callable = std::decay_t<F>;
    static_assert(travels_inline<callable>, "a post carries at most 40 bytes that move without throwing");
    message* m = claim_request(to);
    if (m == nullptr) {
        ++statistics_.posts_refused;
        return false;
    }
    m->run = [](message& self, mailbox* here, unsigned) noexcept {
        auto* posted = std::launder(reinterpret_cast<callable*>(self.payload));
        if (here != nullptr) (*posted)();
        posted->~callable();
    };
    m->call = nullptr;
    ::new (m->payload) callable(std::forward<F>(run));
    send(to);
    return true;
}

} // namespace corewire
