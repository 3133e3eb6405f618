// What makes a process visible from outside: its metrics page and, with --metrics-port, the endpoint that Prometheus scrapes.
//
// Made by main() before the shards, like network_setup; set_up(), on_stop() and tear_down() are called on each shard's thread,
// after the network's set-up and before its tear-down. Bounds are those of the page and of the endpoint.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/reactor/metrics/metrics_page.hh>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace corewire {

class command_line;

class exposition_server;
class metric_publisher;
class network_setup;
class socket_provider;

struct inspection_options {
    std::uint16_t metrics_port = 0;                  ///< 0: no endpoint
    ipv4 metrics_address{127, 0, 0, 1};
    std::string page_folder = metrics_page::default_folder; ///< where the page's file goes; empty: no file
};

/// Adds --metrics-port and --metrics-address. `options` must outlive `to`.
void add_inspection_options(command_line& to, inspection_options& options);

class inspection {
public:
    /// Throws setup_error if the endpoint's port is taken.
    inspection(const inspection_options& options, const std::string& program, const network_setup& network, unsigned shards);
    ~inspection();
    inspection(const inspection&) = delete;
    inspection& operator=(const inspection&) = delete;

    void set_up(unsigned shard);
    void on_stop(unsigned shard) noexcept;
    void tear_down(unsigned shard) noexcept;
    metrics_page& page() noexcept { return page_; }

private:
    struct shard_part;
    void serve();

    inspection_options options_;
    const network_setup& network_;
    metrics_page page_;
    std::vector<std::unique_ptr<shard_part>> parts_; ///< by shard
    std::unique_ptr<socket_provider> sockets_;       ///< shard 0's, for the endpoint, where the network has none of the kernel's
    std::unique_ptr<exposition_server> server_;      ///< shard 0's
};

} // namespace corewire
