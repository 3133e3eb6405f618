// app: a whole program from main(): options, the choice of a network, a shard on every core, signals, exit codes.
//
//     int main(int argc, char** argv) { return cw::app("echo").run_on_every_core(argc, argv, listen); }
//
// or, with options of the program's own:
//
//     cw::app app("echo", "TCP and UDP echo server");
//     app.options().add_option("--port", port, "port to listen on");      // command_line.hh
//     if (auto status = app.parse(argc, argv)) return *status;            // --help, or an error (already printed)
//     return app.run(listen);
//
// Exit codes: 0 the bodies returned, or SIGINT/SIGTERM and everything ended in order; 1 a body failed; 2 what was asked for
// cannot be set up (one line on stderr says what to do); 130 a second signal. Used by main()'s thread only, but for
// what says otherwise.
#pragma once

#include <corewire/apps/runtime/choose_network.hh>
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/file_options.hh>
#include <corewire/apps/runtime/network_options.hh>
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/apps/runtime/setup_error.hh>
#include <corewire/apps/runtime/shards_door.hh>
#include <corewire/reactor/shard/runtime.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/topology/placement.hh>

#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace corewire {

class inspection;
struct inspection_options;
struct log_settings;
class network_stack;
class process_log;

class app {
public:
    explicit app(std::string name, std::string description = {});
    ~app();
    app(const app&) = delete;
    app& operator=(const app&) = delete;

    /// The command line's definition: add the program's own options and groups before parse().
    command_line& options() noexcept { return command_line_; }
    /// Network and cores: change defaults before parse(), read the outcome after it.
    network_options& network() noexcept { return network_; }
    /// Metrics endpoint and page: change defaults before parse().
    inspection_options& inspection_settings() noexcept { return *inspection_options_; }
    /// Levels and file of the log: change defaults before parse().
    log_settings& log_defaults() noexcept { return *log_settings_; }
    /// Shards, mailboxes, the drain deadline: change before run(). `cpus` and `memory_nodes` are filled in
    /// from --placement, --shard or --cores.
    runtime_options& runtime_settings() noexcept { return runtime_; }
    /// Called by parse() when all options are read: throw setup_error (or std::invalid_argument) to refuse them.
    void on_parsed(std::function<void()> check) { on_parsed_ = std::move(check); }
    /// Make the ports and no stack above them: the bodies use device(). Not with --net=kernel.
    void ports_only(bool on = true) noexcept { ports_only_ = on; }

    /// Put something of the program's own round each port (a fault injector): network_setup.hh.
    void wrap_ports(port_wrapper wrap) { wrapper_ = std::move(wrap); }

    /// Reads the command line and the config file. Nothing: go on. Otherwise the exit code (0 after --help), all said.
    std::optional<int> parse(int argc, char** argv);
    /// Runs `body` on every shard until all have returned or a stop is asked for. Returns the exit code.
    int run(std::function<task<>()> body);
    int run_on_every_core(int argc, char** argv, std::function<task<>()> body);

    /// From a thread of the program's own: runs `called()` on a shard, as a task if it returns task<T>, and gives a std::future of its
    /// result, as runtime::submit_from_thread() does. Also before run(): then it waits until every shard's body has begun.
    /// Throws std::system_error ECANCELED after the end of run(), and ETIMEDOUT when the shard has had no room for `patience`.
    template <typename F>
    auto submit_from_thread(unsigned shard, F called, duration patience = duration::max()) {
        const shards_door::visit shards(door_);
        return (*shards).submit_from_thread(shard, std::move(called), patience);
    }

    /// From which level on messages are written, as --log-level has it: "tcp=debug,warn". From any thread, before, while and after run();
    /// parse() sets them by the option, if it is given. Throws std::invalid_argument.
    void set_log_levels(std::string_view text);

    /// What --net came to; after parse().
    network_kind chosen() const noexcept;
    /// On a shard, inside a body: its port (null with the kernel's sockets)...
    port* device() const noexcept;
    /// ... and its stack (null with the kernel's sockets, or ports_only).
    network_stack* stack() const noexcept;
    /// With --net=wire on one shard, the other end of the cable on the same shard: its port and its stack. Else null.
    port* far_device() const noexcept;
    network_stack* far_stack() const noexcept;

private:
    void check_everything();
    std::size_t most_shards() const;
    void say_what_starts();
    void set_up(unsigned shard);
    void on_stop(unsigned shard) noexcept;
    void tear_down(unsigned shard) noexcept;
    int fail(std::string_view why) const;

    std::string name_;
    command_line command_line_;
    network_options network_;
    std::unique_ptr<inspection_options> inspection_options_;
    std::unique_ptr<log_settings> log_settings_;
    runtime_options runtime_;
    std::function<void()> on_parsed_;
    bool ports_only_ = false;
    network_choice choice_{network_kind::kernel, {}};
    placement placement_;
    port_wrapper wrapper_;
    sigset_t signals_before_{};
    shards_door door_;
    std::mutex log_mutex_; ///< of making and ending it, and of set_log_levels()
    std::unique_ptr<process_log> log_; ///< while run() runs
    uring_finding uring_;
    std::unique_ptr<network_setup> setup_;
    std::unique_ptr<inspection> inspection_;
};

} // namespace corewire
