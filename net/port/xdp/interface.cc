#include <corewire/net/port/xdp/interface.hh>

#include <corewire/reactor/base/unique_fd.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

namespace {

ifreq request_for(const std::string& name) {
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

void ask(int socket, unsigned long what, ifreq& request, const std::string& name) {
    if (::ioctl(socket, what, &request) == 0) return;
    throw std::system_error(errno, std::generic_category(), "cannot query the interface '" + name + "'");
}

/// An ethtool command; false if the driver does not know it.
template <typename Command>
bool ask_driver(int socket, const std::string& name, std::uint32_t what, Command& command) {
    command.cmd = what;
    ifreq request = request_for(name);
    request.ifr_data = reinterpret_cast<char*>(&command);
    return ::ioctl(socket, SIOCETHTOOL, &request) == 0;
}

unsigned count_queues(int socket, const std::string& name) {
    ethtool_channels channels{};
    if (!ask_driver(socket, name, ETHTOOL_GCHANNELS, channels)) return 1;
    return std::max(1u, channels.combined_count + std::min(channels.rx_count, channels.tx_count));
}

} // namespace

interface_info query_interface(const std::string& name) {
    unique_fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) throw std::system_error(errno, std::generic_category(), "cannot open a socket to query interfaces");
    interface_info info;
    info.index = name.size() < IFNAMSIZ ? ::if_nametoindex(name.c_str()) : 0;
    if (info.index == 0) {
        throw std::system_error(ENODEV, std::generic_category(),
                                "there is no network interface '" + name + "' here (`ip link` lists those there are)");
    }
    ifreq request = request_for(name);
    ask(socket.get(), SIOCGIFHWADDR, request, name);
    info.mac = mac_address::load(reinterpret_cast<const std::byte*>(request.ifr_hwaddr.sa_data));
    ask(socket.get(), SIOCGIFMTU, request, name);
    info.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
    ask(socket.get(), SIOCGIFFLAGS, request, name);
    info.up = (request.ifr_flags & IFF_UP) != 0;
    ethtool_drvinfo driver{};
    if (ask_driver(socket.get(), name, ETHTOOL_GDRVINFO, driver)) {
        info.driver.assign(driver.driver, ::strnlen(driver.driver, sizeof driver.driver));
    }
    info.queues = count_queues(socket.get(), name);
    ethtool_value flags{};
    info.strips_vlan_tags = ask_driver(socket.get(), name, ETHTOOL_GFLAGS, flags) && (flags.data & ETH_FLAG_RXVLAN) != 0;
    return info;
}

} // namespace corewire
