// One TCP connection of the kernel's: receives by a multishot recv into provided buffers; a small owned buffer is sent at
// the end of the turn, together with those of other connections, anything else by send(2) at once; waits for POLLOUT when
// the kernel's buffer is full.
//
//     kernel --multishot recv--> received (a few pieces, bounded) --> reader
//     writer --one small buffer--> sending --end of turn--> kernel         writer --send(2)--> kernel
//
// Made by the provider (connect) or a listener (accept); a kernel_tcp_socket is the user's hold on it. Bounds: `unread_limit`
// pieces that nobody has read, then the recv is stopped and the kernel's window fills; one buffer in `sending_`, the rest
// of what is sent stands in the kernel's send buffer only; `linger` for what a closed stream has still to send.
#pragma once

#include <corewire/net/kernel/kernel_object.hh>
#include <corewire/net/kernel/receive_buffers.hh>
#include <corewire/net/kernel/system_address.hh>
#include <corewire/net/socket/provider.hh>
#include <corewire/net/socket/tcp_information.hh>
#include <corewire/net/tcp/lifecycle.hh>
#include <corewire/reactor/loop/timer.hh>

#include <sys/types.h>

namespace corewire {

class kernel_provider;

/// Stands on the provider's list of those who have something to send at the end of the turn.
class queued_sender : public list_hook {};

class kernel_connection final : public kernel_object, public queued_sender, private starved_receiver {
public:
    static constexpr std::uint32_t unread_limit = 16;
    static constexpr std::uint32_t batched_send = 16384; ///< bytes; a larger buffer is sent at once
    static constexpr duration linger = std::chrono::seconds{60};

    /// Over a connected socket (accepted).
    kernel_connection(kernel_provider& provider, unique_fd fd, const tcp_options_set& options);
    /// Begins to connect.
    kernel_connection(kernel_provider& provider, unique_fd fd, const tcp_options_set& options, const socket_address& to);
    ~kernel_connection() override;

    // ---- what the socket calls; each start_*() returns true when the operation is finished ----
    bool start_read(read_operation& op) noexcept;
    bool start_write(write_operation& op) noexcept;
    bool start_connected(plain_operation& op) noexcept;
    bool start_drain(plain_operation& op) noexcept;
    bool start_wait_readable(plain_operation& op) noexcept;
    bool start_wait_writable(plain_operation& op) noexcept;
    void cancel(socket_operation& op) noexcept;
    std::errc shutdown() noexcept;
    void abort() noexcept;
    bool readable() const noexcept;
    bool writable() const noexcept;
    void set_options(const tcp_options_set& options) noexcept;
    const tcp_options_set& options() const noexcept { return options_; }
    std::errc set_congestion(congestion_algorithm how);
    std::string congestion() const { return congestion_of(fd_.get()); }
    tcp_information info() const noexcept;
    const socket_address& peer() const noexcept { return peer_; }
    kernel_provider& provider() noexcept { return provider_; }

    // ---- for those who count ----
    /// As far as is known without asking the kernel.
    tcp::tcp_state presumed_state() const noexcept;
    /// Bytes here: that nobody has read, and that the kernel has not taken.
    std::uint32_t unread() const noexcept { return front_.size() + received_.bytes(); }
    std::uint32_t unsent() const noexcept { return sending_.size(); }
    /// In the provider's list of connections.
    std::size_t place() const noexcept { return place_; }
    void place(std::size_t at) noexcept { place_ = at; }

    /// End of the turn: sends what is queued, by one system call of its own...
    void send_alone() noexcept;
    /// ... or by a request that is submitted together with others'.
    void send_by_ring() noexcept;
    void give_up() noexcept override;
    void end_waits(ended_waits which) noexcept override;

private:
    struct drain_timer : timer {
        kernel_connection* owner;
        explicit drain_timer(kernel_connection* c) noexcept;
    };
    void stop() noexcept override;
    bool in_kernel() const noexcept override;
    void cancel_all() noexcept;

    void on_connected(int result, unsigned flags) noexcept;
    void on_received(int result, unsigned flags) noexcept;
    void on_sent(int result, unsigned flags) noexcept;
    void on_writable(int result, unsigned flags) noexcept;

