// How important a message is, and from which level on the messages of each module are written.
//
//     --log-level debug            everything from debug on
//     --log-level tcp=debug,warn   the module tcp from debug on, all others from warn on
//
// log_levels is shared by all shards: read whenever a message is due (one relaxed load), changed by whoever is asked to.
// Bounds: 32 modules with a level of their own, 31 characters a name.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace corewire {

enum class log_level : std::uint8_t { debug, info, warn, error, off };

std::string_view name_of(log_level level) noexcept;
std::optional<log_level> parse_log_level(std::string_view text) noexcept;

class log_levels {
public:
    static constexpr std::size_t max_modules = 32;
    static constexpr std::size_t max_name = 31;

    /// As `text` says, instead of what was before. Returns what is wrong with it; empty: taken. Wrong text changes nothing.
    std::string set(std::string_view text);
    /// From which level on a module's messages are written. Takes a lock.
    log_level of(std::string_view module) const;
    /// "tcp=debug,warn"
    std::string text() const;
    /// Moves with every change: who keeps a level asks again then.
    std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_relaxed); }

private:
    struct rule {
        std::array<char, max_name + 1> name{};
        log_level level = log_level::info;
    };
    struct rules {
        std::array<rule, max_modules> modules{};
        std::size_t count = 0;
        log_level others = log_level::info;
    };
    static std::string read(std::string_view text, rules& into);

    mutable std::mutex mutex_;
    rules rules_;
    std::atomic<std::uint32_t> generation_{1};
};

} // namespace corewire
