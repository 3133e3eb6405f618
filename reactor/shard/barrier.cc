#include <corewire/reactor/shard/barrier.hh>

#include <corewire/reactor/memory/frame_allocator.hh>
#include <corewire/reactor/shard/block.hh>
#include <corewire/reactor/shard/remote_call.hh>

#include <new>
#include <system_error>
#include <utility>

namespace corewire::detail {

/// One that waits at home, in its frame.
class barrier_core::local_arrival final : public queued_waiter {
public:
    local_arrival(barrier_core& at, const wait_limits& limits) noexcept : queued_waiter(limits), core_(at) {}
    ~local_arrival() {
        if (leave()) --core_.arrived_;
    }
    bool await_ready() noexcept {
        if (core_.gone_) {
            fail(std::errc::operation_canceled);
            return true;
        }
        if (!core_.completes()) return false;
        core_.open();
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
        if (!stand_in(core_.local_, h)) return false;
        ++core_.arrived_;
        return true;
    }
    void await_resume() const { throw_if_failed("waiting at a barrier"); }

private:
    void left_early() noexcept override { --core_.arrived_; }
    barrier_core& core_;
};

/// One of another shard's that waits: in the part of its call record that is lent to home until the answer.
struct barrier_core::place : list_links {
    place(unsigned shard, call_record& c) noexcept : from(shard), call(c) {}
    static place& make(unsigned from, call_record& call) noexcept { return *::new (call.parked.payload) place(from, call); }
    static place& of(call_record& call) noexcept { return *std::launder(reinterpret_cast<place*>(call.parked.payload)); }
    unsigned from;
    call_record& call;
};

struct barrier_core::arriving {
    std::shared_ptr<barrier_core> core;
    std::uint64_t ticket;
    static void run(message& self, mailbox* here, unsigned from) noexcept {
        carried<arriving> what(self.payload);
        if (here != nullptr) (*what).core->on_arrival(from, (*what).ticket, *self.call);
    }
};

struct barrier_core::withdrawing {
    std::shared_ptr<barrier_core> core;
    std::uint64_t ticket;
    call_record* call; ///< home may look at it only if the ticket says that it is still lent
    static void run(message& self, mailbox* here, unsigned from) noexcept {
        carried<withdrawing> what(self.payload);
        if (here != nullptr) (*what).core->on_withdrawal(from, (*what).ticket, *(*what).call);
    }
};

/// The message that takes an arrival back. Made beforehand, since it may have to stand in line for the ring when its arrival's frame is
/// gone; it is its own, and needs no answer.
class barrier_core::withdrawal final : public remote_call_base {
public:
    withdrawal() noexcept : remote_call_base(wait_limits{}) {}
    static void* operator new(std::size_t size) { return frame_allocator::allocate(size); }
    static void operator delete(void* p, std::size_t size) noexcept { frame_allocator::deallocate(p, size); }
    static void send(std::unique_ptr<withdrawal> self, mailbox& here, unsigned to, withdrawing what) noexcept {
        withdrawal& sent = *self.release();
        sent.what_ = std::move(what);
        if (message* slot = here.claim_request(to)) [[likely]] {
            sent.emplace_request(*slot);
            here.send(to);
        } else {
            here.wait_for_room(to, sent);
        }
    }

private:
    void emplace_request(message& slot) noexcept override {
        slot.run = &withdrawing::run;
        slot.call = nullptr;
        carrier<withdrawing>(std::move(what_)).emplace(slot.payload);
        delete this;
    }
    withdrawing what_{};
};

/// The caller's end of one arrival, in its frame.
class barrier_core::remote_arrival final : public remote_result<verdict> {
public:
    remote_arrival(std::shared_ptr<barrier_core> at, mailbox& here, const wait_limits& limits) noexcept
        : remote_result(limits), core_(std::move(at)), here_(here) {}
    ~remote_arrival() { take_back(); }

    // Waits for the answer, or for the limits.

    bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> h) {
        notice_ = std::make_unique<withdrawal>();
        handle = h;
        if (!arm_limits()) return false;
        if (begin()) return true;
        disarm_limits();
        fail(std::errc::resource_unavailable_try_again);
        return false;
    }
    void await_resume() const noexcept {}

