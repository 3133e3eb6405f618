// listener::over(): one task accepts streams, and one for each of them makes a channel of it.
#include <corewire/rdma/channel/listener_core.hh>

#include <corewire/reactor/task/task_group.hh>

#include <algorithm>
#include <deque>
#include <exception>
#include <new>
#include <utility>

namespace corewire::rdma {

namespace {

class stream_listener final : public listener::core {
public:
    stream_listener(context& in, tcp_listener streams, over_options options)
        : context_(in), options_(std::move(options)), streams_(std::move(streams)), port_(streams_.local_address().port) {
        making_.spawn(accept_streams());
    }
    stream_listener(const stream_listener&) = delete;
    ~stream_listener() override { making_.destroy_all(); }

    std::optional<rc_channel> take() override {
        reap();
        if (!made_.empty()) { // unless it has broken the rules meanwhile
            const_cast<rc_connection&>(made_.front().connection()).catch_up();
            reap();
        }
        if (made_.empty()) {
            if (ended_ && under_way_ == 0) std::rethrow_exception(ended_);
            if (refused_) {
                again_.set();
                std::rethrow_exception(std::exchange(refused_, nullptr));
            }
            return std::nullopt;
        }
        rc_channel oldest = std::move(made_.front());
        made_.pop_front();
        return oldest;
    }
    std::uint16_t port() const noexcept override { return port_; }

private:
    task<> accept_streams() {
        while (!ended_) {
            try {
                tcp_stream next = co_await streams_.accept();
                making_.spawn(make(std::move(next)));
                continue;
            } catch (const std::system_error& e) {
                const bool end = e.code() == std::errc::operation_canceled || e.code() == std::errc::bad_file_descriptor;
                (end ? ended_ : refused_) = std::current_exception();
            } catch (const std::bad_alloc&) {
                refused_ = std::current_exception();
            }
            changed.set();
            if (!refused_) continue;
            again_.reset(); // out of descriptors or memory: not again before somebody has heard so
            co_await again_.wait();
        }
    }
    task<> make(tcp_stream stream) {
        reap();
        if (under_way_ + made_.size() >= options_.channel.accept_backlog) {
            ++counts.rejected_full;
            if (refusing_ == options_.channel.accept_backlog) co_return;
            const counted one(refusing_);
            co_await refuse_over(context_, std::move(stream), "its backlog is full", options_.within);
            co_return;
        }
        const counted one(under_way_);
        try {
            rc_channel channel = co_await accept_over(context_, std::move(stream), options_);
            made_.push_back(std::move(channel));
        } catch (const std::system_error& e) {
            const auto& why = e.code();
            const bool left = why == std::errc::connection_aborted || why == std::errc::connection_reset || why == std::errc::timed_out ||
                              why == std::errc::connection_refused;
            ++(left ? counts.died_early : why == std::errc::protocol_error ? counts.rejected_foreign : counts.rejected_for_want);
        } catch (const std::bad_alloc&) {
            ++counts.rejected_for_want;
        }
        changed.set();
    }
    void reap() noexcept {
        const auto broken = [](const rc_channel& c) { return c.connection().phase() == rc_connection::state::broken; };
        counts.died_early += std::erase_if(made_, broken);
    }
    /// One more, for as long as it stands.
    struct counted {
        explicit counted(std::size_t& n) noexcept : number(n) { ++number; }
        counted(const counted&) = delete;
        ~counted() { --number; }
        std::size_t& number;
    };

    context& context_;
    over_options options_;
    tcp_listener streams_;
    std::uint16_t port_;
    std::exception_ptr ended_;
    std::exception_ptr refused_; ///< told once; the listener lives on
    event again_;
    std::deque<rc_channel> made_;
    std::size_t under_way_ = 0, refusing_ = 0;
    task_group making_{"rdma listener over streams"}; ///< before what its tasks use
};

} // namespace

std::unique_ptr<listener::core> listen_over(context& in, tcp_listener streams, over_options options) {
    return std::make_unique<stream_listener>(in, std::move(streams), std::move(options));
}

} // namespace corewire::rdma
