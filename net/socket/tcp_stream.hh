// tcp_stream: a connected TCP socket, for coroutines. Start reading here.
//
//     cw::task<> serve(cw::tcp_stream peer) {
//         while (auto data = co_await peer.read())      // a view of the NIC's own buffer; empty at end of stream
//             co_await peer.write(std::move(data));     // forwarded without a copy
//     }
//
// Belongs to the shard that made it. Move-only; destroying it closes the connection gracefully. Awaiting throws
// std::system_error with the code a POSIX programmer expects: ECONNRESET, ETIMEDOUT, EPIPE (write after shutdown),
// EBADF (after close), ECANCELED (stop token), ETIMEDOUT (deadline too).
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/net/socket/tcp_information.hh>
#include <corewire/reactor/task/task.hh>

#include <memory>
#include <span>

namespace corewire {

class tcp_stream {
public:
    class read_awaiter;
    class bounded_read_awaiter;
    class write_awaiter;
    class bounded_write_awaiter;

    tcp_stream() = default;
    explicit tcp_stream(std::unique_ptr<tcp_backend> backend) noexcept : backend_(std::move(backend)) {}
    tcp_stream(tcp_stream&&) noexcept = default;
    tcp_stream& operator=(tcp_stream&&) noexcept = default;

    /// Opens a connection. Throws ECONNREFUSED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EADDRNOTAVAIL (no port left).
    static task<tcp_stream> connect(socket_address to, tcp_options_set options = {}, wait_limits limits = {},
                                    socket_address local = {ipv4::any(), 0});

    // read() and write() by themselves wait as long as it takes; with limits they end early with ETIMEDOUT or ECANCELED.

    /// The next bytes in order, as soon as there are any: a counted view, zero-copy but for small ones that waited. Empty at the end.
    read_awaiter read() noexcept;
    bounded_read_awaiter read(wait_limits limits) noexcept;
    /// Fills `into` to the last byte. Returns how many were read: fewer than into.size() only at end of stream.
    task<std::size_t> read_exactly(mutable_byte_span into, wait_limits limits = {});
    /// Queues owned bytes without a copy; waits while the send buffer is full.
    write_awaiter write(buffer&& data) noexcept;
    bounded_write_awaiter write(buffer&& data, wait_limits limits) noexcept;
    /// Queues a copy of borrowed bytes, which must live until the await returns.
    write_awaiter write(byte_span data) noexcept;
    bounded_write_awaiter write(byte_span data, wait_limits limits) noexcept;
    write_awaiter write(std::string_view text) noexcept;
    bounded_write_awaiter write(std::string_view text, wait_limits limits) noexcept;
    /// Gather write: the pieces in order. Owned pieces are not copied.
    task<> write(std::span<buffer> pieces, wait_limits limits = {});
    task<> write(std::span<const byte_span> pieces, wait_limits limits = {});

    /// Half-close: FIN after what was written. Reading goes on until the peer closes too.
    void shutdown();
    /// shutdown() and wait until the peer has acknowledged everything; then the stream is closed. Throws where the connection is dead, or
    /// was already: not all may have arrived.
    task<> close(wait_limits limits = {});
    /// RST. Whatever waits fails with ECONNABORTED.
    void abort() noexcept;

    /// Waits until read() (write() of one byte) would not wait.
    task<> wait_readable(wait_limits limits = {});
    task<> wait_writable(wait_limits limits = {});
    bool readable() const noexcept { return backend_ && backend_->readable(); }
    bool writable() const noexcept { return backend_ && backend_->writable(); }

    /// An empty buffer with room for `size` bytes (at most one frame's) in memory the port can send from.
    buffer allocate(std::uint32_t size) { return open().allocate(size); }
    socket_address local_address() const { return open().local_address(); }
    socket_address peer_address() const { return open().peer_address(); }
    void set_options(const tcp_options_set& options) { open().set_options(options.with_least_buffers()); }
    tcp_options_set options() const { return open().options(); }
    void set_no_delay(bool on);
    /// Congestion control from now on; the window stays as it is. DCTCP brings ECN only when it was chosen before the handshake
    /// (tcp_options_set::congestion). Throws ENOENT where there is no such algorithm (the kernel: no such module), EPERM where it
    /// is for root alone (sysctl net.ipv4.tcp_allowed_congestion_control).
    void set_congestion(congestion_algorithm how);
    /// "cubic", "newreno", "dctcp", "bbr"; of the kernel's sockets also others that it has.
    std::string congestion() const { return open().congestion(); }
    /// What Linux's TCP_INFO gives, in named fields (tcp_information.hh).
    tcp_information info() const;
    explicit operator bool() const noexcept { return backend_ != nullptr; }

private:
    /// The backend; throws EBADF when the stream is closed.
    tcp_backend& open() const;
    std::unique_ptr<tcp_backend> backend_;
};

} // namespace corewire

#include <corewire/net/socket/tcp_stream_awaiters.hh>
