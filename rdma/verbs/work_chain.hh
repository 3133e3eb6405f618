// Work requests that are linked once and patched for every use, and posted with one call: one doorbell a batch.
//
//     send_chain out(64, 2);                     receive_chain in(32);
//     ibv_send_wr& w = out.next(); ...patch...   in.add(id, at, size, key); ...
//     out.post(pair);                            in.post([&](auto* first, auto** bad) { return pair.post_receive(first, bad); });
//
// Each belongs to one queue of one shard. Bound: the length it was made with; post when full().
#pragma once

#include <corewire/rdma/verbs/queue_pair.hh>

#include <memory>

namespace corewire::verbs {

class send_chain {
public:
    /// `length` requests of up to `pieces` scatter/gather elements, all of which begin with `local_key`.
    send_chain(unsigned length, unsigned pieces, std::uint32_t local_key = 0)
        : requests_(std::make_unique<ibv_send_wr[]>(length)), elements_(std::make_unique<ibv_sge[]>(length * pieces)),
          length_(length) {
        for (unsigned i = 0; i < length * pieces; ++i) elements_[i].lkey = local_key;
        for (unsigned i = 0; i < length; ++i) {
            requests_[i] = {};
            requests_[i].opcode = IBV_WR_SEND;
            requests_[i].sg_list = &elements_[i * pieces];
            requests_[i].next = i + 1 < length ? &requests_[i + 1] : nullptr;
        }
    }
    bool full() const noexcept { return used_ == length_; }
    bool empty() const noexcept { return used_ == 0; }
    unsigned size() const noexcept { return used_; }
    /// The next request, as it was left by its last use: set num_sge, sg_list[], send_flags, and opcode if you change it.
    ibv_send_wr& next() noexcept {
        CW_DEBUG_ASSERT(used_ < length_, "a full chain is posted first");
        return requests_[used_++];
    }
    ibv_send_wr& last() noexcept { return requests_[used_ - 1]; }
    /// For those who walk the links themselves (w = w->next) and post up to the last one they patched.
    ibv_send_wr* first() noexcept { return requests_.get(); }

    struct outcome {
        int error;       ///< errno; 0: all were posted
        unsigned posted;
    };
    /// Posts what next() gave, with one doorbell, and empties the chain.
    outcome post(queue_pair& to) noexcept {
        const outcome result = post(to, last(), used_);
        used_ = 0;
        return result;
    }
    /// The same for requests from first() to `end`.
    outcome post(queue_pair& to, ibv_send_wr& end, unsigned count) noexcept {
        ibv_send_wr* const after = end.next;
        end.next = nullptr;
        ibv_send_wr* bad = nullptr;
        const int error = to.post_send(requests_.get(), &bad);
        end.next = after;
        return {error, error == 0 ? count : static_cast<unsigned>(bad - requests_.get())};
    }

private:
    std::unique_ptr<ibv_send_wr[]> requests_;
    std::unique_ptr<ibv_sge[]> elements_;
    unsigned length_;
    unsigned used_ = 0;
};

class receive_chain {
public:
    /// Requests of one piece each, all with the same key.
    receive_chain(unsigned length, std::uint32_t local_key)
        : requests_(std::make_unique<ibv_recv_wr[]>(length)), elements_(std::make_unique<ibv_sge[]>(length)), length_(length) {
        for (unsigned i = 0; i < length; ++i) {
            elements_[i].lkey = local_key;
            requests_[i] = {0, i + 1 < length ? &requests_[i + 1] : nullptr, &elements_[i], 1};
        }
    }
    bool full() const noexcept { return used_ == length_; }
    unsigned size() const noexcept { return used_; }
    unsigned length() const noexcept { return length_; }
    void add(std::uint64_t id, std::byte* at, std::uint32_t size) noexcept {
        CW_DEBUG_ASSERT(used_ < length_, "a full chain is posted first");
        requests_[used_].wr_id = id;
        elements_[used_].addr = reinterpret_cast<std::uintptr_t>(at);
        elements_[used_].length = size;
        ++used_;
    }

    struct outcome {
        int error;
        unsigned posted;
    };
    /// `post_them(first, &bad)` is the call: a queue pair's, a shared queue's, a work queue's.
    template <typename Post>
    outcome post(Post post_them) noexcept {
        if (used_ == 0) return {0, 0};
        ibv_recv_wr& end = requests_[used_ - 1];
        ibv_recv_wr* const after = end.next;
        end.next = nullptr;
        ibv_recv_wr* bad = nullptr;
        const int error = post_them(requests_.get(), &bad);
        end.next = after;
        const unsigned posted = error == 0 ? used_ : static_cast<unsigned>(bad - requests_.get());
        used_ = 0;
        return {error, posted};
    }
    std::uint64_t id(unsigned i) const noexcept { return requests_[i].wr_id; }

private:
    std::unique_ptr<ibv_recv_wr[]> requests_;
    std::unique_ptr<ibv_sge[]> elements_;
    unsigned length_;
    unsigned used_ = 0;
};

/// Which sends ask for a completion: the last of every batch, so that nothing stays unknown, and every `every`-th within
/// a longer one. One completion retires all sends before it.
class selective_signalling {
public:
    explicit selective_signalling(unsigned every = 64) noexcept : every_(every) {}
    /// Whether the next send is to be signalled.
    bool next(bool last_of_batch) noexcept {
        if (!last_of_batch && ++since_ < every_) return false;
        since_ = 0;
        return true;
    }

private:
    unsigned every_;
    unsigned since_ = 0;
};

} // namespace corewire::verbs
