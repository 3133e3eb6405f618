#include <corewire/rdma/ud_link/handle_cache.hh>

#include <corewire/reactor/log/shard_log.hh>

#include <algorithm>

namespace corewire {

namespace {

constexpr log_event<log_text<200>> no_handle{"port", "no_handle", log_level::warn, "{}", {.burst = 1, .each = std::chrono::minutes{1}}};

bool under_way(std::uint64_t until, std::uint64_t completed) noexcept { return until > completed; }

} // namespace

handle_cache::handle_cache(const verbs::protection_domain& in, const link_peers& peers, const options& o)
    : in_(in), peers_(peers), options_(o), entries_(capacity) {}

void handle_cache::all_completed() noexcept {
    for (entry& e : entries_) {
        e.busy = false;
        e.before = {};
    }
    last_ = nullptr; // its next send says that it is busy again
}

handle_cache::entry* handle_cache::look_up(std::uint64_t mac, std::uint64_t position, std::uint64_t completed) noexcept {
    if (mac == 0) return nullptr;
    seen_ = peers_.generation();
    const std::span<entry, ways> set(&entries_[mac % (capacity / ways) * ways], ways);
    entry* e = nullptr;
    for (entry& each : set)
        if (each.mac == mac) e = &each;
    if (e != nullptr && e->being_made && making_of(mac) != nullptr) return nullptr; // it may wait for that: hold()
    const bool retry = e != nullptr && !e->handle;
    if (retry && std::chrono::steady_clock::now() < e->retry) {
        ++counts_.unreachable;
        return nullptr;
    }
    if (e == nullptr || retry) {
        if (e == nullptr) e = room_in(set, completed);
        if (e == nullptr) {
            ++counts_.no_room;
            return nullptr;
        }
        e = fill(*e, mac);
    }
    if (e == nullptr) return nullptr;
    const bool settled = refresh(*e, completed);
    e->used = ++clock_;
    e->busy = true;
    e->last_send = position + 1;
    last_ = settled ? e : nullptr; // else it is looked up again for the next packet
    return e;
}

/// A free place, or that of the least recently used one which no send names any more.
handle_cache::entry* handle_cache::room_in(std::span<entry, ways> set, std::uint64_t completed) noexcept {
    entry* oldest = nullptr;
    for (entry& e : set) {
        if (e.mac == 0) return &e;
        if (e.busy && under_way(e.last_send, completed)) continue;
        if (oldest == nullptr || e.used < oldest->used) oldest = &e;
    }
    if (oldest == nullptr) return nullptr;
    if (last_ == oldest) last_ = nullptr;
    ++counts_.evicted;
    --count_;
    *oldest = {};
    return oldest;
}

/// Makes the handle for a MAC, or has it made. Null when nobody has told of it, the device can't, or not yet.
handle_cache::entry* handle_cache::fill(entry& e, std::uint64_t mac) noexcept {
    const auto peer = peers_.find(mac_address(mac));
    if (!peer) {
        ++counts_.unknown_peer;
        return nullptr;
    }
    const bool waits = waits_for(*peer);
    if (waits && making_of(mac) == nullptr && !begin(mac, *peer)) {
        ++counts_.unreachable;
        return nullptr;
    }
    if (e.mac == 0) ++count_;
    e.mac = mac;
    e.queue_pair = peer->address.queue_pair;
    e.told = peer->told;
    e.lid = peer->lid;
    e.service_level = service_level_;
    e.retry = std::chrono::steady_clock::now() + options_.retry_after;
    e.being_made = waits;
    if (waits) {
        e.used = ++clock_;
        return nullptr;
    }
    try {
        e.handle = make(*peer, service_level_);
    } catch (const std::exception& error) {
        complain(error.what());
        e.used = ++clock_;
        ++counts_.unreachable;
        return nullptr;
    }
    ++counts_.made;
    return &e;
}

verbs::address_handle handle_cache::make(const link_peer& peer, std::uint8_t service_level) const {
    return verbs::address_handle(in_, {.gid = peer.address.gid, .lid = peer.lid, .port = options_.port, .gid_index = options_.gid_index,
                                       .service_level = service_level});
}

void handle_cache::complain(const std::string& why) noexcept { log_message(no_handle, why); }

/// Of one that is there: anew, if its peer has been heard of since it was made, or the service level is another. What can't be made anew
/// stays as it was. False: it is still to be made anew.
bool handle_cache::refresh(entry& e, std::uint64_t completed) noexcept {
    if (e.before && !under_way(e.before_until, completed)) e.before = {};
    const auto peer = peers_.find(mac_address(e.mac));
    if (!peer || (peer->told == e.told && e.service_level == service_level_)) return true;
    if (e.before || making_of(e.mac) != nullptr) return false;
    const auto now = std::chrono::steady_clock::now();
    if (peer->lid == e.lid && e.service_level == service_level_ && now < e.retry) return false;
    e.retry = now + options_.retry_after;
    if (waits_for(*peer)) {
        begin(e.mac, *peer);
        return false;
    }
    verbs::address_handle fresh;
    try {
        fresh = make(*peer, service_level_);
    } catch (const std::exception& error) {
        complain(error.what());
        return false;
    }
    made_anew(e, std::move(fresh), *peer, completed);
    return true;
}

void handle_cache::made_anew(entry& e, verbs::address_handle fresh, const link_peer& peer, std::uint64_t completed) noexcept {
    if (e.busy && under_way(e.last_send, completed)) {
        e.before = std::move(e.handle);
        e.before_until = e.last_send;
    }
    e.handle = std::move(fresh);
    e.queue_pair = peer.address.queue_pair;
    e.told = peer.told;
    e.lid = peer.lid;
    e.service_level = service_level_;
    ++counts_.refreshed;
}

// ---- by other threads ----------------------------------------------------------------------------------------------

struct handle_cache::making_call final : verbs::waiting_call {
    making_call(const handle_cache& c, making& m) : cache(c), peer(m.peer), service_level(c.service_level_), to(m) {}
    void execute() noexcept override {
        try {
            made = cache.make(peer, service_level);
        } catch (const std::exception& error) {
            try {
                why = error.what();
            } catch (const std::bad_alloc&) {
            }
        }
    }
    void finished() noexcept override {
        to.made = std::move(made);
        to.why = std::move(why);
        to.over = true;
    }
    const handle_cache& cache; ///< what does not change of it
    const link_peer peer;
    const std::uint8_t service_level;
    making& to; ///< the owner's
    verbs::address_handle made;
    std::string why;
};

handle_cache::~handle_cache() {
    if (waits_) waits_->finish_all();
}

bool handle_cache::waits_for(const link_peer& peer) const noexcept {
    return options_.ethernet && in_.api().waits_for(in_.context(), &peer.address.gid);
}

handle_cache::making* handle_cache::making_of(std::uint64_t mac) noexcept {
    const auto at = std::ranges::find(makings_, mac, &making::mac);
    return at == makings_.end() ? nullptr : &*at;
}

bool handle_cache::begin(std::uint64_t mac, const link_peer& peer) noexcept {
    making* const free = making_of(0);
    if (free == nullptr) return false;
    try {
        if (!waits_) {
            waits_.emplace(static_cast<unsigned>(most_making));
            if (reactor* const loop = reactor::current_or_null(); loop != nullptr) loop->add_poller(*waits_);
        }
        free->peer = peer;
        std::unique_ptr<verbs::waiting_call> call = std::make_unique<making_call>(*this, *free);
        if (!waits_->start(call)) return false;
    } catch (const std::exception&) {
        return false;
    }
    free->mac = mac;
    ++making_;
    return true;
}

bool handle_cache::hold(mac_address to, packet& p) noexcept {
    making* const m = making_ == 0 ? nullptr : making_of(to.value());
    if (m == nullptr) return false;
    if (m->held_count == most_held) {
        ++counts_.held_lost;
        return false;
    }
    m->held[m->held_count++] = std::move(p);
    ++counts_.held;
    return true;
}

bool handle_cache::next_made(std::uint64_t completed, std::span<packet, most_held> held, std::size_t& count) noexcept {
    waits_->take_finished(); // where no reactor does
    const auto at = std::ranges::find_if(makings_, [](const making& m) { return m.mac != 0 && m.over; });
    if (at == makings_.end()) return false;
    if (!at->made) complain(at->why);
    const std::span<entry, ways> set(&entries_[at->mac % (capacity / ways) * ways], ways);
    for (entry& e : set) { // unless it has made room for another one
        if (e.mac != at->mac) continue;
        e.retry = std::chrono::steady_clock::now() + options_.retry_after;
        if (at->made && e.handle) made_anew(e, std::move(at->made), at->peer, completed);
        else if (at->made) e.handle = std::move(at->made), ++counts_.made;
        e.being_made = false;
    }
    last_ = nullptr;
    count = at->held_count;
    std::move(at->held.begin(), at->held.begin() + static_cast<std::ptrdiff_t>(count), held.begin());
    *at = {};
    --making_;
    return true;
}

} // namespace corewire
