// The `verbs` port: Ethernet over a raw-packet queue pair, of one shard. No system call a packet, no lock, no copy.
//
//     frame pool (one memory region) --posted in batches--> receive queue --NIC--> completions -> receive()
//     transmit() -> work requests, one doorbell a burst --> send queue ---NIC----> completions of the signalled ones
//                                                                                  -> frames go back to the pool
//
// Received bytes stay where the NIC put them; frames of our pool are sent from where they are, headers and payload in two
// pieces; small ones are copied into the work request (inline). Segments of one flow that follow each other in a burst go as one
// request, which a device that can cuts again (TSO). The last send of each burst is signalled, so that frames are
// never forgotten. A queue pair in error is started again; a link that is down, or a device that is gone, costs packets and
// is counted, and no more. Bounds: the pool, the depths of the queues; what does not fit is counted.
#pragma once

#include <corewire/net/port/joined_segments.hh>
#include <corewire/rdma/port/queue_port.hh>
#include <corewire/rdma/raw/verbs_device.hh>

#include <memory>

namespace corewire {

struct verbs_port_options {
    std::uint32_t frames = 0;            ///< in the pool; 0: both queues' depths and as many again
    std::uint16_t moderate_us = 0;       ///< a sleeping shard is woken so many microseconds after a frame has come; 0: at once
    std::uint16_t moderate_count = 64;   ///< or by so many frames, whichever is first
};

struct verbs_port_statistics : queue_port_statistics {
    std::uint64_t judged = 0;    ///< received frames whose checksums the device vouches for; the stack checks the others itself
    std::uint64_t signalled = 0; ///< sends that asked for a completion
    std::uint64_t trains_refused = 0; ///< the device took no request of several segments: since then each goes alone
    std::uint64_t segmented = 0; ///< requests that the device cut into frames: large packets, and segments that went together
};

class verbs_port final : public queue_port {
public:
    /// The port of one of the device's queues, on the thread of its shard. Throws std::system_error with a sentence.
    verbs_port(std::shared_ptr<verbs_device> device, unsigned queue, const verbs_port_options& options = {});
    ~verbs_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;

    const verbs_port_statistics& verbs_statistics() const noexcept { return counts_; }
    /// ibv_wr_*() and not chains of work requests.
    bool uses_calls() const noexcept { return queue_.pair.extended() != nullptr; }

private:
    static constexpr std::uint32_t smallest_frame = 14;
    enum class way : std::uint8_t { plain, inlined, segmented, unfit, no_frame }; ///< the last two: not at all, not now

    int post_receives(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept override { return mine_.post_receives(chain, bad); }
    int reset_queue() noexcept override { return mine_.reset(); }
    int start_queue() noexcept override { return mine_.start(device_->options().port); }
    bool device_link_up() const noexcept override { return device_->link_up(); }

    std::size_t take(std::span<packet> out, std::span<const ibv_wc> done) noexcept;
    std::size_t take_stashed(std::span<packet> out) noexcept;
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
    template <typename Poster>
    progress post(std::span<packet> burst) noexcept;
    progress post_each(std::span<packet> burst) noexcept;
    bool begins_train(std::span<const packet> burst) const noexcept;
    std::size_t join(std::span<packet> burst) noexcept;
    progress post_train(std::span<packet> burst) noexcept;
    int post_joined(std::uint64_t position) noexcept;
    progress stopped(std::span<packet> burst, std::size_t ready) noexcept;
    void let_go_inlined(std::span<packet> burst) noexcept;
    progress sent_off(std::span<packet> burst, std::uint32_t inlined, std::uint32_t segmented, std::uint64_t bytes,
                      outcome result) noexcept;
    [[gnu::cold]] std::size_t refused(int error, std::span<packet> rest) noexcept;

    std::shared_ptr<verbs_device> device_;
    verbs_queue& mine_;
    std::uint32_t longest_;    ///< frame, bytes
    std::uint32_t size_range_; ///< from the shortest frame to the longest
    std::uint32_t joined_pieces_ = 0; ///< that segments which go together may have; 0: each goes alone
    verbs_port_statistics counts_;
    joined_segments joined_;
};

} // namespace corewire
