// A stream_socket that listens: what has come, what TCP_DEFER_ACCEPT holds back, and whose settings a connection has that is accepted.
#include <corewire/net/posix/stream_socket.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>

namespace corewire::posix {

namespace {

/// Never left waiting.
struct accept_now final : accept_operation {};

/// A reset has ended it, and it has brought nothing.
bool died_unheard(const tcp::tcb& t) { return t.state() == tcp::tcp_state::closed && t.readable() == 0 && !t.at_end(); }

} // namespace

outcome stream_socket::listen(int backlog) {
    if (connection_ != nullptr) return -EINVAL;
    const unsigned limit = settings_.ready_limit(backlog);
    if (listener_ != nullptr) {
        listener_->set_backlog(limit);
        return 0;
    }
    if (!is_bound_) {
        if (const outcome r = bind(bound_); r < 0) return r;
    }
    try {
        listener_ = std::make_unique<tcp_listen_socket>(
            stack_.tcp(), bound_, listen_options{.backlog = limit, .stream = settings_.for_backend(), .ipv6_only = settings_.ipv6_only});
    } catch (const std::system_error& e) {
        return -e.code().value();
    }
    settings_.interactive = false; // inet_csk_delack_init()
    set_up_listener();
    if (own_keys_) listener_->set_fast_open_keys(*own_keys_);
    return 0;
}

void stream_socket::set_up_listener() {
    apply_settings();
    using enum tcp_listen_socket::cookie_use;
    listener_->set_cookies(settings_.syn_cookies == 0 ? off : settings_.syn_cookies == 1 ? when_full : always);
    listener_->limit_half_open(settings_.most_half_open);
    listener_->refuse_overflow(settings_.refuses_overflow);
    listener_->reflect_service(settings_.reflects_service);
    listener_->set_fast_open(settings_.early_limit(listener_->options().backlog), settings_.fast_open_without_cookie);
}

void stream_socket::follow_host(const host_settings& host, tcp_tuning base) {
    static_cast<host_settings&>(settings_) = host;
    base_ = std::move(base);
    set_up_listener();
}

// ---- what the connections inherit ----

/// Before an option of the listener changes: what has arrived is as the listener was.
void stream_socket::keep_inheritance() {
    park_arrivals();
    static_cast<void>(inheritance_of_next()); // forgets what is nobody's any more
    const std::uint64_t arrived = listener_->arrivals(), known = inheritances_.empty() ? 0 : inheritances_.back().arrivals;
    const bool new_ones = listener_->ready() != 0 && arrived != known;
    if (!new_ones && parked_.empty()) return;
    const auto now = std::make_shared<const inheritance>(settings_, repair_, kept_);
    for (parked& p : parked_)
        if (p.from == nullptr && may_be_accepted(p)) p.from = now;
    if (new_ones) inheritances_.push_back({arrived, now});
}

/// Of the first that waits in the listener; null: the listener as it is.
std::shared_ptr<const stream_socket::inheritance> stream_socket::inheritance_of_next() const {
    const std::uint64_t gone = listener_->arrivals() - listener_->ready();
    while (!inheritances_.empty() && inheritances_.front().arrivals <= gone) inheritances_.pop_front();
    return inheritances_.empty() ? nullptr : inheritances_.front().what;
}

void stream_socket::make_accepted(std::unique_ptr<stream_socket>& accepted, const std::shared_ptr<const inheritance>& from,
                                  std::unique_ptr<stack_tcp_socket> connection) const {
    const inheritance now = from == nullptr ? inheritance{settings_, repair_, kept_} : *from;
    accepted.reset(new stream_socket(stack_, *this, now, std::move(connection)));
}

// ---- accept(2) ----

bool stream_socket::parks() const { return settings_.defer_accept != 0 && listener_->deferral() == 0; }

bool stream_socket::may_be_accepted(const parked& p) const {
    if (p.from != nullptr) return true;
    const tcp::tcb& t = p.connection->connection().tcb;
    return t.readable() != 0 || tcp::at_or_after_fin(t.state()) || t.state() == tcp::tcp_state::closed || stack_.tcp().now() >= p.until;
}

void stream_socket::park_arrivals() const {
    if (!parks()) return;
    const time_point until = stack_.tcp().now() + std::chrono::seconds{settings_.defer_accept};
    while (parked_.size() < listener_->options().backlog && listener_->ready() != 0) {
        accept_now op;
        std::shared_ptr<const inheritance> from = inheritance_of_next();
        if (from != nullptr && from->settings.defer_accept != 0) from = nullptr; // it has not been made yet
        static_cast<void>(listener_->start_accept(op));                          // one is ready
        if (op.error != std::errc{}) return;
        parked_.push_back({std::unique_ptr<stack_tcp_socket>(static_cast<stack_tcp_socket*>(op.accepted.release())), until, from});
    }
    // Linux has kept but their requests: what resets those nobody hears of.
    if (!settings_.like_freebsd) std::erase_if(parked_, [](const parked& p) { return died_unheard(p.connection->connection().tcb); });
    time_point next = never;
    for (const parked& p : parked_)
        if (!may_be_accepted(p)) next = std::min(next, p.until);
    if (next != never) reactor::current().timers().arm(parking_ends_, next);
}

std::size_t stream_socket::acceptable() const {
    park_arrivals();
    return static_cast<std::size_t>(std::count_if(parked_.begin(), parked_.end(), [&](const parked& p) { return may_be_accepted(p); }));
}

void stream_socket::stop_listening() {
    if (listener_ != nullptr) past_edges_ += listener_->arrivals() + 1;
    listener_.reset();
    for (parked& p : parked_) p.connection->abort(); // as what was never accepted
    parked_.clear();
    inheritances_.clear();
}

outcome stream_socket::accept(std::unique_ptr<stream_socket>& accepted) {
    if (listener_ == nullptr) return -EINVAL;
    if (settings_.like_freebsd && has_error()) return failed(take_error()); // of a shutdown
    park_arrivals();
    const auto first = std::find_if(parked_.begin(), parked_.end(), [&](const parked& p) { return may_be_accepted(p); });
    if (first != parked_.end()) {
        make_accepted(accepted, first->from, std::move(first->connection));
        parked_.erase(first);
        return 0;
    }
    if (parks()) return -EAGAIN;
    accept_now op;
    const std::shared_ptr<const inheritance> from = inheritance_of_next();
    if (!listener_->start_accept(op)) {
        listener_->cancel(op);
        return -EAGAIN;
    }
    if (op.error != std::errc{}) return failed(op.error);
    auto made = std::unique_ptr<stack_tcp_socket>(static_cast<stack_tcp_socket*>(op.accepted.release()));
    if (settings_.like_freebsd && made->connection().tcb.state() == tcp::tcp_state::closed) return -ECONNABORTED;
    make_accepted(accepted, from, std::move(made));
    return 0;
}

} // namespace corewire::posix
