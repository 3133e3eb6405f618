#include <corewire/apps/runtime/inspection/inspection.hh>

#include <corewire/apps/runtime/advertisement_listener.hh>
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/icmp_error_listener.hh>
#include <corewire/apps/runtime/inspection/exposition_server.hh>
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/apps/runtime/shared_host.hh>
#include <corewire/net/kernel/kernel_metrics.hh>
#include <corewire/net/kernel/kernel_provider.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/net/stack/stack_metrics.hh>
#include <corewire/net/stack/tcp_census.hh>
#include <corewire/rdma/raw/verbs_metrics.hh>
#include <corewire/rdma/raw/verbs_port.hh>
#include <corewire/rdma/ud_link/ud_metrics.hh>
#include <corewire/rdma/ud_link/ud_port.hh>
#include <corewire/reactor/file/io_metrics.hh>
#include <corewire/reactor/log/log_metrics.hh>
#include <corewire/reactor/metrics/page_reader.hh>
#include <corewire/reactor/shard/pool_metrics.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/shard/scheduling_metrics.hh>
#include <corewire/reactor/shard/shard_metrics.hh>
#include <corewire/reactor/shard/this_shard.hh>

#include <arpa/inet.h>
#include <cerrno>
#include <ctime>
#include <fmt/format.h>
#include <netinet/in.h>
#include <optional>
#include <sys/socket.h>

