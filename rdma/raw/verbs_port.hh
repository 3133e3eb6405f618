// The `verbs` port: Ethernet over a raw-packet queue pair, of one shard. No system call a packet, no lock, no copy.
//
//     frame pool (one memory region) --posted in batches--> receive queue --NIC--> completions -> receive()
//     transmit() -> work requests, one doorbell a burst --> send queue ---NIC----> completions of the signalled ones
//                                                                                  -> frames go back to the pool
//
// Received bytes stay where the NIC put them; frames of our pool are sent from where they are, headers and payload in two
// pieces; small ones are copied into the work request (inline). The last send of each burst is signalled, so that frames are
// never forgotten. A queue pair in error is started again; a link that is down, or a device that is gone, costs packets and
// is counted, and no more. Bounds: the pool, the depths of the queues; what does not fit is counted.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/rdma/raw/verbs_device.hh>
#include <corewire/rdma/verbs/memory_region.hh>
#include <corewire/rdma/verbs/work_chain.hh>

#include <array>
#include <memory>

namespace corewire {

struct verbs_port_options {
    std::uint32_t frames = 0;            ///< in the pool; 0: both queues' depths and as many again
    std::uint16_t moderate_count = 0;    ///< a sleeping shard is woken after so many completions
    std::uint16_t moderate_us = 0;       ///< or microseconds, whichever is first; 0: at once
};

struct verbs_port_statistics {
    std::uint64_t doorbells = 0;         ///< of sends: one a burst
    std::uint64_t receive_doorbells = 0; ///< of refills
    std::uint64_t signalled = 0;         ///< sends that asked for a completion
    std::uint64_t inlined = 0, copied = 0, segmented = 0; ///< frames sent by each way
    std::uint64_t failed_receives = 0, failed_sends = 0; ///< completions with an error, flushed ones included
    std::uint64_t restarts = 0;          ///< times the queue pair was put back to its beginning
    std::uint64_t link_changes = 0;
};

class verbs_port final : public port {
public:
    /// The port of one of the device's queues, on the thread of its shard. Throws std::system_error with a sentence.
    verbs_port(std::shared_ptr<verbs_device> device, unsigned queue, const verbs_port_options& options = {});
    ~verbs_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    bool prepare_sleep() override;
    void finish_sleep() override;
    int wake_fd() const override { return state_ == condition::works ? queue_.channel.fd() : -1; }

    const verbs_port_statistics& verbs_statistics() const noexcept { return counts_; }
    /// False once the device has gone or failed for good: nothing comes and everything sent is dropped.
    bool usable() const noexcept { return state_ == condition::works; }
    bool link_up() const noexcept { return link_up_; }
    std::uint32_t inline_limit() const noexcept { return inline_limit_; }
    /// ibv_wr_*() and not chains of work requests.
    bool uses_calls() const noexcept { return queue_.pair.extended() != nullptr; }
    /// Frames that the device holds: to receive into, and to send from.
    std::uint32_t posted() const noexcept { return posted_tail_ - posted_head_; }
    std::uint32_t unsent() const noexcept { return sent_tail_ - sent_head_; }

private:
    static constexpr std::size_t burst_size = 32;    ///< frames a doorbell; the last one asks for a completion
    static constexpr std::uint32_t smallest_frame = 14;
    static constexpr std::uint32_t refill_from = 32; ///< buffers that are posted at a time
    static constexpr std::uint32_t reap_from = 64;   ///< unsent frames from which looking for completions pays
    static constexpr unsigned most_restarts = 16;    ///< in a row, without anything received or sent between them
    enum class condition : std::uint8_t { works, unusable };
    /// A send's frames, until it has completed; null where there is none, or it went inline.
    struct sent {
        frame* head;
        frame* body;
    };
    enum class way : std::uint8_t { plain, inlined, segmented, unfit, no_frame }; ///< the last two: not at all, not now

    std::size_t take(std::span<packet> out, std::span<const ibv_wc> done) noexcept;
    std::size_t take_stashed(std::span<packet> out) noexcept;
    bool wants_refill() const noexcept { return posted() + refill_from <= posted_mask_ + 1; }
    void refill() noexcept;
    void reap() noexcept;
    struct outcome {
        int error;       ///< errno; 0: all were posted
        unsigned posted;
    };
    struct progress {
        std::size_t taken; ///< from the caller: posted or dropped
        bool stop;         ///< no more now
    };
    struct by_chain;
    struct by_calls;
    way prepare(packet& p, std::uint32_t size) noexcept;
    [[gnu::cold]] way prepare_large(packet& p) noexcept;
    [[gnu::cold]] bool gather(packet& p) noexcept;
    template <typename Poster>
    progress post(std::span<packet> burst) noexcept;
    [[gnu::cold]] progress stopped(std::span<packet> burst, std::size_t ready) noexcept;
    void let_go_inlined(std::span<packet> burst) noexcept;
    progress sent_off(std::span<packet> burst, std::uint32_t inlined, std::uint64_t bytes, outcome result) noexcept;
    void take_back(std::uint32_t up_to) noexcept;
    [[gnu::cold]] void look_into_trouble() noexcept;
    [[gnu::cold]] void restart() noexcept;
    [[gnu::cold]] void give_up() noexcept;
    [[gnu::cold]] std::size_t drop(std::span<packet> burst) noexcept;
    [[gnu::cold]] std::size_t refused(int error, std::span<packet> rest) noexcept;
    void let_go() noexcept;

    std::shared_ptr<verbs_device> device_;
    verbs_queue& queue_;
    frame_pool frames_;
    verbs::memory_region region_;
    std::uint32_t key_;
    std::uint32_t inline_limit_;
    std::uint32_t longest_;            ///< frame, bytes
    std::uint32_t size_range_;         ///< from the shortest frame to the longest
    std::uint32_t receive_room_;       ///< bytes of a frame behind its headroom
    bool link_up_ = true;
    condition state_ = condition::works;
    bool armed_ = false;
    unsigned restarts_in_a_row_ = 0;

    // Receives complete in the order of their posting: rings of frames, by counters that run over.
    std::unique_ptr<frame*[]> posted_;
    std::uint32_t posted_mask_, posted_head_ = 0, posted_tail_ = 0;
    verbs::receive_chain refills_;
    std::array<ibv_wc, burst_size> completions_;
    std::size_t stash_at_ = 0, stashed_ = 0; ///< completions taken while about to sleep

    std::unique_ptr<sent[]> sent_;
    std::uint32_t sent_mask_, sent_head_ = 0, sent_tail_ = 0;
    verbs::send_chain sends_;
    verbs_port_statistics counts_;
};

} // namespace corewire
