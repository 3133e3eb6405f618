#include <corewire/net/resolve/connect_by_name.hh>

#include <corewire/net/resolve/destination_order.hh>
#include <corewire/reactor/task/condition.hh>
#include <corewire/reactor/task/task_group.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include <algorithm>
#include <chrono>
#include <deque>
#include <exception>
#include <optional>

namespace corewire {

namespace {

constexpr duration least_delay = std::chrono::milliseconds{10}; // RFC 8305 5 (MUST NOT be less); and its maximum
constexpr duration most_delay = std::chrono::seconds{2};

/// One connect_by_name(): what has been found, what is being tried, and who was first.
class race {
public:
    race(resolver& names, std::string name, std::uint16_t port, connect_by_name_options options)
        : names_(names), name_(std::move(name)), port_(port), options_(std::move(options)) {}
    race(const race&) = delete;
    race& operator=(const race&) = delete;
    ~race() { tasks_.destroy_all(); }

    task<tcp_stream> run() {
        tasks_.spawn(look_up());
        while (!winner_) {
            const time_point now = reactor::current().now();
            if (next_ <= now || trying_ == 0) begin_next(now);
            if (winner_) break;
            if (!looking_up_ && trying_ == 0 && found_.empty()) std::rethrow_exception(why_);
            const wait_limits until_next{.deadline = found_.empty() ? never : next_};
            try {
                co_await changed_.wait(until_next);
            } catch (const std::system_error& e) {
                if (e.code() != std::errc::timed_out) throw;
            }
        }
        co_return std::move(*winner_);
    }

private:
    task<> look_up() {
        resolver::address_listener each = [this](std::vector<ip_address> found, bool more) { take(std::move(found), more); };
        try {
            co_await names_.resolve_each(name_, options_.family, std::move(each));
        } catch (const std::system_error&) {
            if (!why_) why_ = std::current_exception();
        } catch (...) { // the shard has no memory, or no network
            why_ = std::current_exception();
        }
        looking_up_ = false;
        changed_.notify_all();
    }

    void take(std::vector<ip_address> found, bool more) {
        const bool v4_is_early = more && !found.empty() && std::holds_alternative<ipv4>(found.front());
        if (!tried_any_) next_ = reactor::current().now() + (v4_is_early ? options_.resolution_delay : duration{0});
        try {
            merge(std::move(found));
        } catch (...) {
            why_ = std::current_exception();
        }
        changed_.notify_all();
    }

    /// RFC 8305 4: in the order of RFC 6724; then the families take turns, beginning with the one that comes first there.
    void merge(std::vector<ip_address> more) {
        more.insert(more.begin(), found_.begin(), found_.end());
        sort_destinations(more);
        std::deque<ip_address> v6, v4;
        for (const ip_address& a : more) (std::holds_alternative<ipv6>(a) ? v6 : v4).push_back(a);
        found_.clear();
        const bool six_first = tried_any_ ? !last_was_v6_ : !more.empty() && std::holds_alternative<ipv6>(more.front());
        for (bool six = six_first; !v6.empty() || !v4.empty(); six = !six) {
            std::deque<ip_address>& from = (six && !v6.empty()) || v4.empty() ? v6 : v4;
            found_.push_back(from.front());
            from.pop_front();
        }
    }

    void begin_next(time_point now) {
        if (found_.empty() || next_ > now) return;
        const ip_address to = found_.front();
        found_.pop_front();
        tried_any_ = true;
        last_was_v6_ = std::holds_alternative<ipv6>(to);
        begun_ = now;
        next_ = now + std::clamp<duration>(options_.attempt_delay, least_delay, most_delay);
        socket_address at;
        at.address = to;
        at.port = port_;
        tasks_.spawn(attempt(at));
    }

    task<> attempt(socket_address to) {
        // With a cookie a connection is there before its peer has said anything (RFC 7413 4.2.1), and would win whatever that does.
        const bool others = looking_up_ || !found_.empty() || trying_ != 0;
        tcp_options_set options = options_.stream;
        options.fast_open = options.fast_open && !others;
        ++trying_;
        try {
            tcp_stream made = co_await tcp_stream::connect(to, options);
            if (!winner_) winner_ = std::move(made);
        } catch (...) {
            why_ = std::current_exception();
            // The next at once, but no sooner behind the one before than RFC 8305 5 allows; where nothing was sent, there was none.
            const time_point now = reactor::current().now();
            next_ = now == begun_ ? now : std::min(next_, begun_ + least_delay);
        }
        --trying_;
        changed_.notify_all();
    }

    resolver& names_;
    std::string name_;
    std::uint16_t port_;
    connect_by_name_options options_;
    std::deque<ip_address> found_; ///< not tried yet, in order
    bool last_was_v6_ = false, tried_any_ = false, looking_up_ = true;
    unsigned trying_ = 0;
    time_point next_{};            ///< when the next attempt may begin
    time_point begun_{};           ///< when the last one did
    std::optional<tcp_stream> winner_;
    std::exception_ptr why_;
    condition changed_;
    task_group tasks_{"connect_by_name"};
};

task<tcp_stream> run_race(resolver& names, std::string name, std::uint16_t port, connect_by_name_options options) {
    race r(names, std::move(name), port, std::move(options));
    tcp_stream winner = co_await r.run();
    co_return winner;
}

} // namespace

task<tcp_stream> connect_by_name(resolver& names, std::string name, std::uint16_t port, connect_by_name_options options,
                                 wait_limits limits) {
    auto all = run_race(names, std::move(name), port, std::move(options));
    if (!limits.bounded()) co_return co_await std::move(all);
    co_return co_await with_deadline(std::move(all), limits);
}

} // namespace corewire
