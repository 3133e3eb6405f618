#include <corewire/net/port/lent_ports.hh>

#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <algorithm>
#include <array>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace corewire {

port_range parse_port_range(std::string_view text) noexcept {
    std::array<std::uint16_t, 2> number{};
    const char* at = text.data();
    const char* const end = at + text.size();
    for (std::uint16_t& each : number) {
        while (at != end && (*at == ' ' || *at == '\t')) ++at;
        const auto [behind, error] = std::from_chars(at, end, each);
        if (error != std::errc{}) return {};
        at = behind;
    }
    if ((at != end && *at != '\n') || number[0] > number[1]) return {};
    return {number[0], number[1]};
}

port_range kernel_port_range() noexcept {
    const unique_fd file(::open("/proc/sys/net/ipv4/ip_local_port_range", O_RDONLY | O_CLOEXEC));
    std::array<char, 64> text;
    const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : -1;
    return size <= 0 ? port_range{} : parse_port_range({text.data(), static_cast<std::size_t>(size)});
}

port_set parse_port_list(std::string_view text) noexcept {
    port_set out;
    const char* at = text.data();
    const char* const end = at + text.size();
    for (;;) {
        std::uint16_t first = 0;
        const auto [behind, error] = std::from_chars(at, end, first);
        if (error != std::errc{}) return out;
        std::uint16_t last = first;
        at = behind;
        if (at != end && *at == '-') {
            const auto [behind_last, last_error] = std::from_chars(at + 1, end, last);
            if (last_error != std::errc{}) return out;
            at = behind_last;
        }
        for (std::uint32_t port = first; port <= last; ++port) out.set(port);
        if (at == end || *at != ',') return out;
        ++at;
    }
}

port_set kernel_reserved_ports() {
    const unique_fd file(::open("/proc/sys/net/ipv4/ip_local_reserved_ports", O_RDONLY | O_CLOEXEC));
    std::vector<char> text(256 * 1024); // the longest list there can be; the kernel tells it in one piece, or not to its end
    const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : -1;
    return size <= 0 ? port_set{} : parse_port_list({text.data(), static_cast<std::size_t>(size)});
}

lent_ports::lent_ports(const port_range& kernels, const port_set& reserved) {
    const siphash_key secret = siphash_key::random();
    std::vector<std::pair<std::uint64_t, std::uint16_t>> drawn; // the kernel's, in an order that nobody can know
    for (std::uint32_t number = first; number < reserved.size(); ++number) {
        const auto port = static_cast<std::uint16_t>(number);
        const std::array<unsigned char, 2> bytes{static_cast<unsigned char>(port >> 8), static_cast<unsigned char>(port)};
        if (reserved[port]) continue;
        if (kernels.contains(port)) drawn.emplace_back(siphash(secret, bytes), port);
        else lent_.push_back(port);
    }
    const std::size_t taken = lent_.size() < enough ? std::min(enough - lent_.size(), drawn.size() / 2) : 0;
    std::ranges::nth_element(drawn, drawn.begin() + static_cast<std::ptrdiff_t>(taken));
    for (std::size_t i = 0; i < taken; ++i) lent_.push_back(drawn[i].second);
    std::ranges::sort(lent_);
}

} // namespace corewire
