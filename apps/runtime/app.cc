#include <corewire/apps/runtime/app.hh>

#include <corewire/apps/runtime/choose_network.hh>
#include <corewire/apps/runtime/choose_placement.hh>
#include <corewire/apps/runtime/file_options.hh>
#include <corewire/apps/runtime/inspection/inspection.hh>
#include <corewire/apps/runtime/network_setup.hh>
#include <corewire/apps/runtime/process_log.hh>
#include <corewire/apps/runtime/require_uring.hh>
#include <corewire/apps/runtime/verbs_network.hh>
#include <corewire/net/socket/bind_error.hh>
#include <corewire/reactor/shard/this_shard.hh>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pthread.h>

namespace corewire {

namespace {

constexpr log_event<log_text<16>, log_text<>> network_chosen{"runtime", "network_chosen", log_level::info,
                                                             "--net=auto chose {}: {}"};
constexpr log_event<log_text<16>, unsigned, log_text<>> starting{"runtime", "starting", log_level::debug,
                                                                "network {}, {} shards on CPUs {}"};

enum exit_code : int { ended_well = 0, failed_running = 1 }; // 2: command_line::refuse()

/// What to do when an address to serve on cannot be had.
std::string_view advice(const bind_error& error, network_kind kind) {
    if (error.code() == std::errc::permission_denied)
        return " (ports below 1024 of the kernel's need root or CAP_NET_BIND_SERVICE: choose another --port)";
    if (error.code() == std::errc::address_in_use) return " (another program has it: choose another --port)";
    if (error.code() == std::errc::address_not_available && kind == network_kind::kernel)
        return " (`ip address` lists those that this host has)";
    return {};
}

/// SIGINT and SIGTERM end the program, SIGUSR1 has it read its log levels again.
sigset_t our_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    return set;
}

} // namespace

app::app(std::string name, std::string description)
    : name_(std::move(name)), command_line_(name_, std::move(description)),
      inspection_options_(std::make_unique<inspection_options>()), log_settings_(std::make_unique<log_settings>()) {
    // Before any thread of the program's: each inherits the mask, and the signals are shard 0's (signals.hh).
    const sigset_t ours = our_signals();
    pthread_sigmask(SIG_BLOCK, &ours, &signals_before_);
    add_network_options(command_line_, network_);
    runtime_.stall.limit = std::chrono::milliseconds{25};
    command_line_
        .add_option_function<unsigned>(
            "--stall-ms", [this](unsigned ms) { runtime_.stall.limit = std::chrono::milliseconds{ms}; },
            "Report a task that holds its core for this many milliseconds; 0: never (default 25)")
        .check_range(0u, 3'600'000u).type_name("N");
    add_file_options(command_line_, runtime_.loop.io);
    add_inspection_options(command_line_, *inspection_options_);
    add_log_options(command_line_, *log_settings_);
}

app::~app() { pthread_sigmask(SIG_SETMASK, &signals_before_, nullptr); }

std::optional<int> app::parse(int argc, char** argv) {
    if (const auto status = command_line_.parse(argc, argv)) return status;
    try {
        check_everything();
        return std::nullopt;
    } catch (const std::exception& error) {
        return command_line_.refuse(error.what());
    }
}

void app::check_everything() {
    if (on_parsed_) on_parsed_();
    const bool cores_given = command_line_.given("--cores");
    const std::optional<placement> given = take_placement(network_, cores_given);
    check_network_options(network_, ports_only_);
    if (network_.spin) runtime_.loop.spin = *network_.spin;
    choice_ = choose_network(network_, host_facts::detect(network_));
    if (runtime_.loop.io.sqpoll) require_uring("--sqpoll", "leave it out: epoll and helper threads do without");
    placement_ = choose_placement(machine::detect(), network_, given);
    if (!given && !cores_given && network_.cores == "all" && placement_.shards.size() > most_shards())
        placement_.shards.resize(most_shards());
    runtime_.cpus.clear();
    runtime_.memory_nodes.clear();
    for (const shard_place& place : placement_.shards) {
        runtime_.cpus.push_back(place.cpu);
        runtime_.memory_nodes.push_back(place.numa_node);
    }
}

/// How many cores the network can feed: no more are taken unless --cores asks for them.
std::size_t app::most_shards() const {
    if (choice_.kind == network_kind::xdp) return query_interface(network_.interface).queues;
    if (choice_.kind == network_kind::verbs) return verbs_network::most_shards(network_);
    if (choice_.kind == network_kind::verbs_ud) return 1; // one queue pair hears the network; others get what is handed over
    if (choice_.kind == network_kind::wire) return 2;
    return SIZE_MAX;
}

