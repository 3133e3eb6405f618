// The `xdp` port: AF_XDP sockets on one or more queues of an interface, over one region of memory shared with the kernel.
//
//     fill ring  --empty frames-->  kernel  --received frames-->  rx ring   -> receive()
//     transmit() -> tx ring  --frames-->    kernel  --sent frames-->    completion ring -> back to the pool
//
// Owned by one shard. On veth a sender in the kernel may choose any queue, so one shard must hold all of them or every
// queue must have a port. Received bytes stay where the kernel put them; frames of our pool are sent from where they are,
// payload in `body` and frames of other pools are copied once. Bounds: the pool, the rings; what does not fit is counted.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/net/port/xdp/kick_policy.hh>
#include <corewire/net/port/xdp/xdp_device.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <memory>
#include <vector>

namespace corewire {

/// Whose word on TCP and UDP checksums is good.
enum class xdp_checksums {
    automatic,      ///< accept_partial on veth, verify elsewhere
    verify,         ///< the stack checks all
    accept_partial, ///< vouch for frames that a local sender left to complete: they have never been on a wire
    trust,          ///< vouch for all
};

struct xdp_port_options {
    std::vector<unsigned> queues = {0}; ///< the first one also transmits
    std::uint32_t frames = 0;           ///< in the pool; 0: 4096 and 2048 for each further queue
    std::uint32_t receive_frames = 1024; ///< lent to the kernel, for each queue; the ring is twice that and never full
    xdp_checksums checksums = xdp_checksums::automatic;
    bool gather_kicks = true;           ///< see kick_policy.hh; false: one system call for every transmit()
    /// On veth, leave TCP and UDP checksums open (Linux 6.11): a kernel at the other end, and a port of ours, takes them so, and where
    /// a frame leaves for a wire the kernel completes it. False for a reader of raw frames, who wants them.
    bool transmit_checksum = true;
};

struct xdp_queue;

class xdp_port final : public port {
public:
    /// Throws std::system_error with a sentence when the kernel refuses; waits up to two seconds for a queue that
    /// another socket has just left.
    xdp_port(std::shared_ptr<xdp_device> device, const xdp_port_options& options = {});
    ~xdp_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    bool prepare_sleep() override;
    int wake_fd() const override { return wake_; }

    xdp_device& device() noexcept { return *device_; }
    /// Frames whose checksum a local sender had left open, and that we vouched for.
    std::uint64_t partial_checksums() const noexcept { return partial_checksums_; }
    /// Frames that the kernel dropped because receive() was not called often enough or the application holds all frames,
    /// or that were longer than a frame of ours. A system call: for reports, not for the data path.
    std::uint64_t kernel_drops() const noexcept;
    /// Packets of a local sender that came in several pieces and were cut into segments.
    std::uint64_t super_frames() const noexcept { return super_frames_; }

private:
    void add_queue(unsigned index);
    int register_memory(xdp_queue& q) noexcept;
    void make_wake_fd();

    std::size_t receive_from(xdp_queue& q, std::span<packet> out) noexcept;
    bool accept(xdp_queue& q, std::uint64_t address, std::uint32_t size, bool goes_on, packet& out) noexcept;
    bool accept_piece(xdp_queue& q, buffer& piece, bool goes_on) noexcept;
    offload vouch(byte_span frame) noexcept;
    void refill(xdp_queue& q) noexcept;

    enum class placement { placed, no_frame, unusable };
    placement place(packet& p) noexcept;
    std::uint32_t work_beside(packet& p) noexcept;
    void reap(xdp_queue& q) noexcept;
    void kick(bool waited) noexcept;
    std::size_t drop(std::span<packet> burst) noexcept;

    std::uint32_t largest_frame() const noexcept { return mtu_ + 18; } ///< Ethernet header and a VLAN tag
    frame& frame_of(std::uint64_t address) noexcept { return first_frame_[address >> frame_shift_]; }

    std::shared_ptr<xdp_device> device_;
    frame_pool frames_;
    frame* first_frame_;
    std::uint32_t frame_shift_;
    std::uint32_t receive_frames_;
    std::uint32_t metadata_size_; ///< bytes in front of each frame that is sent, for the kernel to read
    std::vector<std::unique_ptr<xdp_queue>> queues_;
    std::size_t next_queue_ = 0; ///< whose turn it is to be received from first
    kick_policy kicks_;
    bool stuck_ = false; ///< the kernel sends nothing: the interface is down, or has gone
    bool gather_kicks_;
    xdp_checksums checksums_;
    std::uint64_t partial_checksums_ = 0;
    std::uint64_t super_frames_ = 0;
    unique_fd epoll_; ///< only with several queues
    int wake_ = -1;
};

} // namespace corewire
