// Where SYNs that ask for AccECN do not get through (RFC 9768 3.1.4.1): for a while connections are opened without asking.
//
//     the SYNs with the flags went unanswered, the one without did not, twice in a row --> not asked
//     after 10 minutes (20, 40, an hour) --> asked again
//
// One stack's. Bounded: what was used least recently is forgotten.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/time.hh>

#include <algorithm>
#include <chrono>
#include <vector>

namespace corewire::tcp {

class accurate_ecn_paths {
public:
    static constexpr std::size_t limit = 64;
    static constexpr unsigned enough = 2; ///< losses have other reasons, too
    static constexpr duration first_pause = std::chrono::minutes{10};
    static constexpr duration longest_pause = std::chrono::hours{1};

    /// Whether a SYN to this server may ask.
    bool lets_through(time_point now, const net_address& server) const noexcept {
        const auto at = find(server);
        return at == paths_.end() || at->closed_until <= now;
    }
    /// The SYN-ACK has come. `fell_back`: only when the SYN did not ask any more, and it does not say AccECN.
    void on_answer(time_point now, const net_address& server, bool fell_back) {
        const auto at = find(server);
        if (!fell_back) {
            if (at != paths_.end()) paths_.erase(at);
            return;
        }
        path& p = at != paths_.end() ? paths_[static_cast<std::size_t>(at - paths_.begin())] : make(server);
        p.used = now;
        if (++p.failures < enough) return;
        const unsigned doublings = std::min(p.failures - enough, 8u);
        p.closed_until = now + std::min<duration>(first_pause * (1u << doublings), longest_pause);
    }
    std::size_t size() const noexcept { return paths_.size(); }

private:
    struct path {
        net_address server;
        unsigned failures = 0; ///< in a row
        time_point used{};
        time_point closed_until{};
    };
    std::vector<path>::const_iterator find(const net_address& server) const noexcept {
        return std::find_if(paths_.begin(), paths_.end(), [&server](const path& p) { return p.server == server; });
    }
    path& make(const net_address& server) {
        if (paths_.size() < limit) return paths_.emplace_back(path{.server = server});
        path& oldest = *std::min_element(paths_.begin(), paths_.end(), [](const path& a, const path& b) { return a.used < b.used; });
        return oldest = path{.server = server};
    }
    std::vector<path> paths_;
};

} // namespace corewire::tcp
