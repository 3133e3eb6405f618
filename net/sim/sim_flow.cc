#include <corewire/net/sim/sim_flow.hh>

#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/net/socket/tcp_stream.hh>

#include <algorithm>
#include <cstring>

namespace corewire {

struct sim_flow::state {
    std::uint64_t delivered = 0;
    const tcp_stream* sender = nullptr; ///< in the frame of send()
    bool ended = false;
    bool failed = false;
};

namespace {

/// Forgets the stream when its frame goes, however that goes.
template <typename State>
struct shown_while_it_lives {
    State& s;
    shown_while_it_lives(State& in, const tcp_stream& stream) noexcept : s(in) { s.sender = &stream; }
    ~shown_while_it_lives() { s.sender = nullptr; }
};

} // namespace

sim_flow::sim_flow(sim_host& from, sim_host& to, std::uint16_t port, const sim_flow_options& options)
    : state_(std::make_shared<state>()) {
    to.spawn([s = state_, port, options] { return receive(s, port, options); });
    from.spawn([s = state_, at = socket_address(to.address(), port), options] { return send(s, at, options); });
}

std::uint64_t sim_flow::delivered() const noexcept { return state_->delivered; }
const tcp_stream* sim_flow::sender() const noexcept { return state_->sender; }
bool sim_flow::ended() const noexcept { return state_->ended; }
bool sim_flow::failed() const noexcept { return state_->failed; }

task<> sim_flow::send(std::shared_ptr<state> s, socket_address to, sim_flow_options options) {
    try {
        tcp_stream stream = co_await tcp_stream::connect(to, options.stream);
        const shown_while_it_lives shown(*s, stream);
        const std::uint32_t piece = stream.info().send_segment;
        buffer data = stream.allocate(piece);
        std::memset(data.append(piece), 0x5a, piece);
        for (std::uint64_t left = options.bytes; left != 0;) {
            const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(left, piece));
            buffer next = data.share(0, size);
            co_await stream.write(std::move(next));
            left -= size;
        }
        co_await stream.close();
    } catch (const std::system_error&) {
        s->failed = true;
    }
}

task<> sim_flow::receive(std::shared_ptr<state> s, std::uint16_t port, sim_flow_options options) {
    try {
        auto listener = tcp_listener::bind({ipv4::any(), port}, {.stream = options.stream});
        tcp_stream peer = co_await listener.accept();
        listener.close();
        while (const buffer data = co_await peer.read()) s->delivered += data.size();
        s->ended = true;
        co_await peer.close();
    } catch (const std::system_error&) {
        s->failed = true;
    }
}

} // namespace corewire
