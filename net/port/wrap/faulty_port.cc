#include <corewire/net/port/wrap/faulty_port.hh>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace corewire {

namespace {
constexpr std::uint64_t no_loss = std::numeric_limits<std::uint64_t>::max() / 2;
}

faulty_port::faulty_port(std::unique_ptr<port> inner, const options& o)
    : wrapped_port(std::move(inner)), in_(o.on_receive, o.seed * 2), out_(o.on_transmit, o.seed * 2 + 1) {
    if (o.on_transmit.corrupt > 0) { // a checksum that is completed behind us would be right for what is wrong
        capabilities_.transmit_checksum = false;
        capabilities_.segmentation = false;
    }
}

/// Between two losses by chance lie as many packets as the geometric distribution says: the same as a draw for each packet.
std::uint64_t faulty_port::one_way::drawn_gap() noexcept {
    if (!(what.drop > 0)) return no_loss;
    const double uniform = static_cast<double>((random.next() >> 11) + 1) * 0x1p-53; // above 0, and 1 at most
    return static_cast<std::uint64_t>(std::min(std::log(uniform) / std::log1p(-std::min(what.drop, 1.0)), 1e18));
}

std::uint64_t faulty_port::one_way::before_the_next_loss() const noexcept {
    const std::uint64_t every = what.drop_every;
    return std::min(spared, every == 0 ? no_loss : every - 1 - counts.packets % every);
}

void faulty_port::one_way::passed(std::uint64_t packets) noexcept {
    counts.packets += packets;
    spared -= packets;
}

/// The next one; counted if it does.
bool faulty_port::one_way::loses() noexcept {
    if (before_the_next_loss() != 0) return false;
    if (spared == 0) spared = drawn_gap() + 1;
    passed(1);
    ++counts.dropped;
    return true;
}

/// A copy in one frame of the pool; without bytes when there is none or it does not fit.
packet faulty_port::copy_of(const packet& p) noexcept {
    packet copy;
    buffer b = pool().allocate_buffer();
    if (b.underlying_frame() == nullptr || p.size() > b.tailroom()) return copy;
    std::memcpy(b.append(p.head.size()), p.head.data(), p.head.size());
    if (!p.body.empty()) std::memcpy(b.append(p.body.size()), p.body.data(), p.body.size());
    copy.head = std::move(b);
    copy.flags = p.flags;
    copy.l4_checksum_offset = p.l4_checksum_offset;
    copy.l4_offset = p.l4_offset;
    copy.segment_size = p.segment_size;
    copy.rss_hash = p.rss_hash;
    return copy;
}

/// Others may hold the same bytes (TCP keeps them until they are acknowledged), so the damage is done to a copy. Nobody
/// vouches for it any more.
void faulty_port::damage(one_way& w, packet& p) noexcept {
    if (!(w.what.corrupt > 0 && w.random.chance(w.what.corrupt))) return;
    packet copy = copy_of(p);
    if (copy.head.empty()) return;
    const std::uint64_t bit = w.random.below(std::uint64_t{copy.head.size()} * 8);
    copy.head.mutable_data()[bit / 8] ^= std::byte{1} << static_cast<unsigned>(bit % 8);
    if (&w == &in_) copy.flags = offload::none;
    p = std::move(copy);
    ++w.counts.corrupted;
}

std::size_t faulty_port::receive(std::span<packet> out) {
    if (!in_.what.any()) {
        const std::size_t n = inner().receive(out);
        if (n == 0) {
            let_go();
            return 0;
        }
        in_.counts.packets += n;
        count_losses();
        return n;
    }
    const std::size_t taken = receive_singly(out);
    if (taken == 0) let_go();
    count_losses();
    return taken;
}

/// Nothing has followed it so far, and nothing may for long.
void faulty_port::let_go() noexcept {
    if (out_.holding && send(out_.held)) out_.holding = false;
}

std::size_t faulty_port::receive_singly(std::span<packet> out) {
    std::size_t taken = 0;
    while (taken < out.size()) {
        if (doubling_) {
            out[taken++] = std::move(second_);
            doubling_ = false;
            continue;
        }
        packet p;
        if (wrapped_port::receive({&p, 1}) == 0) {
            if (!in_.holding) break;
            out[taken++] = std::move(in_.held); // nothing overtakes it any more
            in_.holding = false;
            continue;
        }
        if (in_.loses()) continue;
        in_.passed(1);
        damage(in_, p);
        if (!in_.holding && in_.what.reorder > 0 && in_.random.chance(in_.what.reorder)) {
            in_.held = std::move(p);
            in_.holding = true;
            continue;
        }
        if (in_.what.duplicate > 0 && in_.random.chance(in_.what.duplicate)) {
            second_ = copy_of(p);
            doubling_ = !second_.head.empty();
            if (doubling_) ++in_.counts.duplicated;
        }
        out[taken++] = std::move(p);
        if (in_.holding && !doubling_) {
            second_ = std::move(in_.held);
            doubling_ = true;
            in_.holding = false;
            ++in_.counts.reordered;
        }
    }
    return taken;
}

std::size_t faulty_port::transmit(std::span<packet> burst) {
    const std::size_t taken = out_.what.singly() ? transmit_singly(burst) : transmit_in_runs(burst);
    count_losses();
    return taken;
}

/// Those before the next one that is lost go in one call.
std::size_t faulty_port::transmit_in_runs(std::span<packet> burst) {
    std::size_t taken = 0;
    while (taken < burst.size()) {
        const std::size_t run = std::min<std::size_t>(burst.size() - taken, out_.before_the_next_loss());
        const std::size_t sent = run == 0 ? 0 : inner().transmit(burst.subspan(taken, run));
        out_.passed(sent);
        taken += sent;
        if (sent < run || taken == burst.size()) break; // the port is full, or all is done
        if (out_.loses()) burst[taken++] = packet{};
    }
    return taken;
}

std::size_t faulty_port::transmit_singly(std::span<packet> burst) {
    std::size_t taken = 0;
    while (taken < burst.size() && pass(burst[taken])) ++taken;
    return taken; // one that is held may still be overtaken by the next burst: receive() lets it go
}

/// False if the port inside has no room; the packet is then the caller's still, and its damage is drawn for again.
bool faulty_port::pass(packet& p) {
    if (out_.loses()) {
        p = packet{};
        return true;
    }
    damage(out_, p);
    if (!out_.holding && out_.what.reorder > 0 && out_.random.chance(out_.what.reorder)) {
        out_.held = std::move(p);
        out_.holding = true;
        out_.passed(1);
        return true;
    }
    packet second;
    if (out_.what.duplicate > 0 && out_.random.chance(out_.what.duplicate)) second = copy_of(p);
    if (!send(p)) return false;
    out_.passed(1);
    if (!second.head.empty() && send(second)) ++out_.counts.duplicated;
    if (out_.holding && send(out_.held)) {
        out_.holding = false;
        ++out_.counts.reordered;
    }
    return true;
}

/// The counts of the port inside, and those it never saw.
void faulty_port::count_losses() noexcept {
    statistics_ = inner().statistics();
    statistics_.transmit_dropped += out_.counts.dropped;
}

bool faulty_port::prepare_sleep() {
    if (in_.holding || doubling_) return false;
    let_go();
    return !out_.holding && wrapped_port::prepare_sleep();
}

} // namespace corewire
