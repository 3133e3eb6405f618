// ud_socket: datagrams of up to the path's MTU between UD queue pairs, for coroutines: unconnected, unordered, and lost when the
// receiver has no buffer. Belongs to the shard that made it; move-only. Addresses (ud_address) are told by other means.
// RoCE only. Errors of co_await: EMSGSIZE (longer than the path's MTU), ENODEV (the device has gone), EIO (its queue pair fails again
// and again, or its completion queue has failed), EBADF (no socket), ETIMEDOUT and ECANCELED (the wait's limits; the socket's end).
#pragma once

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/channel/ud_endpoint.hh>

namespace corewire::rdma {

/// Zero-copy: its buffer goes back to the device when it is destroyed. It may outlive its socket, and not the context.
class ud_datagram {
public:
    ud_datagram() noexcept = default;
    /// Takes over a reference to the endpoint.
    ud_datagram(ud_endpoint& in, const ud_endpoint::arrival& what) noexcept : endpoint_(&in), what_(what) {}
    ud_datagram(ud_datagram&& other) noexcept : endpoint_(std::exchange(other.endpoint_, nullptr)), what_(other.what_) {}
    ud_datagram& operator=(ud_datagram&& other) noexcept {
        std::swap(endpoint_, other.endpoint_);
        std::swap(what_, other.what_);
        return *this;
    }
    ~ud_datagram() {
        if (endpoint_ == nullptr) return;
        endpoint_->give_back(what_.buffer);
        endpoint_->release();
    }
    byte_span bytes() const noexcept { return endpoint_->bytes_of(what_); }
    /// Where an answer goes.
    ud_address from() const noexcept { return {what_.from, what_.from_pair}; }

private:
    ud_endpoint* endpoint_ = nullptr;
    ud_endpoint::arrival what_{};
};

/// Waits for room in the send queue, and for the way to a new destination.
class ud_operation final : public bounded_waiter {
public:
    ud_operation(ud_endpoint* on, byte_span data, const ud_address& where, const wait_limits& limits) noexcept
        : bounded_waiter(limits), bytes(data), to(where), endpoint_(on) {}
    bool await_ready() noexcept {
        if (endpoint_ != nullptr) return endpoint_->start(*this);
        error_ = std::errc::bad_file_descriptor;
        return true;
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
        if (!arm_limits()) return unlink(), false;
        handle = h;
        return true;
    }
    std::error_code failure_code() const noexcept { return std::make_error_code(failure() != std::errc{} ? failure() : error_); }
    void await_resume() const {
        throw_if_failed("rdma send_to");
        if (why_) std::rethrow_exception(why_);
        if (error_ != std::errc{}) throw std::system_error(std::make_error_code(error_), "rdma send_to");
    }
    /// For the endpoint.
    void finish(std::errc why) noexcept {
        error_ = why;
        if (!handle) return;
        disarm_limits();
        reactor::make_ready(*this);
    }
    /// With a sentence.
    void fail(const std::exception_ptr& why) noexcept {
        why_ = why;
        try {
            std::rethrow_exception(why);
        } catch (const std::system_error& e) {
            finish(static_cast<std::errc>(e.code().value()));
        } catch (...) {
            finish(std::errc::not_enough_memory);
        }
    }
    const byte_span bytes;
    const ud_address to;

private:
    ud_endpoint* endpoint_;
    std::errc error_{};
    std::exception_ptr why_;
};

class ud_receive_awaiter final : public bounded_waiter {
public:
    ud_receive_awaiter(ud_endpoint* on, const wait_limits& limits) noexcept : bounded_waiter(limits), endpoint_(on) {}
    ~ud_receive_awaiter() {
        if (!got_) return;
        endpoint_->put_back(*got_); // woken, and destroyed before it ran: the datagram goes to the next one
        endpoint_->release();
    }
    bool await_ready() noexcept {
        if (endpoint_ == nullptr) {
            why_ = std::errc::bad_file_descriptor;
            return true;
        }
        if (!endpoint_->receivers.empty()) return false;
        if (const auto next = endpoint_->take_arrival()) take(*next);
        else why_ = endpoint_->failed();
        return got_ || why_ != std::errc{};
    }
    bool await_suspend(std::coroutine_handle<> h) noexcept {
        if (!arm_limits()) return false;
        handle = h;
        endpoint_->receivers.push_back(*this);
        return true;
    }
    std::error_code failure_code() const noexcept {
        return std::make_error_code(failure() != std::errc{} ? failure() : got_ ? std::errc{} : why_);
    }
    ud_datagram await_resume() {
        throw_if_failed("rdma receive_from");
        if (!got_) throw std::system_error(std::make_error_code(why_), "rdma receive_from");
        const ud_endpoint::arrival what = *got_;
        got_.reset();
        return {*endpoint_, what};
    }
    // For the endpoint.
    void give(const ud_endpoint::arrival& what) noexcept {
        take(what);
        disarm_limits();
        reactor::make_ready(*this);
    }
    void end(std::errc why) noexcept {
        why_ = why;
        disarm_limits();
        reactor::make_ready(*this);
    }

private:
    void take(const ud_endpoint::arrival& what) noexcept {
        got_ = what;
        endpoint_->hold();
    }
    ud_endpoint* endpoint_;
    std::optional<ud_endpoint::arrival> got_; ///< with a reference to the endpoint
    std::errc why_{};
};

class ud_socket {
public:
    /// On the device, and its port, that carries `ours`, an address of a network interface: IPv4's, or IPv6's that is not link-local.
    /// Throws std::system_error with a sentence: ENODEV if no device does, EOPNOTSUPP if it is InfiniBand's.
    static ud_socket bind(context& in, const ip_address& ours, ud_options options = {}) {
        const context::place at = in.place_of(ours);
        const net_address address = std::visit([](const auto& a) { return net_address(a); }, ours);
        return ud_socket(*new ud_endpoint(at.on, at.port, address, options));
    }
    ud_socket(ud_socket&& other) noexcept : endpoint_(std::exchange(other.endpoint_, nullptr)) {}
    ud_socket& operator=(ud_socket&& other) noexcept {
        std::swap(endpoint_, other.endpoint_);
        return *this;
    }
    ~ud_socket() {
        if (endpoint_ != nullptr) endpoint_->shut_down();
    }
    /// Copies, and returns when there is room, and, for a new destination, when the device has a way to it: up to a second where nobody
    /// answers for its GID, in which other sends go on. Who answers strangers one after the other gives a deadline, or each a task.
    /// Throws EMSGSIZE, and what resolving the address throws (with a sentence), for a second without asking again.
    ud_operation send_to(byte_span bytes, const ud_address& to, wait_limits limits = {}) noexcept {
        return {endpoint_, bytes, to, limits};
    }
    ud_receive_awaiter receive_from(wait_limits limits = {}) noexcept { return {endpoint_, limits}; }
    /// Receives what is sent to a multicast group as well (by others, and by this socket), until what this gives is destroyed, or this is.
    /// Of the family of the socket's address: 239.1.2.3, ff0e::1. Whoever knows the group may send to it: send_to(bytes,
    /// ud_address::of_group(group)). Throws std::system_error with a sentence.
    joined_group join(const net_address& group) { return join(ud_address::gid_of(group)); }
    joined_group join(const ibv_gid& group) { return open().join(group); }

    ud_address local_address() const { return open().address(); }
    std::uint32_t largest_datagram() const { return open().largest_datagram(); }
    const ud_statistics& statistics() const { return open().counts; }
    explicit operator bool() const noexcept { return endpoint_ != nullptr; }

private:
    ud_endpoint& open() const {
        if (endpoint_ == nullptr) throw std::system_error(EBADF, std::generic_category(), "rdma: this ud_socket has been moved from");
        return *endpoint_;
    }
    /// Takes over the first reference to the endpoint.
    explicit ud_socket(ud_endpoint& e) noexcept : endpoint_(&e) {}
    ud_endpoint* endpoint_;
};

} // namespace corewire::rdma
