#include <corewire/apps/runtime/icmp_error_listener.hh>

#include <corewire/reactor/metrics/registry.hh>

#include <linux/filter.h>
#include <linux/if_ether.h>

namespace corewire {

namespace {

constexpr const char* name = "ICMP errors";

} // namespace

/// Unreachable, time exceeded and parameter problem, in one piece, over IPv6 behind no extension header, and of no VLAN.
icmp_error_listener::icmp_error_listener(reactor& loop, unsigned interface, network_stack& to)
    : kernel_copies(
          loop,
          [&] {
              const sock_filter filter[] = {
                  {BPF_LD | BPF_B | BPF_ABS, 0, 0, beside(SKF_AD_VLAN_TAG_PRESENT)},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 0},
                  {BPF_LD | BPF_H | BPF_ABS, 0, 0, 12},
                  {BPF_JMP | BPF_JEQ | BPF_K, 10, 0, ETH_P_IPV6},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, ETH_P_IP},
                  {BPF_LD | BPF_H | BPF_ABS, 0, 0, 14 + 6}, // the first of several pieces, or a later one
                  {BPF_JMP | BPF_JSET | BPF_K, to_end, 0, 0x3fff},
                  {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 9},
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 1},
                  {BPF_LDX | BPF_B | BPF_MSH, 0, 0, 14},
                  {BPF_LD | BPF_B | BPF_IND, 0, 0, 14}, // the type
                  {BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 3},
                  {BPF_JMP | BPF_JEQ | BPF_K, 6, 0, 11},
                  {BPF_JMP | BPF_JEQ | BPF_K, 5, to_end, 12},
                  {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 6}, // IPv6, RFC 4443 2.1: errors are 1 to 4 of those assigned
                  {BPF_JMP | BPF_JEQ | BPF_K, 0, to_end, 58},
                  {BPF_LD | BPF_B | BPF_ABS, 0, 0, 14 + 40},
                  {BPF_JMP | BPF_JGE | BPF_K, 0, to_end, 1},
                  {BPF_JMP | BPF_JGT | BPF_K, to_end, 0, 4},
                  {BPF_RET | BPF_K, 0, 0, 0xffff},
              };
              unique_fd fd = open_socket(filter, name);
              begin(fd.get(), interface, name);
              return fd;
          }(),
          to) {}

void icmp_error_listener::register_metrics(metric_group& group) const {
    group.counter("corewire_shared_icmp_errors_heard_total", "ICMP errors that the kernel handed over copies of (verbs, --shared).",
                  statistics_.heard);
    group.counter("corewire_shared_icmp_errors_dropped_total", "Such copies that found no frame, or none long enough.",
                  statistics_.dropped);
}

} // namespace corewire
