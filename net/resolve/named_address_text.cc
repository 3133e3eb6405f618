// Its text alone, for whoever looks nothing up.
#include <corewire/net/resolve/named_address.hh>

#include <algorithm>
#include <stdexcept>

namespace corewire {

namespace {

constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", others = "0123456789-._";

/// RFC 952, 1123 2.1, and the underscore that is met in practice. One letter at least: "192.0.2.256" is a mistake and no name.
bool may_be_a_name(std::string_view host) noexcept {
    return host.find_first_of(letters) != std::string_view::npos && host.front() != '-' && host.size() <= 255 &&
           std::all_of(host.begin(), host.end(), [](char c) { return letters.find(c) != letters.npos || others.find(c) != others.npos; });
}

} // namespace

named_address named_address::parse(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    const std::string_view host = text.substr(0, colon);
    if (colon != std::string_view::npos && !host.empty() && may_be_a_name(host)) {
        const auto of_port = socket_address::parse("0.0.0.0:" + std::string(text.substr(colon + 1)));
        return {std::string(host), of_port.port};
    }
    const socket_address at = socket_address::parse(text);
    return {std::visit([](const auto& a) { return wire::to_string(a); }, at.address), at.port};
}

} // namespace corewire
