// A listening TCP socket of the stack: connections that finished their handshake and wait for accept(), and accepts that
// wait for connections. Bounded by its backlog, half-open and ready connections each; beyond it SYNs are answered with
// cookies, which keep no state.
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/net/stack/tcp_connection.hh>
#include <corewire/net/stack/tcp_tuning.hh>

namespace corewire {

class tcp_listen_socket final : public listener_backend {
public:
    tcp_listen_socket(tcp_layer& layer, const socket_address& at, const listen_options& options);
    ~tcp_listen_socket() override;

    bool start_accept(accept_operation& op) noexcept override;
    void cancel(socket_operation& op) noexcept override { op.unlink(); }
    socket_address local_address() const override { return at_; }
    void close() noexcept override;

    const listen_options& options() const noexcept { return options_; }
    /// What connections that are accepted from now on are told beyond options().
    void set_tuning(tcp_tuning tuning) { tuning_ = std::move(tuning); }
    const tcp_tuning& tuning() const noexcept { return tuning_; }
    /// How many may wait, half-open and ready each, from now on.
    void set_backlog(unsigned backlog) noexcept { options_.backlog = backlog; }
    bool room_for_half_open() const noexcept { return half_open_ < options_.backlog; }
    bool room_for_ready() const noexcept { return ready_count_ < options_.backlog; }
    void count_half_open(int change) noexcept { half_open_ += static_cast<unsigned>(change); }
    /// A connection of ours is established: hands it to a waiting accept, or queues it. False when the queue is full.
    bool on_established(tcp_connection& c) noexcept;
    /// A ready connection died before it was accepted.
    void forget(tcp_connection& c) noexcept;
    std::size_t ready() const noexcept { return ready_count_; }
    /// Connections that have come since it listens.
    std::uint64_t arrivals() const noexcept { return arrivals_; }
    unsigned half_open() const noexcept { return half_open_; }

private:
    void give(accept_operation& op, tcp_connection& c) noexcept;
    tcp_layer* layer_; ///< null once closed
    socket_address at_;
    listen_options options_;
    tcp_tuning tuning_;
    unsigned half_open_ = 0;
    std::size_t ready_count_ = 0;
    std::uint64_t arrivals_ = 0;
    intrusive_list<accept_hook> ready_;
    intrusive_list<waiter> waiting_;
};

} // namespace corewire
