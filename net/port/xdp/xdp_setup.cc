// Making and unmaking an xdp port: memory, sockets, rings. The data path is in xdp_port.cc.
#include <corewire/net/port/xdp/xdp_port.hh>

#include <corewire/net/port/xdp/steer_maps.h>
#include <corewire/net/port/xdp/xdp_queue.hh>

#include <steer.skel.h>

#include <algorithm>
#include <bit>
#include <bpf/bpf.h>
#include <cerrno>
#include <chrono>
#include <linux/if_link.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>

namespace corewire {

namespace {

constexpr std::uint32_t transmit_ring = 1024;
constexpr std::uint32_t kernel_headroom = 256; ///< XDP_PACKET_HEADROOM: before every received frame
constexpr std::uint32_t ethernet_and_vlan = 18;
constexpr std::uint32_t kernel_send_budget = 256; ///< frames a sendto() may send, where the kernel lets us choose

[[noreturn]] void fail(int error, const std::string& what) { throw std::system_error(error, std::generic_category(), what); }

/// Frames that hold a packet of the interface's MTU, if a page does.
std::uint32_t frame_size_for(std::uint32_t mtu) { return mtu + ethernet_and_vlan + kernel_headroom <= 2048 ? 2048 : 4096; }

std::uint32_t frame_count_for(const xdp_port_options& options) {
    if (options.frames != 0) return options.frames;
    return 4096 + 2048 * (static_cast<std::uint32_t>(options.queues.size()) - 1);
}

/// Runs `attempt` until it returns something else than EBUSY, for up to two seconds: a queue stays taken for a moment
/// after its socket was closed.
template <typename Attempt>
int until_not_busy(Attempt attempt) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    int error = attempt();
    while (error == EBUSY && std::chrono::steady_clock::now() < give_up) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        error = attempt();
    }
    return error;
}

[[noreturn]] void explain(int error, const std::string& where) {
    switch (error) {
    case EPERM: fail(error, "an AF_XDP socket on " + where + " needs CAP_NET_RAW: run as root, or choose --net=kernel");
    case EAFNOSUPPORT: fail(error, "this kernel has no AF_XDP sockets (CONFIG_XDP_SOCKETS): choose --net=tap or kernel");
    case EBUSY: fail(error, "another AF_XDP socket holds " + where);
    case ENOBUFS: fail(error, "too little locked memory for the frames of " + where + ": raise `ulimit -l`, or run as root");
    case EINVAL: fail(error, "there is no " + where + ", or it is in use by another kind of socket");
    default: fail(error, "cannot open an AF_XDP socket on " + where);
    }
}

} // namespace

xdp_port::xdp_port(std::shared_ptr<xdp_device> device, const xdp_port_options& options)
    : device_(std::move(device)), frames_(frame_count_for(options), frame_size_for(device_->info().mtu)),
      first_frame_(&frames_.frame_at(0)), frame_shift_(static_cast<std::uint32_t>(std::countr_zero(frames_.frame_size()))),
      receive_frames_(std::bit_ceil(std::max(64u, options.receive_frames))),
      metadata_size_(options.transmit_checksum && device_->on_veth() ? sizeof(xdp_transmit_metadata) : 0),
      gather_kicks_(options.gather_kicks), checksums_(options.checksums) {
    if (options.queues.empty()) fail(EINVAL, "an xdp port needs at least one queue");
    if (frames_.count() < receive_frames_ * options.queues.size() + 256) {
        fail(EINVAL, "an xdp port needs frames to send with beside those it lends to the kernel: more frames, or fewer "
                     "receive_frames");
    }
    if (checksums_ == xdp_checksums::automatic) {
        checksums_ = device_->on_veth() ? xdp_checksums::accept_partial : xdp_checksums::verify;
    }
    pool_ = &frames_;
    mac_ = device_->info().mac;
    mtu_ = std::min(device_->info().mtu, frames_.frame_size() - kernel_headroom - ethernet_and_vlan);
    name_ = "xdp:" + device_->interface() + "/" + std::to_string(options.queues.front());
    capabilities_.receive_checksum = checksums_ != xdp_checksums::verify;
    const std::lock_guard one_at_a_time(device_->set_up_);
    for (const unsigned index : options.queues) add_queue(index);
    capabilities_.transmit_checksum = metadata_size_ != 0 && !queues_.front()->zero_copy();
    make_wake_fd();
}

/// What waits for more frames to share a call with is sent first: it may be the last that is said of a lease or a connection.
xdp_port::~xdp_port() {
    for (int tries = 0; tries < 16 && kicks_.pending() != 0; ++tries) kick(false);
}

void xdp_port::add_queue(unsigned index) {
    queues_.push_back(std::make_unique<xdp_queue>());
    xdp_queue& q = *queues_.back();
    xdp_queue& first = *queues_.front();
    q.index = index;
    const std::string where = "queue " + std::to_string(index) + " of '" + device_->interface() + "'";
    const auto need = [&](int error) {
        if (error != 0) explain(error, where);
    };
    if (index >= CW_MAX_QUEUES) fail(EINVAL, "there is no " + where);
    need(q.open());
    if (&q == &first) need(register_memory(q));
    need(q.make_rings({.receive = receive_frames_ * 2,
                       .transmit = &q == &first ? transmit_ring : 64,
                       .fill = receive_frames_ * 2,
                       .completion = transmit_ring}));
    const auto flags = static_cast<std::uint16_t>(XDP_USE_NEED_WAKEUP | (device_->generic() ? XDP_COPY : 0) |
                                                  (device_->pieces() ? XDP_USE_SG : 0));
    need(until_not_busy([&] { return q.bind(device_->info().index, flags, &q == &first ? nullptr : &first); }));
    const int fd = q.socket.get();
    const int budget = kernel_send_budget;
    ::setsockopt(fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &budget, sizeof budget); // Linux 6.17
    q.to_refill = receive_frames_;
    refill(q);
    const __u32 key = index;
    if (::bpf_map_update_elem(bpf_map__fd(device_->program_->maps.sockets), &key, &fd, BPF_ANY) != 0) explain(errno, where);
}

/// With room for metadata in front of each frame, if it is wanted and the kernel knows it. 0, or an errno.
int xdp_port::register_memory(xdp_queue& q) noexcept {
    int error = q.register_memory(frames_, metadata_size_);
    if (error == EINVAL && metadata_size_ != 0) error = q.register_memory(frames_, metadata_size_ = 0);
    return error;
}

/// One descriptor to sleep on: the socket, or an epoll set of all of them.
void xdp_port::make_wake_fd() {
    if (queues_.size() == 1) {
        wake_ = queues_.front()->socket.get();
        return;
    }
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll_) fail(errno, "cannot make an epoll set");
    for (auto& q : queues_) {
        epoll_event event{};
        event.events = EPOLLIN;
        if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, q->socket.get(), &event) != 0) fail(errno, "cannot watch an AF_XDP socket");
    }
    wake_ = epoll_.get();
}

std::uint64_t xdp_port::kernel_drops() const noexcept {
    std::uint64_t drops = 0;
    for (const auto& q : queues_) {
        xdp_statistics counts{};
        socklen_t size = sizeof counts;
        if (::getsockopt(q->socket.get(), SOL_XDP, XDP_STATISTICS, &counts, &size) != 0) continue;
        drops += counts.rx_dropped + counts.rx_ring_full + counts.rx_fill_ring_empty_descs;
    }
    return drops;
}

} // namespace corewire
