// A net port over one queue pair: what `verbs` and `verbs-ud` have in common. Frames are lent to the device in batches; what was posted
// is remembered by its position, so that the queue pair may be put back to its beginning at any time and no frame is lost.
//
//     frame pool (one memory region) --refill(): posted in batches--> receive queue --> completions --> receive() of the derived port
//     transmit() of the derived port --> send queue --> the completion of a burst's last send --reap()--> frames go back to the pool
//
// The derived port says how a completion becomes a packet and a packet a work request. A queue pair in error is started again; a link
// that is down, or a device that is gone, costs packets and is counted, and no more. One shard's.
//
//     works --error--> started again --error, 16 times in a row--> rests 10 ms --> started once --error--> rests 20 ms ... 1 s
//       `--removed, overrun--> given up         (on no reactor there is nothing to wait by: given up instead of rests)
//
// A device that refuses to put the queue pair back may write into what was posted, and send it, still: those frames stay its own until
// it says otherwise, by completions or a later reset that succeeds.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/rdma/port/port_queue.hh>
#include <corewire/rdma/verbs/memory_region.hh>
#include <corewire/rdma/verbs/work_chain.hh>
#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/loop/timer.hh>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

namespace corewire {

struct queue_port_statistics {
    std::uint64_t doorbells = 0;         ///< of sends: one a burst
    std::uint64_t receive_doorbells = 0; ///< of refills
    std::uint64_t inlined = 0, copied = 0; ///< packets sent inline; frames of somebody else's memory
    std::uint64_t failed_receives = 0, failed_sends = 0; ///< completions with an error, flushed ones included
    std::uint64_t restarts = 0;          ///< times the queue pair was put back to its beginning
    std::uint64_t rests = 0;             ///< times it was left alone for a while, as that did not help
    std::uint64_t link_changes = 0;
};

struct queue_port_layout {
    std::string kind, name;        ///< "verbs"; "verbs:mlx5_0/0"
    std::uint32_t frames = 0;      ///< in the pool; 0: both queues' depths and as many again
    std::uint32_t longest = 0;     ///< bytes of a frame, its link header included
    unsigned receive_depth = 0, send_depth = 0; ///< powers of two
    unsigned inline_bytes = 0;
    unsigned send_pieces = 0;      ///< that a work request may gather
    bool link_up = true;
    std::shared_ptr<const void> device{}; ///< kept until everything of the port has gone: it owns the queue
};

class queue_port : public port {
public:
    bool prepare_sleep() override;
    void finish_sleep() override;
    int wake_fd() const override { return usable() ? queue_.channel.fd() : -1; }

    /// False while the queue pair rests, and once the device has gone: nothing comes and everything sent is dropped.
    bool usable() const noexcept { return state_ == condition::works; }
    bool link_up() const noexcept { return link_up_; }
    std::uint32_t inline_limit() const noexcept { return inline_limit_; }
    /// Frames that the device holds: to receive into, and to send from. Of a port that is not usable, those of which it can't be known
    /// that the device has done with them.
    std::uint32_t posted() const noexcept { return posted_tail_ - posted_head_; }
    std::uint32_t unsent() const noexcept { return static_cast<std::uint32_t>(sent_tail_ - sent_head_); }

protected:
    static constexpr std::size_t burst_size = 32;    ///< packets a doorbell; the last one asks for a completion
    static constexpr std::uint32_t refill_from = 32; ///< buffers that are posted at a time
    static constexpr std::uint32_t reap_from = 64;   ///< unsent frames from which looking for completions pays
    static constexpr unsigned most_restarts = 16;    ///< in a row, without anything received or sent between them; then it rests
    static constexpr duration first_rest = std::chrono::milliseconds{10}; ///< twice as long each time that one more restart did not help
    static constexpr duration longest_rest = std::chrono::seconds{1};
    enum class condition : std::uint8_t { works, rests, unusable };
    /// A send's frames, of our own pool, until it has completed; null where there is none, or it went inline.
    struct sent {
        frame* head;
        frame* body;
    };