    /// Waits for home's word on who came first, where limits have ended the wait.
    struct last_word {
        remote_arrival& arrival;
        bool await_ready() const noexcept { return arrival.call_ == nullptr; }
        void await_suspend(std::coroutine_handle<>) const noexcept {} // answered() knows the coroutine
        void await_resume() const noexcept {}
    };
    void check() {
        const verdict what = outcome_.has_come() ? outcome_.take() : verdict::withdrawn;
        if (what == verdict::opened) return;
        if (what == verdict::gone) fail(std::errc::operation_canceled);
        throw_if_failed("waiting at a barrier");
    }

private:
    bool begin() {
        call_ = here_.calls().allocate();
        if (call_ == nullptr) [[unlikely]]
            return false;
        call_->caller = this;
        ticket_ = ++core_->given_[here_.self()];
        const unsigned home = core_->home_.self();
        if (message* slot = here_.claim_request(home)) [[likely]] {
            emplace_request(*slot);
            here_.send(home);
        } else {
            unsent_ = true;
            here_.wait_for_room(home, *this);
        }
        return true;
    }
    void emplace_request(message& slot) noexcept override {
        unsent_ = false;
        slot.run = &arriving::run;
        slot.call = call_;
        carrier<arriving>(arriving{core_, ticket_}).emplace(slot.payload);
    }
    void abandon() noexcept override { take_back(); }
    void take_back() noexcept {
        if (call_ == nullptr) return; // answered, or never begun
        if (unsent_) {
            unsent_ = false;
            unlink();
            here_.calls().release(*std::exchange(call_, nullptr));
        } else if (notice_ != nullptr) {
            withdrawal::send(std::move(notice_), here_, core_->home_.self(), {core_, ticket_, call_});
        }
    }

    std::shared_ptr<barrier_core> core_;
    mailbox& here_;
    std::unique_ptr<withdrawal> notice_; ///< until it is sent
    std::uint64_t ticket_ = 0;
    bool unsent_ = false; ///< stands in line for the ring
};

barrier_core::barrier_core(mailbox& home, std::size_t participants)
    : home_(home), participants_(participants), given_(home.shards()), seen_(home.shards()), answered_(home.shards()) {
    CW_ASSERT(participants > 0, "a barrier for nobody");
}

task<> barrier_core::arrive_and_wait(std::shared_ptr<barrier_core> core, mailbox& here, wait_limits limits) {
    if (core->is_home(here)) {
        local_arrival arrival(*core, limits);
        co_await arrival;
        co_return;
    }
    remote_arrival arrival(std::move(core), here, limits);
    co_await arrival;
    remote_arrival::last_word word{arrival};
    co_await word;
    arrival.check();
}

void barrier_core::open() noexcept {
    ++rounds_;
    arrived_ = 0;
    local_.wake_all();
    answer_all(verdict::opened);
}

void barrier_core::abandon() noexcept {
    gone_ = true;
    arrived_ = 0;
    local_.wake_all(std::errc::operation_canceled);
    answer_all(verdict::gone);
}

void barrier_core::answer_all(verdict what) noexcept {
    answered_ = seen_;
    while (!remote_.empty()) {
        place& first = remote_.pop_front();
        reply(first.from, first.call, what);
    }
}

void barrier_core::on_arrival(unsigned from, std::uint64_t ticket, call_record& call) noexcept {
    seen_[from] = ticket;
    if (gone_ || completes()) {
        if (gone_)
            answered_[from] = ticket;
        else
            open();
        reply(from, call, gone_ ? verdict::gone : verdict::opened);
        return;
    }
    ++arrived_;
    remote_.push_back(place::make(from, call));
}

void barrier_core::on_withdrawal(unsigned from, std::uint64_t ticket, call_record& call) noexcept {
    CW_ASSERT(ticket <= seen_[from], "an arrival at a barrier is taken back before it has come");
    if (ticket <= answered_[from]) return; // the record may be in other use by now
    place::of(call).unlink();
    --arrived_;
    reply(from, call, verdict::withdrawn);
}

/// The record's lent part is free for the reply: it is no place any more.
void barrier_core::reply(unsigned from, call_record& call, verdict what) noexcept {
    reply_value<verdict>(home_, from, call, std::move(what));
}

} // namespace corewire::detail
