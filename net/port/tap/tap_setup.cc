// Making the interface and its ports. The data path is in tap_port.cc.
#include <corewire/net/port/tap/tap_port.hh>

#include <arpa/inet.h>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

namespace {

constexpr int virtio_header_size = 10;

[[noreturn]] void fail(int error, const std::string& what) { throw std::system_error(error, std::generic_category(), what); }

unique_fd open_tun() {
    unique_fd fd(::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (fd) return fd;
    const int error = errno;
    if (error == ENOENT || error == ENODEV || error == ENXIO) {
        fail(error, "there is no /dev/net/tun (`modprobe tun`; in a container: --device /dev/net/tun)");
    }
    if (error == EACCES || error == EPERM) fail(error, "opening /dev/net/tun is not allowed: run as root");
    fail(error, "cannot open /dev/net/tun");
}

ifreq request_for(const std::string& name) {
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

/// Attaches a descriptor to the interface, which the first one makes; returns its name.
std::string attach(int fd, const std::string& name, const tap_options& options) {
    ifreq request = request_for(name);
    request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | (options.queues > 1 ? IFF_MULTI_QUEUE : 0) |
                                           (options.offloads ? IFF_VNET_HDR : 0));
    if (::ioctl(fd, TUNSETIFF, &request) != 0) {
        const int error = errno;
        if (error == EPERM) fail(error, "making a tap interface needs CAP_NET_ADMIN: run as root, or choose --net=kernel");
        if (error == EBUSY) fail(error, "the tap interface '" + name + "' is in use by another program");
        if (error == EINVAL) {
            fail(error, "'" + name + "' can't be a tap interface: another interface has the name, or it is not a name");
        }
        fail(error, "cannot make the tap interface '" + name + "'");
    }
    if (options.offloads) {
        int size = virtio_header_size;
        if (::ioctl(fd, TUNSETVNETHDRSZ, &size) != 0) fail(errno, "the kernel's tap interface takes no offload headers");
        if (::ioctl(fd, TUNSETOFFLOAD, static_cast<unsigned long>(TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6)) != 0) {
            fail(errno, "the kernel's tap interface takes no offloads");
        }
    }
    return request.ifr_name;
}

void set(int socket, unsigned long what, ifreq& request, const std::string& meaning) {
    if (::ioctl(socket, what, &request) != 0) fail(errno, "cannot set " + meaning + " of " + request.ifr_name);
}

sockaddr ipv4_sockaddr(ipv4 address) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_addr.s_addr = htonl(address.value());
    sockaddr out{};
    std::memcpy(&out, &in, sizeof out);
    return out;
}

/// On a cable between two, duplicate address detection would only keep the kernel's end waiting. As far as it goes.
void write_setting(const std::string& interface, const char* name, char value) {
    const unique_fd file(::open(("/proc/sys/net/ipv6/conf/" + interface + "/" + name).c_str(), O_WRONLY | O_CLOEXEC));
    if (file && ::write(file.get(), &value, 1) != 1) return;
}

void add_ipv6_address(const std::string& name, const ipv6_prefix& address) {
    struct { // struct in6_ifreq of <linux/ipv6.h>, which does not go together with <netinet/in.h>
        in6_addr address;
        std::uint32_t prefix_length;
        int interface;
    } request{};
    write_setting(name, "disable_ipv6", '0');
    write_setting(name, "dad_transmits", '0');
    std::memcpy(&request.address, address.address().octets().data(), sizeof request.address);
    request.prefix_length = address.length();
    request.interface = static_cast<int>(::if_nametoindex(name.c_str()));
    const unique_fd socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket || ::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) fail(errno, "cannot set the IPv6 address of " + name);
}

/// Address, MTU, up. Returns the MAC that the kernel gave its end.
mac_address configure(const std::string& name, const tap_options& options) {
    unique_fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!socket) fail(errno, "cannot open a socket to set up " + name);
    ifreq request = request_for(name);
    request.ifr_mtu = static_cast<int>(options.mtu);
    set(socket.get(), SIOCSIFMTU, request, "the MTU");
    if (options.host_address) {
        request.ifr_addr = ipv4_sockaddr(options.host_address->address());
        set(socket.get(), SIOCSIFADDR, request, "the address");
        request.ifr_netmask = ipv4_sockaddr(options.host_address->mask());
        set(socket.get(), SIOCSIFNETMASK, request, "the netmask");
    }
    set(socket.get(), SIOCGIFFLAGS, request, "the flags");
    request.ifr_flags |= IFF_UP;
    set(socket.get(), SIOCSIFFLAGS, request, "the flags");
    if (options.host_address6) add_ipv6_address(name, *options.host_address6);
    set(socket.get(), SIOCGIFHWADDR, request, "the MAC address");
    return mac_address::load(reinterpret_cast<const std::byte*>(request.ifr_hwaddr.sa_data));
}

/// Locally administered, like the kernel's own made-up one, and different from it.
mac_address neighbour_of(mac_address host) {
    return mac_address((host.value() | 0x0200'0000'0000) ^ 0x0000'0000'0001);
}

std::uint32_t frame_size_for(std::uint32_t mtu) {
    return std::max(frame_pool::default_frame_size, std::bit_ceil(mtu + 18 + frame_headroom));
}

} // namespace

std::vector<std::unique_ptr<tap_port>> tap_port::open(const tap_options& options) {
    if (options.mtu < 576 || options.mtu > 9000) fail(EINVAL, "the MTU of a tap interface is between 576 and 9000 here");
    if (options.queues == 0) fail(EINVAL, "a tap interface needs at least one queue");
    if (options.interface.empty() || options.interface.size() >= IFNAMSIZ) {
        fail(EINVAL, "'" + options.interface + "' is not the name of an interface (1 to 15 characters)");
    }
    std::vector<unique_fd> devices;
    std::string name = options.interface;
    for (unsigned i = 0; i < options.queues; ++i) {
        devices.push_back(open_tun());
        name = attach(devices.back().get(), name, options);
    }
    const mac_address host = configure(name, options);
    std::vector<std::unique_ptr<tap_port>> ports;
    for (auto& device : devices) {
        ports.push_back(std::unique_ptr<tap_port>(new tap_port(std::move(device), name, options, host)));
        ports.back()->name_ = "tap:" + name + "/" + std::to_string(ports.size() - 1);
    }
    return ports;
}

tap_port::tap_port(unique_fd device, std::string interface, const tap_options& options, mac_address host_mac)
    : device_(std::move(device)), interface_(std::move(interface)), host_mac_(host_mac), offloads_(options.offloads),
      frames_(options.frames, frame_size_for(options.mtu)) {
    pool_ = &frames_;
    mtu_ = options.mtu;
    mac_ = options.mac.value_or(neighbour_of(host_mac));
    capabilities_.gather = true;
    if (!offloads_) return;
    rest_ = std::make_unique<std::byte[]>(largest_super_frame);
    capabilities_.receive_checksum = true;
    capabilities_.transmit_checksum = true;
    capabilities_.segmentation = true;
    capabilities_.max_segmented = 65535;
}

tap_port::~tap_port() {
    if (landing_ != nullptr) release(*landing_);
}

} // namespace corewire