    /// `counts` belongs to the derived port. Throws std::system_error with a sentence.
    queue_port(port_queue& queue, queue_port_statistics& counts, const queue_port_layout& layout);
    /// The last thing that the derived port's constructor does: where in a frame the device writes, and how much; then lends it some.
    void begin(std::uint32_t landing, std::uint32_t room) noexcept;
    /// The first thing that its destructor does: from here on the device reads and writes nothing of our memory.
    void end() noexcept;

    virtual int post_receives(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept = 0;
    /// Puts the queue back to its beginning, with nothing posted. An errno: see device_let_go().
    virtual int reset_queue() noexcept = 0;
    /// After that: to where it receives and sends. An errno.
    virtual int start_queue() noexcept = 0;
    /// The device has other parameters of the link's group.
    virtual void follow_group() noexcept {}
    /// Whether the device touches nothing of what was posted any more, by what reset_queue() has answered.
    static bool device_let_go(int error) noexcept { return error == 0 || device_gone(error); }
    static bool device_gone(int error) noexcept { return error == EIO || error == ENODEV; }
    virtual bool device_link_up() const noexcept = 0;

    bool troubled() const noexcept { return queue_.trouble.load(std::memory_order_relaxed) != 0; }
    [[gnu::cold]] void look_into_trouble() noexcept;
    [[gnu::cold]] void give_up() noexcept;
    bool wants_refill() const noexcept { return posted() + refill_from <= posted_mask_ + 1; }
    void refill() noexcept;
    void reap() noexcept;
    /// The driver took no more sends, and said why.
    [[gnu::cold]] void send_refused(int error) noexcept;
    /// Whether the device can read both pieces where they are.
    bool reachable(const packet& p) const noexcept {
        return p.head.underlying_frame()->owner == &frames_ && (p.body.empty() || p.body.underlying_frame()->owner == &frames_);
    }
    [[gnu::cold]] bool gather(packet& p) noexcept;
    [[gnu::cold]] std::size_t drop(std::span<packet> burst) noexcept;
    static void let_go(sent& s) noexcept;

    std::shared_ptr<const void> device_in_use_; ///< goes last
    port_queue& queue_;
    frame_pool frames_;
    verbs::memory_region region_;
    std::uint32_t key_;
    std::uint32_t inline_limit_;
    bool link_up_;
    condition state_ = condition::works;
    unsigned restarts_in_a_row_ = 0; ///< 0 again with each success

    // Receives complete in the order of their posting: rings of frames, by counters that run over.
    std::unique_ptr<frame*[]> posted_;
    std::uint32_t posted_mask_, posted_head_ = 0, posted_tail_ = 0;
    std::array<ibv_wc, burst_size> completions_;
    std::size_t stash_at_ = 0, stashed_ = 0; ///< completions taken while about to sleep

    std::unique_ptr<sent[]> sent_;
    std::uint32_t sent_mask_;
    std::uint64_t sent_head_ = 0, sent_tail_ = 0; ///< do not run over: others compare positions long after
    verbs::send_chain sends_;

private:
    void take_back(std::uint64_t up_to) noexcept;
    void take_completed() noexcept;
    void forget_completions() noexcept;
    void let_go_all() noexcept;
    [[gnu::cold]] void restart() noexcept;
    [[gnu::cold]] void stop(condition as) noexcept;
    [[gnu::cold]] void rest() noexcept;
    [[gnu::cold]] void rested() noexcept;
    struct rest_timer final : timer {
        explicit rest_timer(queue_port& p) noexcept
            : timer([](timer& t) noexcept { static_cast<rest_timer&>(t).rests.rested(); }), rests(p) {}
        queue_port& rests;
    };

    queue_port_statistics& counts_;
    std::uint32_t landing_ = 0, room_ = 0;
    verbs::receive_chain refills_;
    bool armed_ = false;
    rest_timer rest_timer_{*this};
    duration next_rest_ = first_rest;
};

} // namespace corewire
