// cw-pingpong's own command line: what is played, against whom, and how it is reported.
#pragma once

#include <corewire/apps/pingpong/workload.hh>
#include <corewire/apps/runtime/network_options.hh>
#include <corewire/net/resolve/named_address.hh>

#include <optional>
#include <string>

namespace corewire::pingpong {

struct options {
    workload load;
    std::optional<named_address> server{}; ///< --connect
    bool same_core = false;
    bool ipv6 = false;
    bool json = false;
    bool statistics = false;
    std::uint32_t drop_every = 0; ///< wire: every n-th frame that the client sends is lost; 0: none

    // As written on the command line.
    std::string connect{};
    bool udp = false, raw = false;
    std::uint64_t count = 0;
    double seconds = 3;
    double warmup = -1;   ///< not given
    double patience = -1; ///< not given
};

void add_options(command_line& to, options& o);
/// Works out what was asked for, together with the network's options, and fills in what was left open. Throws setup_error.
void check(options& o, network_options& network, bool cores_given);
/// Both ends run in this process.
inline bool in_one_process(const network_options& network) noexcept { return network.net == network_kind::wire; }

} // namespace corewire::pingpong
