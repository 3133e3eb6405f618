// The socket API's backends over our own stack: thin handles on the stack's connections and endpoints.
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/net/socket/tcp_information.hh>
#include <corewire/net/stack/tcp_connection.hh>

namespace corewire {

/// A user's hold on a tcp_connection. Destroying it lets the connection close by itself.
class stack_tcp_socket final : public tcp_backend {
public:
    explicit stack_tcp_socket(tcp_connection& c) noexcept : connection_(c) { c.adopt(); }
    ~stack_tcp_socket() override;

    bool start_read(read_operation& op) noexcept override { return connection_.start_read(op); }
    bool start_write(write_operation& op) noexcept override { return connection_.start_write(op); }
    void cancel(socket_operation& op) noexcept override { connection_.cancel(op); }
    std::errc shutdown() noexcept override { return connection_.shutdown(); }
    bool start_drain(plain_operation& op) noexcept override { return connection_.start_drain(op); }
    void abort() noexcept override { connection_.abort(); }
    socket_address local_address() const override {
        return {connection_.name().local, connection_.key.local_port};
    }
    socket_address peer_address() const override {
        return {connection_.name().remote, connection_.key.remote_port};
    }
    void set_options(const tcp_options_set& options) override;
    tcp_options_set options() const override;
    std::errc set_congestion(congestion_algorithm how) override;
    std::string congestion() const override;
    tcp_information info() const override;
    bool readable() const noexcept override;
    bool writable() const noexcept override;
    bool start_wait_readable(plain_operation& op) noexcept override { return connection_.start_wait_readable(op); }
    bool start_wait_writable(plain_operation& op) noexcept override { return connection_.start_wait_writable(op); }
    buffer allocate(std::uint32_t size) override { return connection_.allocate(size); }

    tcp_connection& connection() noexcept { return connection_; }

private:
    tcp_connection& connection_;
};

} // namespace corewire
