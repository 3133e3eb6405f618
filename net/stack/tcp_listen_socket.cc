#include <corewire/net/stack/tcp_listen_socket.hh>

#include <corewire/net/stack/stack_sockets.hh>
#include <corewire/net/stack/tcp_layer.hh>

namespace corewire {

tcp_listen_socket::tcp_listen_socket(tcp_layer& layer, const socket_address& at, const listen_options& options)
    : layer_(&layer), at_(at), options_(options) {
    layer.add_listener(*this);
}

tcp_listen_socket::~tcp_listen_socket() { close(); }

socket_address tcp_listen_socket::local_address() const {
    const bool any = at_.is_v4() && at_.net().is_any();
    return any && layer_ != nullptr ? socket_address(layer_->own_address(), at_.port) : at_;
}

bool tcp_listen_socket::start_accept(accept_operation& op) noexcept {
    if (layer_ == nullptr) {
        op.error = std::errc::operation_canceled;
        return true;
    }
    if (ready_.empty()) {
        waiting_.push_back(op);
        return false;
    }
    tcp_connection& c = static_cast<tcp_connection&>(ready_.pop_front());
    --ready_count_;
    give(op, c);
    return true;
}

void tcp_listen_socket::give(accept_operation& op, tcp_connection& c) noexcept {
    c.listener_ = nullptr;
    c.tcb.accept();
    op.accepted = std::make_unique<stack_tcp_socket>(c);
}

bool tcp_listen_socket::on_established(tcp_connection& c) noexcept {
    // Each of the half-open ones has been promised a place.
    if (waiting_.empty() && ready_count_ >= 2 * std::size_t{options_.backlog}) return false;
    ++arrivals_;
    if (!waiting_.empty()) {
        auto& op = static_cast<accept_operation&>(waiting_.pop_front());
        give(op, c);
        op.complete();
        return true;
    }
    ready_.push_back(c);
    ++ready_count_;
    return true;
}

bool tcp_listen_socket::room_for_early(time_point now) noexcept {
    std::erase_if(early_resets_, [&](time_point until) { return until <= now; });
    return early_ + early_resets_.size() < options_.fast_open;
}

void tcp_listen_socket::forget(tcp_connection& c) noexcept {
    auto& hook = static_cast<accept_hook&>(c);
    if (!hook.linked()) return;
    hook.unlink();
    --ready_count_;
}

std::size_t tcp_listen_socket::ready_and_over() noexcept {
    CW_ASSERT(ready_.count() == ready_count_, "a listener counts other connections than wait for accept()");
    std::size_t n = 0;
    ready_.for_each([&](accept_hook& each) { n += static_cast<tcp_connection&>(each).erased_; });
    return n;
}

void tcp_listen_socket::close() noexcept {
    if (layer_ == nullptr) return;
    tcp_layer& layer = *std::exchange(layer_, nullptr);
    layer.remove_listener(*this); // resets what was half-open or never accepted
    while (!ready_.empty()) { // what the peer has reset already: Linux's and FreeBSD's habit
        tcp_connection& c = static_cast<tcp_connection&>(ready_.pop_front());
        --ready_count_;
        c.listener_ = nullptr;
        layer.let_go(c);
    }
    while (!waiting_.empty()) {
        auto& op = static_cast<accept_operation&>(waiting_.pop_front());
        op.error = std::errc::operation_canceled;
        op.complete();
    }
}

} // namespace corewire
