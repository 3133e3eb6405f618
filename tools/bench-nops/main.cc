// cw-bench-nops: how many io_uring NOPs a second one core gets done, `--depth` of them always in flight; prints {"rate": ..} as
// JSON.
//
//     reactor   through a reactor's ring, in its loop: each operation is started again from its completion
//     bare      liburing alone: submit what has completed, wait for more. The baseline.
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/file/uring_setup.hh>
#include <corewire/reactor/loop/reactor.hh>


#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <liburing.h>

namespace cw = corewire;

namespace {

using bench_clock = std::chrono::steady_clock;

struct bench_options {
    unsigned depth = 64;
    double seconds = 1;
    double warmup = 0.1;
};

bench_clock::duration to_duration(double seconds) {
    return std::chrono::duration_cast<bench_clock::duration>(std::chrono::duration<double>(seconds));
}

/// Runs `turn() -> completions so far` for the warm-up and the measured time; the clock is read once every 64 turns.
template <typename Turn>
double rate_of(const bench_options& o, Turn&& turn) {
    std::uint64_t done = 0;
    const auto run_until = [&](bench_clock::time_point end) {
        for (;;) {
            for (int i = 0; i < 64; ++i) done = turn();
            const auto now = bench_clock::now();
            if (now >= end) return now;
        }
    };
    const auto start = run_until(bench_clock::now() + to_duration(o.warmup));
    const std::uint64_t before = done;
    const auto end = run_until(start + to_duration(o.seconds));
    return static_cast<double>(done - before) / std::chrono::duration<double>(end - start).count();
}

class nop {
public:
    nop(cw::uring& ring, std::uint64_t& done) noexcept : ring_(ring), done_(done) { start(); }

private:
    void start() noexcept {
        ring_.start(operation_, [](io_uring_sqe& entry) { io_uring_prep_nop(&entry); });
    }
    void on_done(int, unsigned) noexcept {
        ++done_;
        start();
    }
    cw::uring& ring_;
    std::uint64_t& done_;
    cw::bound_operation<nop, &nop::on_done> operation_{*this};
};

double with_reactor(const bench_options& o) {
    std::uint64_t done = 0;
    std::deque<nop> nops; // outlives the ring, which waits for what is in the kernel
    cw::reactor loop({.spin = cw::duration::max()});
    cw::reactor::scope here(loop);
    for (unsigned i = 0; i < o.depth; ++i) nops.emplace_back(loop.io(), done);
    return rate_of(o, [&] {
        loop.poll_once();
        return done;
    });
}

double bare(const bench_options& o) {
    io_uring ring;
    cw::set_up_uring(ring, cw::uring::entries, cw::uring::completion_entries);
    std::uint64_t done = 0;
    unsigned to_start = o.depth;
    const double rate = rate_of(o, [&] {
        for (; to_start != 0; --to_start) io_uring_prep_nop(io_uring_get_sqe(&ring));
        io_uring_submit_and_wait(&ring, 1);
        unsigned head = 0;
        io_uring_cqe* entry = nullptr;
        io_uring_for_each_cqe(&ring, head, entry) ++to_start;
        io_uring_cq_advance(&ring, to_start);
        done += to_start;
        return done;
    });
    io_uring_queue_exit(&ring);
    return rate;
}

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-bench-nops", "io_uring NOPs a second on one core; prints JSON.");
    command.require_subcommand(1, 1);
    bench_options o;
    for (auto& [name, what] : {std::pair{"reactor", "Through a reactor's ring"}, {"bare", "liburing alone"}}) {
        cw::command_line one = command.add_subcommand(name, what);
        one.add_option("--depth", o.depth, "NOPs in flight").check_range(1u, 512u).capture_default_str();
        one.add_option("--duration", o.seconds, "Seconds measured").check_range(0.01, 3600.0).capture_default_str();
        one.add_option("--warmup", o.warmup, "Seconds before that").check_range(0.0, 60.0).capture_default_str();
    }
    if (const auto status = command.parse(argc, argv)) return *status;
    try {
        const bool through_reactor = command.got_subcommand("reactor");
        const double rate = through_reactor ? with_reactor(o) : bare(o);
        std::printf("{\"rate\": %.0f, \"depth\": %u}\n", rate, o.depth);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-bench-nops: %s\n", e.what());
        return 2;
    }
    return 0;
}