int app::run(std::function<task<>()> body) {
    std::atomic<bool> running{false};
    std::atomic<unsigned> begun{0};
    door_.wait_for_opening();
    try {
        {
            const std::lock_guard lock(log_mutex_);
            log_ = std::make_unique<process_log>(*log_settings_, static_cast<unsigned>(runtime_.cpus.size()));
        }
        struct run_end { // the page goes with the run; the log ends before what is caught below is said
            app& of;
            ~run_end() {
                of.door_.close();
                of.log_->take_requests(nullptr);
                of.inspection_.reset();
                const std::lock_guard lock(of.log_mutex_);
                of.log_.reset();
            }
        } const ends{*this};
        say_what_starts();
        if (!runtime_.stall.report) runtime_.stall.report = [this](const stall_report& stall) { log_->report(stall); };
        if (!runtime_.blocking.report) runtime_.blocking.report = [this](const blocking_remainder& left) { log_->report(left); };
        network_plan plan{.kind = choice_.kind,
                          .shards = static_cast<unsigned>(runtime_.cpus.size()),
                          .ports_only = ports_only_,
                          .wrap = wrapper_,
                          .place = placement_};
        plan.grace = std::min(plan.grace, runtime_.drain / 2); // sessions that it ends have time to say goodbye
        setup_ = std::make_unique<network_setup>(network_, std::move(plan));
        if (network_.shared) { // which addresses the kernel has is known now
            network_.address = setup_->options().address;
            network_.address6 = setup_->options().address6;
        }
        inspection_ = std::make_unique<inspection>(*inspection_options_, name_, *setup_, static_cast<unsigned>(runtime_.cpus.size()));
        log_->take_requests(&inspection_->page());
        runtime shards(runtime_);
        struct turn_away { // who is inside leaves before the shards are destroyed
            shards_door& door;
            ~turn_away() { door.close(); }
        } const turns_away{door_};
        const auto start = [&] {
            running.store(true, std::memory_order_relaxed);
            task<> first = network_.has_ipv6() || network_.dhcp ? setup_->when_addresses_are_there(this_shard::id(), body) : body();
            if (++begun == shards.shard_count()) door_.open(shards);
            return first;
        };
        shards.run(start, {.set_up = [this](unsigned shard) { set_up(shard); },
                           .on_stop = [this](unsigned shard) { on_stop(shard); },
                           .lingers = [this](unsigned shard) { return setup_->lingers(shard); },
                           .tear_down = [this](unsigned shard) { tear_down(shard); }});
        return ended_well;
    } catch (const setup_error& error) {
        return command_line_.refuse(error.what());
    } catch (const bind_error& error) {
        return command_line_.refuse(fmt::format("{}{}", error.what(), advice(error, choice_.kind)));
    } catch (const std::invalid_argument& error) {
        return command_line_.refuse(error.what());
    } catch (const std::exception& error) {
        return running ? fail(error.what()) : command_line_.refuse(error.what());
    }
}

void app::say_what_starts() {
    if (!choice_.why.empty()) log_->writer().from_thread(network_chosen, name_of(choice_.kind), choice_.why);
    log_->writer().from_thread(starting, name_of(choice_.kind), static_cast<unsigned>(runtime_.cpus.size()),
                               fmt::format("{}", fmt::join(runtime_.cpus, ",")));
    uring_ = look_for_uring(log_->writer(), runtime_.loop.io);
}

void app::set_up(unsigned shard) {
    log_->set_up(shard);
    setup_->set_up(shard);
    inspection_->set_up(shard);
    if (shard == 0) log_file_io(log_->writer(), runtime_.loop.io, uring_); // now: what cannot be set up ends with one line
}

void app::on_stop(unsigned shard) noexcept {
    inspection_->on_stop(shard);
    setup_->begin_stop(shard);
}

void app::tear_down(unsigned shard) noexcept {
    inspection_->tear_down(shard);
    setup_->tear_down(shard);
    log_->tear_down(shard);
}

int app::run_on_every_core(int argc, char** argv, std::function<task<>()> body) {
    if (const auto status = parse(argc, argv)) return *status;
    return run(std::move(body));
}

int app::fail(std::string_view why) const {
    fmt::print(stderr, "{}: {}\n", name_, why);
    return failed_running;
}

void app::set_log_levels(std::string_view text) {
    const std::lock_guard lock(log_mutex_);
    const std::string wrong = log_ ? log_->set_levels(text) : log_levels{}.set(text);
    if (!wrong.empty()) throw std::invalid_argument(wrong);
    log_settings_->levels = text;
}

network_kind app::chosen() const noexcept { return choice_.kind; }
port* app::device() const noexcept { return setup_->device(this_shard::id()); }
network_stack* app::stack() const noexcept { return setup_->stack(this_shard::id()); }
port* app::far_device() const noexcept { return setup_->device(this_shard::id(), true); }
network_stack* app::far_stack() const noexcept { return setup_->stack(this_shard::id(), true); }

} // namespace corewire
