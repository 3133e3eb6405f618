// --net=kernel: the socket API over the kernel's own sockets, by io_uring (Linux 6.0), or by epoll where that is forbidden or older. Needs
// no privileges and no NIC, and is the honest baseline of every benchmark.
//
// One a shard, over its reactor's io_uring, of which it must be the shorter-lived; over epoll in a ring of its own where that lends no
// buffers to receives, so that files keep theirs. Every shard that binds an address has
// its own accept queue (SO_REUSEPORT), filled by the kernel's hash. Outlives its sockets and every buffer they gave.
#pragma once

#include <corewire/net/frame/frame_pool.hh>
#include <corewire/net/kernel/kernel_object.hh>
#include <corewire/net/kernel/kernel_statistics.hh>
#include <corewire/net/kernel/receive_buffers.hh>
#include <corewire/net/socket/provider.hh>

#include <memory>
#include <string>
#include <vector>

namespace corewire {

struct kernel_provider_options {
    std::uint32_t stream_buffer_size = 16384; ///< bytes a read returns at most
    std::uint32_t stream_buffers = 128;       ///< at the start
    std::uint32_t stream_buffers_limit = 4096;
    std::uint32_t datagram_buffers = 64;      ///< of 64 KiB each; made when the first datagram socket is bound
    std::uint32_t datagram_buffers_limit = 1024;
    std::uint32_t allocated_buffers = 256;    ///< of 16 KiB: what allocate() hands out; made when it is first called
    congestion_algorithm congestion = congestion_algorithm::standard; ///< of sockets that do not choose; `standard`: the kernel's choice
};

class kernel_connection;
class queued_sender;

class kernel_provider final : public socket_provider, private poller {
public:
    /// Throws std::system_error when memory or descriptors are short.
    explicit kernel_provider(reactor& loop, const kernel_provider_options& options = {});
    /// Waits until the kernel has nothing of ours. The sockets must be gone.
    ~kernel_provider() override;

    std::unique_ptr<listener_backend> listen(const socket_address& at, const listen_options& options) override;
    std::unique_ptr<tcp_backend> connect(const socket_address& to, const socket_address& local,
                                         const tcp_options_set& options) override;
    bool start_connected(tcp_backend& backend, plain_operation& op) noexcept override;
    void cancel_connected(tcp_backend& backend, socket_operation& op) noexcept override;
    std::unique_ptr<udp_backend> bind_udp(const socket_address& at, const udp_options& options) override;
    std::optional<chosen_source> source_for(const net_address& destination) const override;
    std::string describe() const override {
        return ring_.by_epoll().empty() ? "kernel sockets over io_uring" : "kernel sockets over epoll";
    }
    void end_waits(ended_waits which) noexcept override {
        objects_.for_each([which](kernel_object& object) { object.end_waits(which); });
    }

    /// A stream has bytes that write() took and the kernel has not.
    bool lingers() const noexcept;

    /// What `standard` comes to.
    congestion_algorithm chosen(congestion_algorithm how) const noexcept {
        return how == congestion_algorithm::standard ? options_.congestion : how;
    }

    // ---- for the objects it keeps ----
    reactor& loop() noexcept { return loop_; }
    uring& ring() noexcept { return ring_; }
    receive_buffers& stream_buffers() noexcept { return stream_buffers_; }
    const receive_buffers& stream_buffers() const noexcept { return stream_buffers_; }
    receive_buffers& datagram_buffers();
    /// An empty buffer with room for `size` bytes; empty when all are in use or none is that large.
    buffer allocate(std::uint32_t size);
    /// Of the bytes that have come to `fd`, at most so many; empty: there are none, or no memory.
    buffer receive_now(int fd, std::uint32_t most) noexcept;
    /// This connection has something to send at the end of the turn.
    void queue(kernel_connection& c) noexcept;
    void keep(kernel_object& object) noexcept { objects_.push_back(object); }
    /// All connections, in no order; each has its place here from its first to its last moment.
    const std::vector<kernel_connection*>& connections() const noexcept { return connections_; }
    void enlist(kernel_connection& c);
    void delist(kernel_connection& c) noexcept;
    kernel_statistics& statistics() noexcept { return statistics_; }
    const kernel_statistics& statistics() const noexcept { return statistics_; }
    /// Open sockets, and closed ones that the kernel is not done with.
    std::size_t objects() const noexcept { return objects_.count(); }

private:
    static constexpr std::uint16_t stream_group = 1;
    static constexpr std::uint16_t datagram_group = 2;
    static constexpr std::uint32_t allocated_frame_size = 16384 + frame_headroom;

    bool poll(time_point now) override { return static_cast<void>(now), false; }
    bool flush(time_point now) override;

    reactor& loop_;
    kernel_provider_options options_;
    std::unique_ptr<uring> instead_; ///< of the reactor's; null: that one
    uring& ring_;
    receive_buffers stream_buffers_;
    std::unique_ptr<receive_buffers> datagram_buffers_;
    std::unique_ptr<frame_pool> pool_;
    kernel_statistics statistics_;
    std::vector<kernel_connection*> connections_;
    intrusive_list<kernel_object> objects_;
    intrusive_list<queued_sender> queued_;
};

} // namespace corewire
