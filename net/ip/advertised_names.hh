// Name servers and domains to search that routers advertise (RFC 8106), for as long as they say.
//
// Bounded: 8 servers, 8 domains (RFC 8106 6.2 wants 3 at least). A full list loses what would end first.
#pragma once

#include <corewire/net/wire/domain_name.hh>
#include <corewire/net/wire/icmpv6.hh>
#include <corewire/reactor/base/time.hh>

#include <cstdint>
#include <span>

namespace corewire {

class advertised_names {
public:
    template <typename T>
    struct advertised {
        T value{};
        time_point until{};
        bool said = false; ///< by the option that was read last
    };
    static constexpr std::size_t max_servers = 8, max_domains = 8;

    /// The options of an advertisement.
    void on_advertisement(time_point now, byte_span options) noexcept;

    /// Those that were said last come first (RFC 8106 6.2, step (d)).
    std::span<const advertised<ipv6>> servers() const noexcept { return servers_.all(); }
    std::span<const advertised<wire::domain_name>> domains() const noexcept { return domains_.all(); }

    time_point next_timeout() const noexcept;
    void on_timer(time_point now) noexcept;
    /// Grows when a server or a domain comes or goes.
    std::uint32_t generation() const noexcept { return generation_; }
    /// That were left out: without a meaning, of a link-local server (a socket address has no zone), or too many in one option.
    std::uint64_t ignored() const noexcept { return ignored_; }

private:
    void on_servers(time_point now, byte_span option) noexcept;
    void on_domains(time_point now, byte_span option) noexcept;
    template <typename T, std::size_t N>
    void take(time_point now, bounded_list<advertised<T>, N>& known, const T& value, std::uint32_t lifetime, std::size_t& place) noexcept;
    template <typename T, std::size_t N>
    void forget_ended(time_point now, bounded_list<advertised<T>, N>& known) noexcept;

    bounded_list<advertised<ipv6>, max_servers> servers_;
    bounded_list<advertised<wire::domain_name>, max_domains> domains_;
    std::uint32_t generation_ = 0;
    std::uint64_t ignored_ = 0;
};

} // namespace corewire
