#include <corewire/apps/runtime/choose_placement.hh>

#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/reactor/topology/cpu_selection.hh>
#include <corewire/reactor/topology/placement_fit.hh>

#include <fmt/format.h>
#include <net/if.h>

namespace corewire {

namespace {

placement read(const network_options& options) {
    if (!options.placement_file.empty()) return read_placement(options.placement_file);
    if (options.shards.size() > placement_limits::most_shards)
        throw std::invalid_argument(fmt::format("there are more than {} shards", placement_limits::most_shards));
    placement out;
    for (const std::string& each : options.shards) out.shards.push_back(parse_shard(each));
    out.interface = options.interface;
    return out;
}

const char* source(const network_options& options) { return options.placement_file.empty() ? "--shard" : "--placement"; }

} // namespace

std::optional<placement> take_placement(network_options& options, bool cores_given) {
    if (options.placement_file.empty() && options.shards.empty()) return std::nullopt;
    if (!options.placement_file.empty() && !options.shards.empty())
        throw setup_error("--placement and --shard both place the shards: leave one out");
    if (cores_given) throw setup_error(fmt::format("{} and --cores both choose CPUs: leave one out", source(options)));
    try {
        placement given = read(options);
        // --net=auto makes a tap of an interface that is not there: a placement asks for no such thing.
        const bool may_be_used = options.net == network_kind::xdp ||
                                 (options.net == network_kind::automatic && ::if_nametoindex(given.interface.c_str()) != 0);
        if (!may_be_used) return given;
        if (options.interface.empty())
            options.interface = given.interface;
        else if (!given.interface.empty() && options.interface != given.interface)
            throw std::invalid_argument(fmt::format("{} is for the queues of {}, and --interface says {}: plan for that one with "
                                                    "`cw-topo plan --nic {}`",
                                                    options.placement_file, given.interface, options.interface, options.interface));
        return given;
    } catch (const std::invalid_argument& error) {
        throw setup_error(fmt::format("{}: {}", source(options), error.what()));
    }
}

placement choose_placement(const machine& on, const network_options& options, const std::optional<placement>& given) {
    if (given) {
        try {
            require_fit(on, *given);
        } catch (const std::invalid_argument& error) {
            throw setup_error(fmt::format("{}: {}", source(options), error.what()));
        }
        return *given;
    }
    placement chosen;
    try {
        for (const unsigned cpu : select_cpus(on, options.cores)) chosen.shards.push_back({.cpu = cpu});
    } catch (const std::invalid_argument& error) {
        throw setup_error(fmt::format("--cores: {}", error.what()));
    }
    return chosen;
}

} // namespace corewire