namespace corewire {

namespace {

constexpr std::uint64_t dead_pages_are_kept = 600'000'000'000; ///< ten minutes: time to look at them with cw-stat

/// The folder, after the pages of programs that crashed have gone from it.
const std::string& tidied(const std::string& folder) {
    if (!folder.empty()) collect_dead_pages(dead_pages_are_kept, folder);
    return folder;
}

/// The listeners of all shards share a port by SO_REUSEPORT, so the kernel would let two processes share ours, too.
void refuse_taken_port(ipv4 address, std::uint16_t port) {
    const unique_fd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(probe.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(address.value());
    if (::bind(probe.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0) return;
    if (errno == EADDRINUSE)
        throw setup_error(fmt::format("--metrics-port: another program has {}:{}: choose another", to_string(address), port));
    throw setup_error(fmt::format("--metrics-address {}, --metrics-port {}: {}", to_string(address), port,
                                  std::generic_category().message(errno)));
}

} // namespace

void add_inspection_options(command_line& to, inspection_options& options) {
    command_line group = to.add_option_group("Inspection");
    group.add_option("--metrics-port", options.metrics_port, "Serve metrics to Prometheus: http://127.0.0.1:N/metrics")
        .check_range(1, 65535).type_name("N");
    group
        .add_option_function<std::string>(
            "--metrics-address",
            [&options](const std::string& text) {
                const auto address = ipv4::parse(text);
                if (!address) throw option_refused(fmt::format("'{}' is not an IPv4 address", text));
                options.metrics_address = *address;
            },
            "The kernel's address to serve them on (default 127.0.0.1; 0.0.0.0: all)")
        .type_name("A.B.C.D");
}

/// What a shard has, made and destroyed on its thread.
struct inspection::shard_part {
    shard_part(metrics_page& page, unsigned shard)
        : loop(reactor::current()), registry(page, shard, metric_label("shard", std::to_string(shard))),
          publisher(loop, registry), load(loop), scheduling(registry, loop), group(&registry) {
        loop.attached(reactor::attachment::metrics) = &registry;
        register_reactor_metrics(group, loop);
        register_mailbox_metrics(group, this_shard::mail());
        register_file_metrics(group, loop);
        register_pool_metrics(group, runtime::current(), shard);
        load.register_metrics(group);
        publisher.add(load);
        publisher.add(scheduling);
        if (shard_log* log = shard_log::current_or_null())
            publisher.add(log_counts.emplace(registry, *log, shard == 0 ? &log->writer() : nullptr));
        group.gauge("corewire_metrics_series", "Series of this shard.",
                    [](const void* of) noexcept -> std::uint64_t { return static_cast<const metric_registry*>(of)->size(); },
                    &registry);
        group.counter("corewire_metrics_refused_total", "Series that found no room in the metrics page.",
                      [](const void* of) noexcept { return static_cast<const metric_registry*>(of)->refused(); }, &registry);
        group.counter("corewire_metrics_publications_total", "Times this shard has published its metrics.",
                      [](const void* of) noexcept { return static_cast<const metric_registry*>(of)->publications(); }, &registry);
    }
    ~shard_part() { loop.attached(reactor::attachment::metrics) = nullptr; }

    /// A port and, unless the program uses it bare, the stack on it.
    struct network_end {
        network_end(shard_part& here, port& device, network_stack* stack)
            : group(&here.registry, metric_label("port", device.name())) {
            register_port_metrics(group, device);
            if (const auto* raw = dynamic_cast<const verbs_port*>(&device)) register_verbs_metrics(group, *raw);
            if (const auto* ud = dynamic_cast<const ud_port*>(&device)) register_ud_metrics(group, *ud);
            if (stack == nullptr) return;
            register_stack_metrics(group, *stack);
            census.emplace(stack->tcp());
            census->register_metrics(group);
            here.publisher.add(*census);
        }
        metric_group group;
        std::optional<tcp_census> census;
    };

    /// With --net=kernel: the sockets.
    struct kernel_end {
        kernel_end(shard_part& here, const kernel_provider& sockets) : group(&here.registry), census(sockets) {
            register_kernel_metrics(group, sockets);
            census.register_metrics(group);
            here.publisher.add(census);
        }
        metric_group group;
        kernel_census census;
    };

    reactor& loop;
    metric_registry registry;
    metric_publisher publisher;
    load_meter load;
    scheduling_metrics scheduling;
    metric_group group;
    std::optional<log_metrics> log_counts;
    std::optional<network_end> near, far;
    std::optional<kernel_end> kernel;
};

inspection::inspection(const inspection_options& options, const std::string& program, const network_setup& network, unsigned shards)
    : options_(options), network_(network),
      page_(program, name_of(network.kind()), shards, tidied(options.page_folder)),
      parts_(shards) {
    if (options.metrics_port != 0) refuse_taken_port(options.metrics_address, options.metrics_port);
}

inspection::~inspection() = default;

void inspection::set_up(unsigned shard) {
    parts_[shard] = std::make_unique<shard_part>(page_, shard);
    shard_part& mine = *parts_[shard];
    if (port* device = network_.device(shard)) mine.near.emplace(mine, *device, network_.stack(shard));
    if (const advertisement_listener* heard = network_.advertisements(shard)) heard->register_metrics(mine.group);
    if (const icmp_error_listener* heard = network_.icmp_errors(shard)) heard->register_metrics(mine.group);
    if (const shared_host* shared = network_.share(shard)) shared->register_metrics(mine.group);
    if (port* device = network_.device(shard, true)) mine.far.emplace(mine, *device, network_.stack(shard, true));
    if (network_.kind() == network_kind::kernel)
        mine.kernel.emplace(mine, dynamic_cast<const kernel_provider&>(socket_provider::current()));
    if (shard == 0 && options_.metrics_port != 0) serve();
}

/// On shard 0. The other shards' parts are there when the first request is: it is read by a running loop.
void inspection::serve() {
    socket_provider* sockets = nullptr;
    if (network_.kind() == network_kind::kernel) {
        sockets = &socket_provider::current();
    } else {
        sockets_ = std::make_unique<kernel_provider>(
            reactor::current(), kernel_provider_options{.stream_buffer_size = 4096, .stream_buffers = 32, .stream_buffers_limit = 128,
                                                        .allocated_buffers = 8});
        sockets = sockets_.get();
    }
    auto backend = sockets->listen({options_.metrics_address, options_.metrics_port}, {.backlog = 32});
    sockets->remember(*backend);
    server_ = std::make_unique<exposition_server>(page_, [this] {
        std::vector<metric_publisher*> all;
        for (const auto& part : parts_) all.push_back(part ? &part->publisher : nullptr);
        return all;
    });
    server_->register_metrics(parts_[0]->group);
    server_->start(tcp_listener(std::move(backend)));
}

void inspection::on_stop(unsigned shard) noexcept {
    if (shard == 0 && server_) server_->stop();
}

void inspection::tear_down(unsigned shard) noexcept {
    if (shard == 0) {
        if (parts_[0]) parts_[0]->group.clear(); // refers to the server
        server_.reset();
        sockets_.reset();
    }
    parts_[shard].reset();
}

} // namespace corewire
