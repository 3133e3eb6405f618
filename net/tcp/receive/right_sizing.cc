#include <corewire/net/tcp/receive/right_sizing.hh>

#include <corewire/net/tcp/receive/deliver.hh>

namespace corewire::tcp {

void right_size(control_block& c, time_point now) noexcept {
    constexpr duration unknown = std::chrono::milliseconds{100}; // the SYN was repeated, and we have sent nothing since
    receiver& r = c.receiving;
    const duration rtt = c.sending.rto.srtt() != duration{0} ? c.sending.rto.srtt() : unknown;
    const std::uint32_t has = r.window.buffer(), space = r.sizing.space();
    const std::uint32_t useful = r.sizing.take(now, r.next - r.queue.size(), c.options->mss, rtt, has);
    const std::uint32_t wanted = std::min(useful, c.options->receive_growth_limit);
    if (wanted <= has) return;
    if (c.share.take(c.options->budget, wanted - has)) r.set_buffer(wanted, *c.options);
    else r.sizing.refused(space);
}

} // namespace corewire::tcp
