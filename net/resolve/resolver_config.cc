#include <corewire/net/resolve/resolver_config.hh>

#include <algorithm>
#include <ares.h>
#include <arpa/inet.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <system_error>

namespace corewire {

namespace {

constexpr std::uint16_t domain = 53;
constexpr std::size_t longest_file = 1 << 20; ///< bytes of hosts(5) that are read

std::optional<ip_address> parse_ip(std::string_view text) {
    if (const auto v4 = ipv4::parse(text)) return *v4;
    if (const auto v6 = ipv6::parse(text)) return *v6;
    return std::nullopt;
}

std::string_view next_word(std::string_view& line) {
    constexpr std::string_view blank = " \t\r";
    line.remove_prefix(std::min(line.find_first_not_of(blank), line.size()));
    const std::string_view word = line.substr(0, line.find_first_of(blank));
    line.remove_prefix(word.size());
    return word;
}

std::string contents_of(const char* file) {
    std::ifstream in(file, std::ios::binary);
    std::string text(longest_file, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
    return text;
}

void require(int status, const char* what) {
    if (status == ARES_ENOMEM) throw std::system_error(ENOMEM, std::generic_category(), what);
    if (status == ARES_SUCCESS) return;
    throw std::system_error(EINVAL, std::generic_category(), std::string(what) + ": " + ::ares_strerror(status));
}

} // namespace

std::vector<known_host> parse_hosts(std::string_view text, std::size_t most) {
    std::vector<known_host> out;
    while (!text.empty()) {
        std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        line = line.substr(0, line.find('#'));
        const auto address = parse_ip(next_word(line));
        if (!address) continue;
        for (std::string_view name = next_word(line); !name.empty(); name = next_word(line)) {
            if (out.size() == most) return out;
            out.push_back({std::string(name), *address});
        }
    }
    return out;
}

resolver_config resolver_config::from_system() {
    resolver_config out;
    out.follow_network = true;
    ::ares_channel channel = nullptr;
    require(::ares_init(&channel), "reading resolv.conf");
    const std::unique_ptr<std::remove_pointer_t<::ares_channel>, decltype(&::ares_destroy)> owner(channel, &::ares_destroy);

    ::ares_addr_port_node* servers = nullptr;
    require(::ares_get_servers_ports(channel, &servers), "the servers of resolv.conf");
    const std::unique_ptr<::ares_addr_port_node, decltype(&::ares_free_data)> nodes(servers, &::ares_free_data);
    for (const ::ares_addr_port_node* each = servers; each != nullptr; each = each->next) {
        const auto port = static_cast<std::uint16_t>(each->udp_port != 0 ? each->udp_port : domain);
        if (each->family == AF_INET) out.servers.emplace_back(ipv4::load(reinterpret_cast<const std::byte*>(&each->addr.addr4)), port);
        if (each->family == AF_INET6) out.servers.emplace_back(ipv6::load(reinterpret_cast<const std::byte*>(&each->addr.addr6)), port);
    }

    ::ares_options options{};
    int which = 0;
    require(::ares_save_options(channel, &options, &which), "the options of resolv.conf");
    const std::unique_ptr<::ares_options, decltype(&::ares_destroy_options)> saved(&options, &::ares_destroy_options);
    if (options.ndots >= 0) out.dots = static_cast<unsigned>(options.ndots);
    if (options.timeout > 0) out.timeout = std::chrono::milliseconds{options.timeout}; // saved in milliseconds
    if (options.tries > 0) out.attempts = static_cast<unsigned>(options.tries);
    for (int i = 0; i < options.ndomains; ++i) out.search.emplace_back(options.domains[i]);

    out.hosts = parse_hosts(contents_of("/etc/hosts"));
    return out;
}

} // namespace corewire
