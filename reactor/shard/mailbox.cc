#include <corewire/reactor/shard/mailbox.hh>

#include <corewire/reactor/shard/remote_call.hh>

namespace corewire {

namespace {

/// The message that stands in the ring for a reply that was parked in its call record.
void run_parked(message& self, mailbox* here, unsigned from) noexcept { self.call->parked.run(self.call->parked, here, from); }

} // namespace

mailbox::mailbox(reactor& home, unsigned self, unsigned shards, const mailbox_options& options)
    : home_(home), self_(self), batch_(options.batch), peers_(shards), calls_(options.calls_in_flight) {
    for (unsigned from = 0; from < shards; ++from) {
        if (from == self) continue;
        peers_[from].owned = std::make_unique<ring>(options.ring_slots);
        peers_[from].incoming = peers_[from].owned.get();
    }
    if (shards > 1) home.add_poller(*this); // alone there is nobody to hear from
}

mailbox::~mailbox() { destroy_arrived(); }

bool mailbox::destroy_arrived() noexcept {
    std::size_t arrived = 0;
    for (unsigned from = 0; from < shards(); ++from) {
        ring* incoming = peers_[from].owned.get();
        if (incoming != nullptr) arrived += incoming->consume(incoming->capacity(), [&](message& m) { m.run(m, nullptr, from); });
    }
    return arrived != 0;
}

bool mailbox::discard() noexcept {
    bool any = destroy_arrived();
    for (unsigned to = 0; to < shards(); ++to) {
        if (!peers_[to].backlogged()) continue;
        drain_backlog(to, peers_[to]);
        any = true;
    }
    return any;
}

void mailbox::connect(mailbox& a, mailbox& b) {
    a.peers_[b.self_].outgoing = b.peers_[a.self_].incoming;
    b.peers_[a.self_].outgoing = a.peers_[b.self_].incoming;
    a.peers_[b.self_].loop = &b.home_;
    b.peers_[a.self_].loop = &a.home_;
}

bool mailbox::poll(time_point) {
    std::size_t taken = 0;
    for (unsigned from = 0; from < shards(); ++from) {
        peer& p = peers_[from];
        if (p.incoming == nullptr) continue;
        taken += p.incoming->consume(batch_, [&](message& m) { m.run(m, this, from); });
        if (p.backlogged()) [[unlikely]]
            drain_backlog(from, p);
    }
    statistics_.received += taken;
    return taken != 0;
}

bool mailbox::flush(time_point) {
    if (!any_unannounced_) return false;
    any_unannounced_ = false;
    for (peer& p : peers_) {
        if (!p.unannounced) continue;
        p.unannounced = false;
        ++statistics_.wakes;
        p.loop->wake_if_asleep(); // one look at a flag; a system call only if it sleeps
    }
    return true;
}

bool mailbox::prepare_sleep() { return quiet(); }

bool mailbox::quiet() noexcept {
    for (peer& p : peers_)
        if (p.incoming != nullptr && (!p.incoming->empty() || p.backlogged())) return false;
    return true;
}

void mailbox::wait_for_room(unsigned to, remote_call_base& caller) noexcept {
    peers_[to].waiting.push_back(caller);
    ++statistics_.waited;
}

void mailbox::park(unsigned to, call_record& call) noexcept {
    peer& p = peers_[to];
    call.next_parked = nullptr;
    (p.first_parked == nullptr ? p.first_parked : p.last_parked->next_parked) = &call;
    p.last_parked = &call;
    ++statistics_.parked;
}

/// Replies first: each one frees a call record and makes somebody ready.
void mailbox::drain_backlog(unsigned to, peer& p) noexcept {
    while (p.first_parked != nullptr) {
        void* place = p.outgoing->try_claim();
        if (place == nullptr) return;
        call_record* call = std::exchange(p.first_parked, p.first_parked->next_parked);
        ::new (place) message{&run_parked, call, {}};
        send(to);
    }
    while (!p.waiting.empty()) {
        void* place = p.outgoing->try_claim();
        if (place == nullptr) return;
        auto& caller = static_cast<remote_call_base&>(p.waiting.pop_front());
        caller.emplace_request(*static_cast<message*>(place));
        send(to);
    }
}

} // namespace corewire
