#include <corewire/net/socket/tcp_stream.hh>

#include <corewire/net/socket/operation_awaiter.hh>

#include <cstring>
#include <stdexcept>

namespace corewire {

socket_provider& socket_provider::current() {
    void* provider = reactor::current().attached(reactor::attachment::network);
    if (provider == nullptr) {
        throw std::logic_error("this shard has no network: start it through corewire::app, or attach a socket_provider");
    }
    return *static_cast<socket_provider*>(provider);
}

tcp_backend& tcp_stream::open() const {
    if (backend_ == nullptr) {
        throw std::system_error(std::make_error_code(std::errc::bad_file_descriptor), "the stream is closed");
    }
    return *backend_;
}

namespace {

/// Ports that may turn out to be somebody's after they were chosen, of one connection.
constexpr unsigned max_other_ports = 16;

/// A backend whose handshake is waited for: starting and leaving go to the provider.
struct handshake {
    socket_provider& provider;
    tcp_backend& backend;
    bool start(plain_operation& op) noexcept { return provider.start_connected(backend, op); }
    void cancel(socket_operation& op) noexcept { provider.cancel_connected(backend, op); }
};

} // namespace

task<tcp_stream> tcp_stream::connect(socket_address to, tcp_options_set options, wait_limits limits,
                                     socket_address local) {
    socket_provider& provider = socket_provider::current();
    options = options.with_least_buffers();
    for (unsigned others = 0;; ++others) {
        std::unique_ptr<tcp_backend> backend = provider.connect(to, local, options);
        try {
            handshake shaking{provider, *backend};
            operation_awaiter<handshake, &handshake::start> done{shaking, limits, "connect"};
            co_await done;
            co_return tcp_stream{std::move(backend)};
        } catch (const std::system_error& e) {
            backend->abort(); // nobody will use what may yet come of it
            if (local.port != 0 || e.code() != std::errc::address_in_use) throw;
            if (others == max_other_ports)
                throw std::system_error(std::make_error_code(std::errc::address_not_available),
                                        "connect: the host has given many local ports in a row to others");
        } catch (...) {
            backend->abort();
            throw;
        }
    }
}

task<std::size_t> tcp_stream::read_exactly(mutable_byte_span into, wait_limits limits) {
    std::size_t filled = 0;
    while (filled < into.size()) {
        const auto wanted = static_cast<std::uint32_t>(std::min<std::size_t>(into.size() - filled, UINT32_MAX));
        bounded_read_awaiter next{backend_.get(), limits};
        next.max_size = wanted; // what follows stays with the connection for the next read
        buffer piece = co_await next;
        if (!piece) break;
        std::memcpy(into.data() + filled, piece.data(), piece.size());
        filled += piece.size();
    }
    co_return filled;
}

task<> tcp_stream::write(std::span<buffer> pieces, wait_limits limits) {
    for (buffer& piece : pieces) {
        bounded_write_awaiter next{backend_.get(), std::move(piece), limits};
        co_await next;
    }
}

task<> tcp_stream::write(std::span<const byte_span> pieces, wait_limits limits) {
    for (const byte_span piece : pieces) {
        bounded_write_awaiter next{backend_.get(), piece, limits};
        co_await next;
    }
}

void tcp_stream::shutdown() {
    const std::errc why = open().shutdown();
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "shutdown");
}

task<> tcp_stream::close(wait_limits limits) {
    tcp_backend& backend = open();
    const std::errc why = backend.shutdown();
    if (why != std::errc{}) throw std::system_error(std::make_error_code(why), "close");
    operation_awaiter<tcp_backend, &tcp_backend::start_drain> drained{backend, limits, "close"};
    co_await drained;
    backend_.reset();
}

void tcp_stream::abort() noexcept {
    if (backend_ == nullptr) return;
    backend_->abort();
    // Waiting operations have been failed and are on the run queue; the backend itself is no longer needed.
    backend_.reset();
}

task<> tcp_stream::wait_readable(wait_limits limits) {
    operation_awaiter<tcp_backend, &tcp_backend::start_wait_readable> wait{open(), limits, "wait_readable"};
    co_await wait;
}

task<> tcp_stream::wait_writable(wait_limits limits) {
    operation_awaiter<tcp_backend, &tcp_backend::start_wait_writable> wait{open(), limits, "wait_writable"};
    co_await wait;
}

void tcp_stream::set_congestion(congestion_algorithm how) {
    const std::errc why = open().set_congestion(how);
    if (why != std::errc{})
        throw std::system_error(std::make_error_code(why), "congestion control " + std::string(name_of(how)));
}

tcp_information tcp_stream::info() const { return open().info(); }

void tcp_stream::set_no_delay(bool on) {
    tcp_options_set now = open().options();
    now.no_delay = on;
    open().set_options(now);
}

} // namespace corewire
