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

#include <corewire/rdma/port/queue_port.hh>
#include <corewire/rdma/ud_link/discovery.hh>
#include <corewire/rdma/ud_link/encapsulation.hh>
#include <corewire/rdma/ud_link/handle_cache.hh>
#include <corewire/rdma/ud_link/ud_device.hh>

#include <chrono>
#include <memory>
#include <vector>

namespace corewire {

struct ud_port_options {
    std::uint32_t frames = 0;            ///< in the pool; 0: both queues' depths and as many again
    std::chrono::milliseconds retry_after{1000}; ///< how long a peer is left alone for which the device makes no address handle
};

struct ud_port_statistics : queue_port_statistics {
    std::uint64_t to_group = 0, from_group = 0; ///< datagrams
    std::uint64_t own_echoes = 0;               ///< what we sent to the group and heard ourselves
    std::uint64_t bad_arp = 0;                  ///< ARP for another kind of link, or from what can't be a host
    std::uint64_t too_long = 0;                 ///< not sent: longer than the MTU
};

class ud_port final : public queue_port {
public:
    /// The port of one of the device's queues, on the thread of its shard. Throws std::system_error with a sentence.
    ud_port(std::shared_ptr<ud_device> device, unsigned queue, const ud_port_options& options = {});
    ~ud_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;

    const ud_port_statistics& ud_statistics() const noexcept { return counts_; }
    const handle_cache& handles() const noexcept { return handles_; }
    const ud_device& device() const noexcept { return *device_; }
    /// Of shard 0: the others' groups are handed over to them.
    bool hears_group() const noexcept { return &mine_ == device_->queues_.front().get(); }

private:
    /// Where the device writes: so that the Ethernet header that takes the place of encapsulation and GRH stands behind the headroom.
    static constexpr std::uint32_t landing = frame_headroom + wire::ethernet_header::size - encapsulation_size - grh_size;
    enum class verdict : std::uint8_t { goes, lost, held, later };

    int post_receives(ibv_recv_wr* chain, ibv_recv_wr** bad) noexcept override { return queue_.pair.post_receive(chain, bad); }
    int reset_queue() noexcept override;
    int start_queue() noexcept override;
    bool device_link_up() const noexcept override { return device_->link_up(); }
    void follow_group() noexcept override;
    int take_group() noexcept;

    std::size_t take(std::span<packet> out, std::span<const ibv_wc> done) noexcept;
    bool take_in(frame& f, const ibv_wc& c, packet& out) noexcept;
    bool translate_arp(std::byte* arp, std::uint32_t& size, const ibv_wc& c) noexcept;
    verdict prepare(packet& p, ibv_send_wr& wr, std::uint64_t position) noexcept;
    handle_cache::destination destination_of(mac_address to, std::uint64_t position) noexcept;
    [[gnu::cold]] buffer rewritten_arp(const packet& p) noexcept;
    [[gnu::cold]] buffer rewritten_discovery(const packet& p) noexcept;
    const std::byte* encapsulation_for(std::uint16_t type) const noexcept;
    std::size_t post(std::span<packet> burst, bool& stop) noexcept;
    [[gnu::cold]] void send_held() noexcept;
    void posted_off(std::uint32_t count, std::uint32_t went, int error) noexcept;

    std::shared_ptr<ud_device> device_;
    ud_queue& mine_;
    handle_cache handles_;
    struct former_group {
        verbs::address_handle handle;
        std::uint64_t until; ///< the position behind the last send that may name it
    };
    std::vector<former_group> former_groups_;
    buffer constants_; ///< the encapsulations of IPv4, ARP and IPv6, four bytes each
    ud_port_statistics counts_;
};

} // namespace corewire
