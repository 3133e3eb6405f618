#include <corewire/net/ip/redirects.hh>

#include <algorithm>
#include <span>
#include <utility>

namespace corewire {

void redirect_table::learn(time_point now, const net_address& destination, const net_address& via, const net_address& router) noexcept {
    const std::span all(entries_.data(), count_);
    auto place = std::ranges::find(all, destination, &entry::destination);
    if (place == all.end()) {
        if (count_ < max_redirects) {
            entries_[count_++] = {destination, via, router, now + lifetime};
            return;
        }
        ++evicted_;
        place = std::ranges::min_element(all, {}, &entry::until);
    }
    *place = {destination, via, router, now + lifetime};
}

std::optional<net_address> redirect_table::find(const net_address& destination) const noexcept {
    for (std::size_t i = 0; i < count_; ++i)
        if (entries_[i].destination == destination) return entries_[i].via;
    return std::nullopt;
}

bool redirect_table::leads_over(const net_address& hop) const noexcept {
    const std::span all(entries_.data(), count_);
    return std::ranges::find(all, hop, &entry::via) != all.end();
}

template <typename Condition>
bool redirect_table::erase(Condition ends) noexcept {
    const auto rest = std::remove_if(entries_.data(), entries_.data() + count_, ends);
    const auto left = static_cast<std::size_t>(rest - entries_.data());
    return std::exchange(count_, left) != left;
}

bool redirect_table::forget(const net_address& hop) noexcept {
    return erase([&](const entry& e) { return e.via == hop || e.router == hop; });
}

bool redirect_table::forget_router(const net_address& hop) noexcept {
    return erase([&](const entry& e) { return e.via == hop && e.destination != hop; });
}

time_point redirect_table::next_timeout() const noexcept {
    time_point first = never;
    for (std::size_t i = 0; i < count_; ++i) first = std::min(first, entries_[i].until);
    return first;
}

bool redirect_table::on_timer(time_point now) noexcept {
    return erase([&](const entry& e) { return e.until <= now; });
}

} // namespace corewire
