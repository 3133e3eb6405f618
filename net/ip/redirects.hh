// Better first hops for single destinations, as routers say (RFC 4861 8, RFC 1122 3.2.2.2): a bounded destination cache, for both
// families.
//
//     redirect, validated by who calls --learn()--> find(destination): the next hop        lifetime over, or the hop is silent --> gone
//
// One route table's, on one shard. Bounded: 64 destinations, the oldest gives way; each lasts ten minutes, unless it is said again.
#pragma once

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/base/time.hh>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

namespace corewire {

class redirect_table {
public:
    static constexpr std::size_t max_redirects = 64;
    static constexpr duration lifetime = std::chrono::minutes{10};

    /// `router`, through which `destination` went, says that `via` is better; the destination itself: it is on the link.
    void learn(time_point now, const net_address& destination, const net_address& via, const net_address& router) noexcept;
    bool empty() const noexcept { return count_ == 0; }
    std::optional<net_address> find(const net_address& destination) const noexcept;
    /// Something leads over it.
    bool leads_over(const net_address& hop) const noexcept;
    /// What leads over `hop`, or was said by it, is forgotten: it does not answer, or is no router any more. True: there was something.
    bool forget(const net_address& hop) noexcept;
    /// It is no router any more: what leads over it and not to it is forgotten.
    bool forget_router(const net_address& hop) noexcept;
    void clear() noexcept { count_ = 0; }

    time_point next_timeout() const noexcept;
    /// True: something has ended.
    bool on_timer(time_point now) noexcept;
    std::uint64_t evicted() const noexcept { return evicted_; } ///< that gave way to others

private:
    struct entry {
        net_address destination, via, router;
        time_point until{};
    };
    template <typename Condition>
    bool erase(Condition ends) noexcept;

    std::array<entry, max_redirects> entries_{};
    std::size_t count_ = 0;
    std::uint64_t evicted_ = 0;
};

} // namespace corewire
