// Who is on which port: binding, connecting, leaving, and the choice of an ephemeral port.
#include <corewire/net/udp/udp_demux.hh>

#include <cerrno>
#include <sys/mman.h>
#include <system_error>

namespace corewire {

namespace {
constexpr std::size_t table_bytes = 65536 * sizeof(udp_endpoint*);
} // namespace

udp_demux::udp_demux(frame_pool& pool, udp_demux_options options, std::uint64_t seed)
    : pool_(pool), options_(options), random_(seed) {
    CW_ASSERT(options.ephemeral_first > 0 && options.ephemeral_first <= options.ephemeral_last, "no ephemeral ports");
    void* table = ::mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "cannot map the table of UDP ports");
    by_port_ = static_cast<udp_endpoint**>(table);
}

udp_demux::~udp_demux() {
    CW_ASSERT(size_ == 0, "UDP endpoints must leave before their demux goes");
    ::munmap(by_port_, table_bytes);
}

void udp_demux::share_ports(std::shared_ptr<udp_port_map> map, unsigned self) noexcept {
    CW_ASSERT(size_ == 0, "UDP ports are shared between shards before the first is bound");
    all_ports_ = std::move(map);
    self_ = self;
}

std::errc udp_demux::bind(udp_endpoint& e, udp_address local, bool shared, home_hash home,
                          udp_address expected_peer) noexcept {
    CW_ASSERT(!e.bound(), "a UDP endpoint is bound once");
    if (size_ >= options_.max_endpoints) {
        ++statistics_.endpoints_refused;
        return std::errc::no_buffer_space;
    }
    const bool ephemeral = local.port == 0;
    if (ephemeral) {
        local.port = pick_port(local.address, home, expected_peer);
        if (local.port == 0) {
            ++statistics_.ports_exhausted;
            return std::errc::address_in_use;
        }
    } else if (conflicts(e, local, shared) ||
               (all_ports_ != nullptr && by_port_[local.port] == nullptr && !all_ports_->take(local.port, self_))) {
        return std::errc::address_in_use;
    }
    e.local_ = local;
    e.shared_ = shared;
    e.ephemeral_ = ephemeral;
    e.demux_ = this;
    link(e);
    ++size_;
    return {};
}

void udp_demux::link(udp_endpoint& e) noexcept { e.next_on_port_ = std::exchange(by_port_[e.local_.port], &e); }

void udp_demux::unlink(udp_endpoint& e) noexcept {
    udp_endpoint** at = &by_port_[e.local_.port];
    while (*at != &e) at = &(*at)->next_on_port_;
    *at = std::exchange(e.next_on_port_, nullptr);
    if (by_port_[e.local_.port] == nullptr) give_back(e.local_.port);
}

void udp_demux::give_back(std::uint16_t port) noexcept {
    if (all_ports_ != nullptr) all_ports_->leave(port, self_);
}

bool udp_demux::conflicts(const udp_endpoint& newcomer, udp_address local, bool shared) noexcept {
    std::size_t here = 0;
    for (const udp_endpoint* e = by_port_[local.port]; e != nullptr; e = e->next_on_port_) {
        ++here;
        const bool overlap = e->covers(local.address) || udp_endpoint::covers(local.address, newcomer.ipv6_only_, e->local_.address);
        if (overlap && !(shared && e->shared_)) return true;
    }
    if (here < options_.max_on_port) return false;
    ++statistics_.endpoints_refused;
    return true;
}

/// RFC 6056 3.3.2, algorithm 2: a random port, tried until one is free that comes home. Bounded: after as many random
/// tries as there are ports in an eighth of the range, every port is looked at once in order from a random one.
std::uint16_t udp_demux::pick_port(const net_address& local, home_hash home, udp_address peer) noexcept {
    const std::uint32_t range =
        lent_ ? static_cast<std::uint32_t>(lent_->size()) : options_.ephemeral_last - options_.ephemeral_first + 1u;
    if (range == 0) return 0;
    const auto port_at = [&](std::uint32_t index) {
        return lent_ ? (*lent_)[index] : static_cast<std::uint16_t>(options_.ephemeral_first + index);
    };
    const auto good = [&](std::uint16_t port) {
        return by_port_[port] == nullptr && (home.here == nullptr || home.here(home.context, {local, port}, peer)) &&
               (all_ports_ == nullptr || all_ports_->choose(port, self_));
    };
    for (std::uint32_t tries = 0; tries < range / 8; ++tries) {
        const std::uint16_t port = port_at(static_cast<std::uint32_t>(random_.below(range)));
        if (good(port)) return port;
    }
    const auto start = static_cast<std::uint32_t>(random_.below(range));
    for (std::uint32_t i = 0; i < range; ++i) {
        const std::uint16_t port = port_at((start + i) % range);
        if (good(port)) return port;
    }
    return 0;
}

std::errc udp_demux::connect(udp_endpoint& e, const net_address& local, udp_address peer, home_hash home) noexcept {
    CW_ASSERT(e.demux_ == this, "bind an endpoint before connecting it");
    if (peer.port == 0) {
        e.peer_ = {};
        return {};
    }
    for (const udp_endpoint* other = by_port_[e.local_.port]; other != nullptr; other = other->next_on_port_) {
        if (other != &e && other->peer_ == peer && other->local_.address == local) return std::errc::address_in_use;
    }
    if (strays(e, local, peer, home)) {
        const std::uint16_t port = pick_port(local, home, peer);
        if (port != 0) {
            move(e, port);
        } else if (all_ports_ == nullptr) {
            ++statistics_.ports_exhausted;
            return std::errc::address_in_use;
        }
    }
    e.local_.address = local;
    e.peer_ = peer;
    e.error_ = {};
    return {};
}

bool udp_demux::strays(const udp_endpoint& e, const net_address& local, udp_address peer, home_hash home) const noexcept {
    return e.ephemeral_ && home.here != nullptr && !home.here(home.context, {local, e.local_.port}, peer);
}

std::uint16_t udp_demux::choose_port(const udp_endpoint& e, home_hash home) noexcept {
    if (!e.connected() || !strays(e, e.local_.address, e.peer_, home)) return 0;
    return pick_port(e.local_.address, home, e.peer_);
}

void udp_demux::move(udp_endpoint& e, std::uint16_t port) noexcept {
    unlink(e);
    e.local_.port = port;
    link(e);
}

void udp_demux::unbind(udp_endpoint& e) noexcept {
    CW_ASSERT(e.demux_ == this, "not an endpoint of this demux");
    while (e.readable()) e.receive();
    unlink(e);
    e.demux_ = nullptr;
    e.also_delivered_ = nullptr;
    e.local_ = e.peer_ = {};
    e.error_ = {};
    e.groups_.clear();
    --size_;
}

std::size_t udp_demux::on_port(std::uint16_t port) const noexcept {
    std::size_t n = 0;
    for (const udp_endpoint* e = by_port_[port]; e != nullptr; e = e->next_on_port_) ++n;
    return n;
}

} // namespace corewire
