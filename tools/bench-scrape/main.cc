// cw-bench-scrape: what a scrape costs the shard that serves it, and the others on it; prints
// {"ms": of one core a scrape, "p99_us": of a 64-byte round trip, "p99_scraped_us": of those during scrapes, "p99_moves_us",
// "scrapes"} as JSON.
//
// One shard: two stacks on a wire play ping-pong, and the metrics endpoint serves on the kernel's loopback. A process of its own
// scrapes, a connection each time, and reads to the end. The cost is the time in which the loop was not idle while there were
// scrapes and nothing else; the round trips that count as scraped are those that end while a request is being answered.
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/inspection/exposition_server.hh>
#include <corewire/apps/runtime/standard_output.hh>
#include <corewire/net/kernel/kernel_provider.hh>
#include <corewire/net/port/loop/wire_port.hh>
#include <corewire/net/stack/network_stack.hh>
#include <corewire/reactor/task/sleep.hh>

#include <arpa/inet.h>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace cw = corewire;
using namespace std::chrono_literals;

namespace {

/// The scraping process: waits for the port, then scrapes until it is killed.
[[noreturn]] void scrape_for_ever(int from) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    cpu_set_t ours, others;
    ::sched_getaffinity(0, sizeof ours, &ours);
    CPU_ZERO(&others);
    for (int cpu = 0; cpu < 64; ++cpu)
        if (!CPU_ISSET(cpu, &ours)) CPU_SET(cpu, &others);
    ::sched_setaffinity(0, sizeof others, &others); // if there are any
    std::uint16_t port = 0;
    if (::read(from, &port, sizeof port) != sizeof port) ::_exit(1);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const std::string_view request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    static std::array<char, 65'536> bytes;
    for (;;) {
        const cw::unique_fd peer(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        if (::connect(peer.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) ::_exit(1);
        if (::write(peer.get(), request.data(), request.size()) < 0) ::_exit(1);
        while (::read(peer.get(), bytes.data(), bytes.size()) > 0) {}
        ::usleep(20'000);
    }
}

struct bench {
    static constexpr cw::ipv4 near_address{10, 0, 0, 1}, far_address{10, 0, 0, 2};

    explicit bench(std::size_t series) {
        loop.attached(cw::reactor::attachment::metrics) = &registry;
        loop.attached(cw::reactor::attachment::network) = static_cast<cw::socket_provider*>(&near);
        for (std::size_t i = 0; i < series; ++i)
            group.counter("bench_requests_total", "One of many series, labelled as those of services are.", counts[i % counts.size()],
                          cw::metric_label("path", fmt::format("/api/v1/resource/{}", i)));
        auto backend = kernel.listen({cw::ipv4::loopback(), 0}, {});
        kernel.remember(*backend);
        port = backend->local_address().port;
        endpoint.start(cw::tcp_listener(std::move(backend)));
    }
    static cw::stack_config host(cw::ipv4 address) {
        cw::stack_config config;
        config.address = cw::ip_prefix(address, 24);
        return config;
    }

    cw::task<> echo() {
        auto listener = cw::tcp_listener(far.listen({far_address, 7}, {.stream = {.no_delay = true}}));
        cw::tcp_stream peer = co_await listener.accept();
        while (auto data = co_await peer.read()) co_await peer.write(std::move(data));
    }
    cw::task<> play(cw::tcp_stream& peer, cw::duration time, cw::histogram& calm, cw::histogram* disturbed) {
        std::array<std::byte, 64> message{};
        const cw::time_point end = loop.read_clock() + time;
        for (cw::time_point begun = loop.read_clock(); begun < end;) {
            co_await peer.write(cw::byte_span{message});
            co_await peer.read_exactly(message);
            const cw::time_point now = loop.read_clock();
            const auto ns = static_cast<std::uint64_t>((now - begun).count());
            (disturbed != nullptr && endpoint.statistics().answering != 0 ? *disturbed : calm).record(ns);
            begun = now;
        }
    }
    cw::task<> measure(cw::duration time, int to_scraper) {
        cw::task_group tasks{"echo"};
        tasks.spawn(echo());
        {
            cw::tcp_stream peer = co_await cw::tcp_stream::connect({far_address, 7}, {.no_delay = true});
            co_await play(peer, time / 4, undisturbed, nullptr); // to get warm
            undisturbed.reset();
            co_await play(peer, time / 2, undisturbed, nullptr);
            static_cast<void>(!::write(to_scraper, &port, sizeof port));
            co_await cw::sleep_for(200ms); // the first scrape makes the index
            co_await play(peer, time, between, &scraped);
        }
        co_await tasks.join();
        const std::uint64_t scrapes = endpoint.statistics().scrapes;
        const cw::time_point begun = loop.read_clock();
        const cw::duration idle = loop.idle_time();
        co_await cw::sleep_for(time);
        const cw::duration busy = loop.read_clock() - begun - (loop.idle_time() - idle);
        const std::uint64_t counted = endpoint.statistics().scrapes - scrapes;
        const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e3; };
        const double calm = us(undisturbed.quantile(0.99)), disturbed = us(scraped.quantile(0.99));
        if (counted == 0 || scraped.count() < 1000) throw std::runtime_error("too few scrapes to say anything: --duration longer");
        fmt::print("{{\"ms\":{:.4f},\"p99_us\":{:.3f},\"p99_scraped_us\":{:.3f},\"p99_moves_us\":{:.3f},\"scrapes\":{}}}\n",
                   static_cast<double>(busy.count()) / 1e6 / static_cast<double>(counted), calm, disturbed,
                   std::max(0.0, disturbed - calm), counted);
    }
    /// The loop ends with it in any case.
    cw::task<> conduct(cw::duration time, int to_scraper) {
        try {
            co_await measure(time, to_scraper);
        } catch (...) {
            failure = std::current_exception();
        }
        loop.request_exit();
    }
    void run(cw::duration time, int to_scraper) {
        loop.root_group().spawn(conduct(time, to_scraper));
        loop.run();
        if (failure) std::rethrow_exception(failure);
    }

    cw::reactor loop{};
    cw::reactor::scope here{loop};
    cw::wire_link::ends ends = cw::wire_link::make();
    cw::network_stack near{loop, std::move(ends.first), host(near_address)};
    cw::network_stack far{loop, std::move(ends.second), host(far_address)};
    cw::kernel_provider kernel{loop};
    cw::metrics_page page{"cw-bench-scrape", "wire", 1, ""};
    cw::metric_registry registry{page, 0, "shard=\"0\""};
    cw::metric_publisher publisher{loop, registry};
    cw::metric_group group{&registry};
    std::array<std::uint64_t, 1000> counts{};
    cw::exposition_server endpoint{page, [this] { return std::vector{&publisher}; }};
    std::uint16_t port = 0;
    cw::histogram undisturbed, between, scraped;
    std::exception_ptr failure;
};

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-bench-scrape", "What a scrape of the metrics endpoint costs.");
    std::string what = "series";
    std::size_t series = 10'000;
    double seconds = 2;
    command.add_option("case", what, "series").check_one_of({"series"});
    command.add_option("--series", series, "How many there are").check_range(1, 16'000).capture_default_str();
    command.add_option("--duration", seconds, "Seconds").check_range(0.1, 600.0).capture_default_str();
    if (const auto status = command.parse(argc, argv)) return *status;
    int pipe[2];
    if (::pipe(pipe) != 0) return 2;
    const pid_t scraper = ::fork();
    if (scraper < 0) { // and not kill(-1) at the end, which is everybody
        std::perror("cw-bench-scrape: fork");
        return 2;
    }
    if (scraper == 0) scrape_for_ever(pipe[0]);
    int status = 1;
    try {
        bench b(series);
        const auto time = std::chrono::duration_cast<cw::duration>(std::chrono::duration<double>(seconds));
        b.run(time, pipe[1]);
        status = 0;
    } catch (const std::exception& error) {
        fmt::print(stderr, "cw-bench-scrape: {}\n", error.what());
        status = 2;
    }
    ::kill(scraper, SIGKILL);
    ::waitpid(scraper, nullptr, 0);
    return cw::after_output("cw-bench-scrape", status);
}
