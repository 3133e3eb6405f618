// The `verbs-ud` port: IP over UD datagrams (RFC 4391), of one shard. To the stack it is an Ethernet port like any other.
//
//     frame pool (one memory region) --posted in batches--> receive queue --> GRH, encapsulation -> an Ethernet header over them
//     transmit(): Ethernet header -> handle and queue pair of its MAC; encapsulation + the rest of the frame, gathered;
//                 one doorbell a burst --> send queue --> completion of the last one -> frames go back to the pool
//
// Payload is never copied: on the way in the Ethernet header takes the place of what came before it; on the way out the device
// gathers four constant bytes and what follows the Ethernet header. Only ARP is rewritten (encapsulation.hh), and IPv6's neighbour
// discovery (discovery.hh). Groups all go to the
// broadcast group, and the stack above picks its own. A queue pair in error is started again; a link that is down, or a device that is
// gone, costs packets and is counted, and no more. Bounds: the pool, the depths of the queues, handle_cache.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/rdma/ud_link/discovery.hh>
#include <corewire/rdma/ud_link/encapsulation.hh>
#include <corewire/rdma/ud_link/handle_cache.hh>
#include <corewire/rdma/ud_link/ud_device.hh>
#include <corewire/rdma/verbs/memory_region.hh>
#include <corewire/rdma/verbs/work_chain.hh>

#include <array>
#include <memory>

namespace corewire {

struct ud_port_options {
    std::uint32_t frames = 0;            ///< in the pool; 0: both queues' depths and as many again
    std::chrono::milliseconds retry_after{1000}; ///< how long a peer is left alone for which the device makes no address handle
};

struct ud_port_statistics {
    std::uint64_t doorbells = 0;         ///< of sends: one a burst
    std::uint64_t receive_doorbells = 0; ///< of refills
    std::uint64_t inlined = 0, copied = 0; ///< datagrams sent inline; frames of somebody else's memory
    std::uint64_t to_group = 0, from_group = 0; ///< datagrams
    std::uint64_t own_echoes = 0;        ///< what we sent to the group and heard ourselves
    std::uint64_t bad_arp = 0;           ///< ARP for another kind of link, or from what can't be a host
    std::uint64_t too_long = 0;          ///< not sent: longer than the MTU
    std::uint64_t failed_receives = 0, failed_sends = 0; ///< completions with an error, flushed ones included
    std::uint64_t restarts = 0;          ///< times the queue pair was put back to its beginning
    std::uint64_t link_changes = 0;
};

class ud_port final : public port {
public:
    /// The port of one of the device's queues, on the thread of its shard. Throws std::system_error with a sentence.
    ud_port(std::shared_ptr<ud_device> device, unsigned queue, const ud_port_options& options = {});
    ~ud_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    bool prepare_sleep() override;
    void finish_sleep() override;
    int wake_fd() const override { return state_ == condition::works ? queue_.channel.fd() : -1; }

    const ud_port_statistics& ud_statistics() const noexcept { return counts_; }
    const handle_cache& handles() const noexcept { return handles_; }
    const ud_device& device() const noexcept { return *device_; }
    /// False once the device has gone or failed for good: nothing comes and everything sent is dropped.
    bool usable() const noexcept { return state_ == condition::works; }
    bool link_up() const noexcept { return link_up_; }
    std::uint32_t posted() const noexcept { return posted_tail_ - posted_head_; }
    std::uint32_t unsent() const noexcept { return sent_tail_ - sent_head_; }

private:
    static constexpr std::size_t burst_size = 32;    ///< datagrams a doorbell; the last one asks for a completion
    static constexpr std::uint32_t refill_from = 32; ///< buffers that are posted at a time
    static constexpr std::uint32_t reap_from = 64;   ///< unsent frames from which looking for completions pays
    static constexpr unsigned most_restarts = 16;    ///< in a row, without anything received or sent between them
    /// Where the device writes: so that the Ethernet header that takes the place of encapsulation and GRH stands behind the headroom.
    static constexpr std::uint32_t landing = frame_headroom + wire::ethernet_header::size - encapsulation_size - grh_size;
    enum class condition : std::uint8_t { works, unusable };
    /// A send's frames, until it has completed; null where there is none.
    struct sent {
        frame* head;
        frame* body;
        bool inlined; ///< the device has its bytes: free as soon as it is posted
    };
    enum class verdict : std::uint8_t { goes, lost, later };

    std::size_t take(std::span<packet> out, std::span<const ibv_wc> done) noexcept;
    bool take_in(frame& f, const ibv_wc& c, packet& out) noexcept;
    bool translate_arp(std::byte* arp, std::uint32_t& size, const ibv_wc& c) noexcept;
    bool wants_refill() const noexcept { return posted() + refill_from <= posted_mask_ + 1; }
    void refill() noexcept;
    verdict prepare(packet& p, ibv_send_wr& wr, std::uint32_t position) noexcept;
    handle_cache::destination destination_of(mac_address to, std::uint32_t position) noexcept;
    [[gnu::cold]] buffer rewritten_arp(const packet& p) noexcept;
    [[gnu::cold]] buffer rewritten_discovery(const packet& p) noexcept;
    [[gnu::cold]] bool gather(packet& p) noexcept;
    const std::byte* encapsulation_for(std::uint16_t type) const noexcept;
    std::size_t post(std::span<packet> burst, bool& stop) noexcept;
    void posted_off(std::uint32_t count, std::uint32_t went, int error) noexcept;
    void reap() noexcept;
    [[gnu::cold]] void look_into_trouble() noexcept;
    [[gnu::cold]] void restart() noexcept;
    [[gnu::cold]] void give_up() noexcept;
    [[gnu::cold]] std::size_t drop(std::span<packet> burst) noexcept;
    void let_go() noexcept;
    static void release_both(sent& s) noexcept;

    std::shared_ptr<ud_device> device_;
    ud_queue& queue_;
    frame_pool frames_;
    verbs::memory_region region_;
    std::uint32_t key_;
    std::uint32_t inline_limit_;
    handle_cache handles_;
    buffer constants_; ///< the encapsulations of IPv4, ARP and IPv6, four bytes each
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
    ud_port_statistics counts_;
};

} // namespace corewire
