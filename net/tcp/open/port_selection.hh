// The local port of an active open (RFC 6056 3.3.4, algorithm 4: double-hash port selection): unpredictable from outside,
// and moving on slowly for each destination, so that a 4-tuple is not used again soon.
// One stack's; fixed memory.
#pragma once

#include <corewire/net/tcp/open/isn.hh>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace corewire::tcp {

class port_selector {
public:
    static constexpr std::uint16_t first = 32'768; ///< RFC 6056 3.2: as many as possible; Linux's default lower end
    static constexpr std::uint32_t count = 65'536 - first;

    port_selector(siphash_key offset_secret, siphash_key table_secret) noexcept
        : offset_secret_(offset_secret), table_secret_(table_secret) {}

    /// The next port for this destination for which `usable(port)` holds: the 4-tuple is free and its replies come home.
    /// Nothing: all were tried. `flow.local_port` is ignored.
    template <typename Usable>
    std::optional<std::uint16_t> select(four_tuple flow, Usable&& usable) {
        return choose(flow, [](std::uint32_t i) { return static_cast<std::uint16_t>(first + i % count); }, count, usable);
    }
    /// Of these ports: each is as likely as any other to be the first one, however they lie.
    template <typename Usable>
    std::optional<std::uint16_t> select(four_tuple flow, std::span<const std::uint16_t> ports, Usable&& usable) {
        return choose(flow, [&](std::uint32_t i) { return ports[i % ports.size()]; }, static_cast<std::uint32_t>(ports.size()), usable);
    }

private:
    template <typename Port, typename Usable>
    std::optional<std::uint16_t> choose(four_tuple flow, Port port_of, std::uint32_t size, Usable& usable) {
        flow.local_port = 0;
        const auto offset = static_cast<std::uint32_t>(keyed_hash(offset_secret_, flow, 1));
        std::uint32_t& next = table_[keyed_hash(table_secret_, flow, 2) % table_.size()];
        for (std::uint32_t tried = 0; tried < size; ++tried) {
            const std::uint16_t port = port_of(offset + next++);
            if (usable(port)) return port;
        }
        return std::nullopt;
    }

    siphash_key offset_secret_;
    siphash_key table_secret_;
    std::array<std::uint32_t, 1024> table_{};
};

} // namespace corewire::tcp