    bool quiet() const noexcept;
    bool wants_bytes() const noexcept;
    ssize_t count_sent(ssize_t result) noexcept;
    void receive(bool wait_first = false) noexcept;
    void receive_failed(int error) noexcept;
    buffer next_piece(std::uint32_t max_size) noexcept;
    void serve_readers() noexcept;
    bool push(write_operation& op) noexcept;
    bool send_queued() noexcept;
    void lose_queued() noexcept;
    void go_on_writing() noexcept;
    void send_fin() noexcept;
    void wait_for_room() noexcept;
    bool drained() noexcept;
    bool hurry() noexcept;
    bool shakes_hands() noexcept;
    void look_whether_drained() noexcept;

    void fail(std::errc why) noexcept;
    void count_failure(std::errc why) noexcept;
    void fail_all(std::errc why) noexcept;
    static void finish(plain_operation*& slot, std::errc why = {}) noexcept;

    kernel_provider& provider_;
    std::size_t place_ = 0;
    tcp_options_set options_;
    socket_address peer_;
    system_address connect_to_; ///< read by the kernel while it connects
    bool opened_here_ = false; ///< by connect(), not accepted
    bool connected_ = false;
    bool at_end_ = false;
    bool shut_down_ = false;
    bool fin_sent_ = false;
    bool given_up_ = false; ///< waits for room no longer
    bool lost_ = false;     ///< what write() took
    enum class opening : std::uint8_t { done, deferred, on_its_way } opening_ = opening::done; ///< Fast Open's SYN, as far as we know
    bool stopping_receive_ = false; ///< the recv has been asked to end
    bool waits_first_ = false;      ///< the recv was told to take a buffer only when there is something to receive
    std::errc error_{};             ///< what the connection died of; stays

    buffer front_; ///< what the last read left of a piece
    received_queue received_;
    buffer sending_; ///< taken from a writer, not yet taken by the kernel
    read_operation* reader_ = nullptr;
    write_operation* writer_ = nullptr;
    plain_operation* connecting_ = nullptr;
    plain_operation* draining_ = nullptr;
    plain_operation* readable_waiter_ = nullptr;
    plain_operation* writable_waiter_ = nullptr;
    drain_timer drain_timer_;
    duration drain_interval_{};

    bound_operation<kernel_connection, &kernel_connection::on_connected> connect_{*this};
    bound_operation<kernel_connection, &kernel_connection::on_received> receive_{*this};
    bound_operation<kernel_connection, &kernel_connection::on_sent> send_{*this};
    bound_operation<kernel_connection, &kernel_connection::on_writable> room_{*this};
};

/// A user's hold on a connection.
class kernel_tcp_socket final : public tcp_backend {
public:
    explicit kernel_tcp_socket(kernel_connection& c) noexcept : connection_(c) {}
    ~kernel_tcp_socket() override { connection_.let_go(); }

    bool start_read(read_operation& op) noexcept override { return connection_.start_read(op); }
    bool start_write(write_operation& op) noexcept override { return connection_.start_write(op); }
    void cancel(socket_operation& op) noexcept override { connection_.cancel(op); }
    std::errc shutdown() noexcept override { return connection_.shutdown(); }
    bool start_drain(plain_operation& op) noexcept override { return connection_.start_drain(op); }
    void abort() noexcept override { connection_.abort(); }
    socket_address local_address() const override;
    socket_address peer_address() const override { return connection_.peer(); }
    void set_options(const tcp_options_set& options) override { connection_.set_options(options); }
    tcp_options_set options() const override { return connection_.options(); }
    std::errc set_congestion(congestion_algorithm how) override { return connection_.set_congestion(how); }
    std::string congestion() const override { return connection_.congestion(); }
    tcp_information info() const override { return connection_.info(); }
    bool readable() const noexcept override { return connection_.readable(); }
    bool writable() const noexcept override { return connection_.writable(); }
    bool start_wait_readable(plain_operation& op) noexcept override { return connection_.start_wait_readable(op); }
    bool start_wait_writable(plain_operation& op) noexcept override { return connection_.start_wait_writable(op); }
    buffer allocate(std::uint32_t size) override;

    kernel_connection& connection() noexcept { return connection_; }

private:
    kernel_connection& connection_;
};

} // namespace corewire
