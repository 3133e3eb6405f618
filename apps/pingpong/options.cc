#include <corewire/apps/pingpong/options.hh>

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/setup_error.hh>

#include <fmt/format.h>

#include <thread>

namespace corewire::pingpong {

namespace {

constexpr std::uint32_t most_in_flight = 1u << 20; ///< bytes on one connection: what a socket's buffers hold
constexpr std::uint32_t largest_datagram = 1472;   ///< UDP payload of an Ethernet frame; over IPv6 20 bytes less
constexpr std::uint32_t largest_frame = 1500;      ///< payload of an Ethernet frame
constexpr std::uint32_t number_size = 8;           ///< a message without an order carries its number (flights.hh)
constexpr double default_warmup = 0.1;             ///< seconds, in runs by time; runs by count have none
constexpr double datagram_patience = 1;            ///< seconds
constexpr double stream_patience = 10;             ///< TCP sends again by itself: behind a lost SYN after 3 s, then 6 (RFC 6298 5.7)

duration to_duration(double seconds) {
    return std::chrono::duration_cast<duration>(std::chrono::duration<double>(seconds));
}

void require(bool condition, const std::string& otherwise) {
    if (!condition) throw setup_error(otherwise);
}

protocol protocol_of(const options& o) {
    if (o.raw) return protocol::raw;
    return o.udp ? protocol::udp : protocol::tcp;
}

void check_message(const options& o) {
    const bool ordered = o.load.what == protocol::tcp;
    require(ordered || o.load.size >= number_size,
            fmt::format("--size {}: a datagram or frame needs {} bytes for its number", o.load.size, number_size));
    const std::uint32_t largest = o.raw && o.load.bulk ? largest_frame : largest_datagram - (o.ipv6 ? 20 : 0);
    require(ordered || o.load.size <= largest,
            fmt::format("--size {}: a datagram or frame carries at most {} bytes", o.load.size, largest));
    require(std::uint64_t{o.load.size} * o.load.pipeline <= most_in_flight,
            fmt::format("--size {} with --pipeline {} is more than the {} bytes that a connection can have in flight",
                        o.load.size, o.load.pipeline, most_in_flight));
    require(!o.load.bulk || !o.udp, "--bulk is a TCP stream, or frames with --raw: leave --udp out");
    require(!o.load.brief || ordered, "--short is about TCP connections: leave --udp and --raw out");
    require(!o.load.fast_open || ordered, "--fast-open is about TCP connections: leave --udp and --raw out");
    require(!o.load.brief || o.load.pipeline == 1, "--short sends one message on each connection: leave --pipeline out");
}

void check_peer(const options& o, const network_options& network) {
    if (in_one_process(network)) {
        require(o.connect.empty(), "--net=wire joins the two ends of this process: leave --connect out, or choose another --net");
        return;
    }
    require(!o.same_core, "--same-core is for --net=wire");
    require(!o.ipv6, "--ipv6 is for --net=wire: elsewhere --connect says it");
    require(o.drop_every == 0, "--drop-every is for --net=wire");
    require(o.raw || !o.connect.empty(), "--connect HOST:PORT is missing (or --net=wire, for both ends in one process)");
    require(!o.raw || o.connect.empty(), "--raw finds its peer (cw-echo --raw) by itself: leave --connect out");
    require(!o.raw || network.net != network_kind::kernel, "--raw needs a port of ours: --net=xdp or --net=tap");
}

void choose_cores(const options& o, network_options& network, bool cores_given) {
    if (o.same_core) {
        require(!cores_given || network.cores == "1", "--same-core is one core: leave --cores out");
        network.cores = "1";
    } else if (!cores_given) {
        const bool two = in_one_process(network) && std::thread::hardware_concurrency() > 1;
        network.cores = two ? "2" : "1";
    }
}

} // namespace

void add_options(command_line& to, options& o) {
    to.add_option("--connect", o.connect, "HOST:PORT of the server (cw-echo); without, --net=wire runs both ends here")
        .type_name("HOST:PORT");
    const auto udp = to.add_flag("--udp", o.udp, "UDP instead of TCP");
    const auto raw = to.add_flag("--raw", o.raw, "Bare Ethernet frames through the same port, with no stack: the floor");
    const auto bulk = to.add_flag("--bulk", o.load.bulk,
                             "One-way stream of owned buffers, or of frames with --raw (the server: cw-echo --discard)");
    const auto brief = to.add_flag("--short", o.load.brief, "A connection for each message, --connections of them at a time; the server "
                                                            "closes first (cw-echo does not)");
    bulk.excludes(brief);
    to.add_flag("--fast-open", o.load.fast_open, "What is written first goes with the SYN, once the server has given a cookie (RFC 7413)");
    to.add_option("--size", o.load.size, "Bytes a message").check_range(1, 65536).capture_default_str();
    to.add_option("--connections", o.load.connections, "Connections").check_range(1, 65536).capture_default_str();
    to.add_option("--pipeline", o.load.pipeline, "Messages in flight on each connection").check_range(1, 4096)
        .capture_default_str();
    const auto duration = to.add_option("--duration", o.seconds, "Seconds to measure").check_range(0.001, 86400.0)
                         .capture_default_str();
    const auto count = to.add_option("--count", o.count, "Round trips to measure, over all connections, instead of a time")
                      .check_range(std::uint64_t{1}, std::uint64_t{1} << 40);
    to.add_option("--warmup", o.warmup, "Seconds before measuring begins (default 0.1; 0 with --count)")
        .check_range(0.0, 3600.0);
    to.add_option("--patience", o.patience, "Seconds without an answer until a datagram or frame counts as lost (default 1), or an "
                                            "open TCP connection is given up (default 10)")
        .check_range(0.001, 3600.0);
    to.add_flag("--same-core", o.same_core, "wire: both ends on one core");
    to.add_flag("--ipv6", o.ipv6, "wire: over IPv6");
    to.add_option("--drop-every", o.drop_every, "wire: lose every N-th frame that the client sends").type_name("N");
    to.add_flag("--json", o.json, "Print one JSON object");
    to.add_flag("--statistics", o.statistics, "Add the port's counters to the JSON");
    udp.excludes(raw);
    count.excludes(duration);
}

void check(options& o, network_options& network, bool cores_given) {
    if (network.net == network_kind::automatic && o.connect.empty() && !o.raw) network.net = network_kind::wire;
    o.load.what = protocol_of(o);
    o.load.length = to_duration(o.seconds);
    if (o.count != 0) o.load.count = o.count;
    o.load.warmup = to_duration(o.warmup >= 0 ? o.warmup : o.load.count ? 0 : default_warmup);
    const bool repeats = o.load.what == protocol::tcp;
    o.load.patience = to_duration(o.patience >= 0 ? o.patience : repeats ? stream_patience : datagram_patience);
    check_message(o);
    check_peer(o, network);
    network.wire_ipv6 = o.ipv6;
    o.load.over_ipv6 = o.ipv6;
    if (!o.connect.empty()) {
        try {
            o.server = named_address::parse(o.connect);
        } catch (const std::invalid_argument& e) {
            throw setup_error(fmt::format("--connect: {}", e.what()));
        }
    }
    choose_cores(o, network, cores_given);
}

} // namespace corewire::pingpong
