#include <corewire/apps/runtime/advertisement_listener.hh>

#include <corewire/net/wire/net_address.hh>
#include <corewire/reactor/metrics/registry.hh>

#include <cerrno>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

namespace {

constexpr const char* name = "router advertisements";

} // namespace

/// Lets advertisements of routers through that are of `vlan` (0: of none, or with a priority only), and nothing else.
advertisement_listener::advertisement_listener(reactor& loop, unsigned interface, std::uint16_t vlan, network_stack& to)
    : kernel_copies(
          loop,
          [&] {
              const sock_filter filter[] = {
                  {BPF_LD | BPF_H | BPF_ABS, 0, 0, 12},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, ETH_P_IPV6},
                  {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 6},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 58},
                  {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 7},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 255}, // RFC 4861 6.1.2: no router has passed it on
                  {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 40},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 134},
                  {BPF_LD | BPF_W | BPF_ABS, 0, 0, beside(SKF_AD_VLAN_TAG)}, // 0 where there is none
                  {BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xfff},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, vlan},
                  {BPF_RET | BPF_K, 0, 0, 0xffff},
              };
              unique_fd fd = open_socket(filter, name);
              packet_mreq all_nodes{}; // the kernel may have no IPv6, and the card would not let them in
              all_nodes.mr_ifindex = static_cast<int>(interface);
              all_nodes.mr_type = PACKET_MR_MULTICAST;
              all_nodes.mr_alen = mac_address::size;
              wire::multicast_mac(ipv6::all_nodes()).store(reinterpret_cast<std::byte*>(all_nodes.mr_address));
              if (::setsockopt(fd.get(), SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all_nodes, sizeof all_nodes) != 0)
                  throw std::system_error(errno, std::generic_category(), "cannot hear router advertisements");
              begin(fd.get(), interface, name);
              return fd;
          }(),
          to) {}

void advertisement_listener::register_metrics(metric_group& group) const {
    group.counter("corewire_router_advertisements_heard_total", "Router advertisements that the kernel handed over copies of (xdp).",
                  statistics_.heard);
    group.counter("corewire_router_advertisements_dropped_total", "Such copies that found no frame, or none long enough.",
                  statistics_.dropped);
}

} // namespace corewire
