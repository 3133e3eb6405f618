#include <corewire/net/resolve/dns_cache.hh>

#include <algorithm>

namespace corewire {

std::string plain_name(std::string name) {
    if (name.ends_with('.')) name.pop_back();
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return name;
}

std::string dns_key(std::string name, dns_type type) { return plain_name(std::move(name)) + (type == dns_type::a ? " A" : " AAAA"); }

const dns_answer* dns_cache::find(time_point now, const std::string& name, dns_type type) {
    const auto found = by_key_.find(dns_key(name, type));
    if (found == by_key_.end()) return nullptr;
    const auto at = found->second;
    if (at->until <= now) {
        by_key_.erase(found);
        recent_.erase(at);
        return nullptr;
    }
    recent_.splice(recent_.begin(), recent_, at);
    return &at->answer;
}

void dns_cache::keep(time_point now, const std::string& name, dns_type type, const dns_answer& answer) {
    if (answer.lifetime <= duration{0} || capacity_ == 0) return;
    const std::string key = dns_key(name, type);
    if (const auto old = by_key_.find(key); old != by_key_.end()) {
        recent_.erase(old->second);
        by_key_.erase(old);
    } else if (by_key_.size() == capacity_) {
        by_key_.erase(recent_.back().key);
        recent_.pop_back();
    }
    recent_.push_front({key, answer, now + answer.lifetime});
    by_key_.emplace(key, recent_.begin());
}

void dns_cache::forget_all() noexcept {
    by_key_.clear();
    recent_.clear();
}

} // namespace corewire
