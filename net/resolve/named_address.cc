#include <corewire/net/resolve/named_address.hh>

#include <algorithm>

namespace corewire {

task<socket_address> named_address::resolve(resolver& names, wait_limits limits) const {
    const auto all = co_await names.resolve(host, address_family::any, limits);
    const auto v4 = std::find_if(all.begin(), all.end(), [](const ip_address& a) { return std::holds_alternative<corewire::ipv4>(a); });
    socket_address out;
    out.address = v4 != all.end() ? *v4 : all.front();
    out.port = port;
    co_return out;
}

} // namespace corewire
