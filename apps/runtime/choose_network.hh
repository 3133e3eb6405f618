// --net=auto: which network is the best that works here, and the one line that says why.
#pragma once

#include <corewire/apps/runtime/network_options.hh>

#include <string>

namespace corewire {

/// What the choice depends on, besides the options. A test makes one up.
struct host_facts {
    bool may_administer = false;   ///< CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or CAP_SYS_ADMIN): AF_XDP
    bool may_make_taps = false;    ///< CAP_NET_ADMIN, and /dev/net/tun can be opened
    bool interface_exists = false; ///< the one that --interface names

    static host_facts detect(const network_options& options);
};

struct network_choice {
    network_kind kind;
    std::string why; ///< "cw0 is a network interface here"; empty unless --net=auto
};

network_choice choose_network(const network_options& options, const host_facts& facts);

} // namespace corewire
