#include <corewire/net/tcp/open/fast_open.hh>

#include <corewire/reactor/base/bytes.hh>

#include <algorithm>
#include <cstring>

namespace corewire::tcp {

namespace {

std::uint64_t load_le64(const std::byte* at) noexcept {
    std::uint64_t v = 0;
    for (int i = 7; i >= 0; --i) v = v << 8 | load_u8(at + i);
    return v;
}

void store_le64(std::byte* at, std::uint64_t v) noexcept {
    for (int i = 0; i < 8; ++i) at[i] = static_cast<std::byte>(v >> (8 * i));
}

fast_open_cookie cookie_by(const siphash_key& key, const net_address& client, const net_address& server) noexcept {
    std::byte addresses[32];
    std::size_t size = 0;
    for (const net_address* a : {&client, &server}) {
        if (a->is_v4()) {
            store_be32(addresses + size, a->v4().value());
            size += 4;
        } else {
            a->v6().store(addresses + size);
            size += 16;
        }
    }
    fast_open_cookie c;
    c.size = 8;
    store_le64(c.value.data(), siphash(key, {reinterpret_cast<const unsigned char*>(addresses), size}));
    return c;
}

} // namespace

fast_open_cookie fast_open_cookie::of(byte_span bytes) noexcept {
    fast_open_cookie c;
    c.size = static_cast<std::uint8_t>(std::min(bytes.size(), c.value.size()));
    if (c.size != 0) std::memcpy(c.value.data(), bytes.data(), c.size);
    return c;
}

fast_open_cookie fast_open_cookie::of(const wire::tcp_options& options) noexcept {
    fast_open_cookie c = of(options.fast_open_cookie());
    c.experimental = options.fast_open_is_experimental;
    return c;
}

bool operator==(const fast_open_cookie& a, const fast_open_cookie& b) noexcept {
    return a.size == b.size && std::memcmp(a.value.data(), b.value.data(), a.size) == 0;
}

fast_open_cookie fast_open_keys::cookie_for(const net_address& client, const net_address& server) const noexcept {
    return cookie_by(current, client, server);
}

fast_open_keys::verdict fast_open_keys::check(const fast_open_cookie& shown, const net_address& client,
                                              const net_address& server) const noexcept {
    if (shown == cookie_by(current, client, server)) return verdict::good;
    return older && shown == cookie_by(*older, client, server) ? verdict::old : verdict::bad;
}

siphash_key fast_open_keys::key_of(std::span<const std::byte, 16> bytes) noexcept {
    return {load_le64(bytes.data()), load_le64(bytes.data() + 8)};
}

void fast_open_keys::bytes_of(const siphash_key& key, std::span<std::byte, 16> into) noexcept {
    store_le64(into.data(), key.k0);
    store_le64(into.data() + 8, key.k1);
}

siphash_key fast_open_key_chain::key_of_day(std::int64_t day) const noexcept {
    const auto part = [&](unsigned char which) {
        std::byte what[9];
        store_le64(what, static_cast<std::uint64_t>(day));
        what[8] = std::byte{which};
        return siphash(secret_, {reinterpret_cast<const unsigned char*>(what), sizeof what});
    };
    return {part(0), part(1)};
}

const fast_open_keys& fast_open_key_chain::at(time_point now) noexcept {
    const std::int64_t day = now.time_since_epoch() / period;
    if (day_ == always || day_ == day) return keys_;
    day_ = day;
    keys_ = {.current = key_of_day(day), .older = key_of_day(day - 1)};
    return keys_;
}

const fast_open_cache::entry* fast_open_cache::find(const net_address& server) const noexcept {
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const entry& e) { return e.server == server; });
    return at == entries_.end() ? nullptr : &*at;
}

fast_open_cache::entry& fast_open_cache::make(time_point now, const net_address& server) {
    entry* e = find(server);
    if (e == nullptr && entries_.size() < limit) {
        e = &entries_.emplace_back();
    } else if (e == nullptr) {
        // Who never gave a cookie goes first, unless SYNs vanish there.
        const auto rank = [now](const entry& each) {
            return std::pair{!each.cookie.empty() || now < each.paused_until, each.used};
        };
        e = &*std::min_element(entries_.begin(), entries_.end(), [&](const entry& a, const entry& b) { return rank(a) < rank(b); });
        *e = {};
    }
    e->server = server;
    e->used = now;
    return *e;
}

fast_open_request fast_open_cache::request_for(time_point now, const net_address& server) noexcept {
    entry* const e = find(server);
    if (e == nullptr) return {.asked = true, .cookie = {}};
    if (now < e->paused_until) return {};
    e->used = now;
    return {.asked = true, .cookie = e->cookie, .peer_mss = e->mss};
}

void fast_open_cache::learn(time_point now, const net_address& server, const fast_open_cookie& cookie, std::uint16_t mss,
                            bool in_vain) {
    if (cookie.empty() && !in_vain && find(server) == nullptr) return; // nothing to remember
    entry& e = make(now, server);
    e.mss = mss;
    if (cookie.empty()) {
        if (!in_vain || !e.cookie.empty()) return;
        e.cookie.experimental = !cookie.experimental && !e.was_asked_otherwise;
        e.was_asked_otherwise |= cookie.experimental;
        return;
    }
    e.cookie = cookie;
    e.losses = 0;
}

void fast_open_cache::on_lost_syn(time_point now, const net_address& server) {
    entry& e = make(now, server);
    const duration pause = first_pause * (std::int64_t{1} << std::min<unsigned>(e.losses, 6));
    if (e.losses != 0xff) ++e.losses;
    e.paused_until = now + std::min(pause, longest_pause);
}

void fast_open_cache::on_taken_syn(const net_address& server) noexcept {
    if (entry* const e = find(server); e != nullptr) e->losses = 0;
}

bool fast_open_cache::paused(time_point now, const net_address& server) const noexcept {
    const entry* const e = find(server);
    return e != nullptr && now < e->paused_until;
}

bool fast_open_cache::knows(time_point now, const net_address& server) const noexcept {
    const entry* const e = find(server);
    return e != nullptr && !e->cookie.empty() && now >= e->paused_until;
}

} // namespace corewire::tcp
