// A message that a module may have to say: which module, how important, its words, the types of what it tells, how often at most.
//
//     constexpr log_event<ipv4> wrong_checksums{"tcp", "wrong_checksums", log_level::warn, "every checksum from {} is wrong"};
//     ...
//     log_message(wrong_checksums, source);       // counts, and at most puts 256 bytes into the shard's ring
//
// A constant; what is counted stands in shard_log. The arguments are kept as they are (no formatting, no allocation) and
// formatted by the writer's thread. Text is log_text: cut at its size. Bounds: log_record::argument_bytes.
#pragma once

#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/log/log_level.hh>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace corewire {

/// Text inside a record: up to Size bytes; of a longer one the beginning and "...".
template <std::size_t Size = 120>
class log_text {
public:
    static_assert(Size > 3 && Size < 256);
    log_text(std::string_view text) noexcept { // NOLINT: as a std::string_view would be
        size_ = static_cast<std::uint8_t>(std::min(text.size(), Size));
        std::memcpy(bytes_.data(), text.data(), size_);
        if (text.size() > Size) std::memcpy(bytes_.data() + Size - 3, "...", 3);
    }
    log_text(const std::string& text) noexcept : log_text(std::string_view(text)) {}
    log_text(const char* text) noexcept : log_text(std::string_view(text)) {}
    std::string_view view() const noexcept { return {bytes_.data(), size_}; }

private:
    std::uint8_t size_;
    std::array<char, Size> bytes_;
};

/// So many messages of an event in so much time, on each shard; the others are counted, and their number said with the next.
struct log_rate {
    unsigned burst = 10;
    duration each = std::chrono::seconds{1};
};

namespace detail {

template <std::size_t Size>
std::string_view shown(const log_text<Size>& text) noexcept { return text.view(); }
inline const char* shown(const char* text) noexcept { return text; } ///< lives as long as the program
template <typename T>
decltype(auto) shown(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) return T(value);
    else if constexpr (std::is_same_v<T, std::string_view>) return T(value); // likewise
    else return to_string(value);
}
template <typename T>
using shown_t = std::decay_t<decltype(shown(std::declval<const T&>()))>;

} // namespace detail

/// What does not depend on the arguments' types.
struct log_site {
    std::string_view module, name;
    log_level level = log_level::info;
    log_rate rate{};
    fmt::string_view words{};
    /// Appends the words with the arguments that stand at `arguments`.
    void (*format)(const log_site& site, const std::byte* arguments, std::string& out) = nullptr;
};

template <typename... Args>
struct log_event : log_site {
    using arguments = std::tuple<Args...>;
    static_assert((std::is_trivially_copyable_v<Args> && ...), "what a log event tells is copied as bytes: text is log_text<>");

    template <std::size_t Size>
    consteval log_event(std::string_view in_module, std::string_view called, log_level importance, const char (&text)[Size],
                        log_rate at_most = {})
        : log_site{in_module, called, importance, at_most, {text, Size - 1}, &log_event::append} {
        static_cast<void>(fmt::format_string<detail::shown_t<Args>...>(text)); // compiles if the words fit the types
    }

private:
    static void append(const log_site& site, const std::byte* at, std::string& out) {
        const auto& values = *std::launder(reinterpret_cast<const arguments*>(at));
        std::apply(
            [&](const Args&... each) {
                append_shown(site.words, out, detail::shown(each)...);
            },
            values);
    }
    template <typename... Shown>
    static void append_shown(fmt::string_view words, std::string& out, const Shown&... shown) {
        fmt::vformat_to(std::back_inserter(out), words, fmt::make_format_args(shown...));
    }
};

/// What stands in a shard's ring.
struct log_record {
    static constexpr std::size_t argument_bytes = 224;
    time_point at{};
    const log_site* site = nullptr;
    std::uint64_t left_out = 0; ///< messages of this event since the one before
    alignas(8) std::array<std::byte, argument_bytes> arguments;
};
static_assert(sizeof(log_record) <= 256);

} // namespace corewire
