#include <corewire/net/port/wrap/tracing_port.hh>

#include <corewire/net/port/wrap/packet_bytes.hh>
#include <corewire/net/port/wrap/packet_text.hh>

#include <cstdio>
#include <fmt/format.h>

namespace corewire {

tracing_port::tracing_port(std::unique_ptr<port> inner, clock_source& clock, sink to)
    : wrapped_port(std::move(inner)), clock_(clock), to_(std::move(to)) {
    if (to_) return;
    to_ = [](std::string_view line) { std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data()); };
}

std::size_t tracing_port::receive(std::span<packet> out) {
    const std::size_t n = wrapped_port::receive(out);
    for (const packet& p : out.first(n)) trace('<', describe_frame(packet_bytes(p).bytes()));
    return n;
}

/// The lines come before the packets go, since sending moves from them; those not taken are traced when they are offered
/// again, so one is offered at a time.
std::size_t tracing_port::transmit(std::span<packet> burst) {
    std::size_t n = 0;
    for (; n < burst.size(); ++n) {
        const std::string text = describe_frame(packet_bytes(burst[n]).bytes());
        if (wrapped_port::transmit(burst.subspan(n, 1)) == 0) break;
        trace('>', text);
    }
    return n;
}

void tracing_port::trace(char direction, std::string_view text) {
    const std::int64_t now = to_ns(clock_.now());
    to_(fmt::format("{}.{:09} {} {}", now / 1'000'000'000, now % 1'000'000'000, direction, text));
}

} // namespace corewire
