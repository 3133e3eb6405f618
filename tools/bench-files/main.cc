// cw-bench-files: what a shard gets out of files; prints one JSON object.
//
//     prepare      makes --file with --size bytes that no file system can compress or skip
//     random-read  4 KiB at random offsets of --file, --depth of them always in flight: a coroutine each, in a reactor's loop, with
//                  registered memory and a registered file
//     copy         --file to --to by corewire::copy, opened and closed; --direct: both past the page cache
//     cp, dd       the same by the program of that name (dd with 1 MiB blocks), from its start to its end
#include <corewire/apps/runtime/command_line.hh>
#include <corewire/apps/runtime/standard_output.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/file/file.hh>
#include <corewire/reactor/file/file_copy.hh>
#include <corewire/reactor/file/file_writer.hh>
#include <corewire/reactor/task/sleep.hh>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <spawn.h>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace cw = corewire;

namespace {

using bench_clock = std::chrono::steady_clock;
constexpr std::size_t block = 4096;

struct bench_options {
    std::string file;
    std::string to;
    std::uint64_t size = 1ull << 30;
    unsigned depth = 64;
    bool direct = false;
    double seconds = 1;
    double warmup = 0.1;
};

cw::duration to_duration(double seconds) {
    return std::chrono::duration_cast<cw::duration>(std::chrono::duration<double>(seconds));
}

struct reading {
    cw::file from;
    cw::io_memory memory;
    std::uint64_t blocks = 0;
    std::uint64_t done = 0;
    bool stop = false;
};

cw::task<> read_on(reading& work, unsigned number) {
    cw::random_generator random(number + 1);
    while (!work.stop) {
        const std::uint64_t offset = random.below(work.blocks) * block;
        const std::size_t n = co_await work.from.read(work.memory.piece(number * block, block), offset);
        if (n != block) throw std::runtime_error("a short read");
        ++work.done;
    }
}

cw::task<> open_for_reading(reading& work, const bench_options& o) {
    work.from = co_await cw::file::open(o.file, {.direct = o.direct});
    work.from.register_with_ring();
    const std::uint64_t size = co_await work.from.size();
    work.blocks = size / block;
    if (work.blocks == 0) throw std::runtime_error("the file is empty: prepare it first");
}

/// Starts the readers, counts for a while, and ends them.
cw::task<> conduct(reading& work, const bench_options& o, double& rate) {
    co_await open_for_reading(work, o);
    cw::reactor& loop = cw::reactor::current();
    cw::task_group readers{"readers"};
    for (unsigned i = 0; i < o.depth; ++i) readers.spawn(read_on(work, i));
    co_await cw::sleep_for(to_duration(o.warmup));
    const std::uint64_t before = work.done;
    const cw::time_point start = loop.read_clock();
    co_await cw::sleep_for(to_duration(o.seconds));
    const std::uint64_t done = work.done - before;
    rate = static_cast<double>(done) / std::chrono::duration<double>(loop.read_clock() - start).count();
    work.stop = true;
    co_await readers.join();
    if (readers.failed() != 0) throw std::runtime_error("a read failed");
}

cw::task<> then_exit(cw::task<> work, std::exception_ptr& failure) {
    try {
        co_await work;
    } catch (...) {
        failure = std::current_exception();
    }
    cw::reactor::current().request_exit();
}

/// In the loop's own way: it spins for a while and sleeps when the disk takes longer.
void run_to_end(cw::reactor& loop, cw::task<> work) {
    std::exception_ptr failure;
    loop.root_group().spawn(then_exit(std::move(work), failure));
    loop.run();
    if (failure) std::rethrow_exception(failure);
}

void random_read(const bench_options& o) {
    cw::reactor loop;
    cw::reactor::scope here(loop);
    reading work;
    work.memory = cw::io_memory(o.depth * block);
    double rate = 0;
    run_to_end(loop, conduct(work, o, rate));
    std::printf("{\"rate\": %.0f, \"depth\": %u, \"sleeps\": %llu, \"engine\": \"%s\"}\n", rate, o.depth,
                static_cast<unsigned long long>(loop.sleeps()), loop.files().description().c_str());
}

cw::task<> fill(const bench_options& o) {
    cw::file_writer out(co_await cw::file::create(o.file));
    cw::random_generator random(1);
    std::vector<std::byte> part(1 << 16);
    for (std::uint64_t done = 0; done < o.size; done += part.size()) {
        for (std::size_t i = 0; i < part.size(); i += 8) {
            const std::uint64_t value = random.next();
            std::memcpy(part.data() + i, &value, 8);
        }
        const std::size_t n = std::min<std::uint64_t>(part.size(), o.size - done);
        co_await out.write(cw::byte_span{part}.first(n));
    }
    co_await out.sync();
    co_await out.close();
}

cw::task<> copy(const bench_options& o) {
    cw::file from = co_await cw::file::open(o.file, {.direct = o.direct});
    cw::file to = co_await cw::file::open(o.to, {.write = true, .create = true, .truncate = true, .direct = o.direct});
    const std::uint64_t copied = co_await cw::copy(from, to);
    if (copied != o.size) throw std::runtime_error("the copy ended early");
    co_await to.close();
    co_await from.close();
}

void run_program(std::vector<std::string> words) {
    std::vector<char*> arguments;
    for (std::string& each : words) arguments.push_back(each.data());
    arguments.push_back(nullptr);
    pid_t child = 0;
    if (const int rc = ::posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ); rc != 0)
        throw std::system_error(rc, std::generic_category(), words[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error(words[0] + " failed");
}

/// A rate is told of --size bytes: of a file of another size it would be anything.
void require_size(const std::string& path, std::uint64_t wanted) {
    struct stat is{};
    if (::stat(path.c_str(), &is) != 0) throw std::system_error(errno, std::generic_category(), path);
    if (static_cast<std::uint64_t>(is.st_size) != wanted)
        throw std::runtime_error(path + " has " + std::to_string(is.st_size) + " bytes, not the " + std::to_string(wanted) + " of --size");
}

/// Megabytes (10^6) a second from here to the end of `work`.
template <typename Work>
void timed(const bench_options& o, Work&& work) {
    require_size(o.file, o.size);
    ::unlink(o.to.c_str());
    const auto start = bench_clock::now();
    work();
    const double seconds = std::chrono::duration<double>(bench_clock::now() - start).count();
    require_size(o.to, o.size);
    ::unlink(o.to.c_str());
    std::printf("{\"rate\": %.1f, \"seconds\": %.4f}\n", static_cast<double>(o.size) / 1e6 / seconds, seconds);
}

void on_reactor(cw::task<> (*work)(const bench_options&), const bench_options& o) {
    cw::reactor loop;
    cw::reactor::scope here(loop);
    run_to_end(loop, work(o));
}

void run(const cw::command_line& command, const bench_options& o) {
    if (command.got_subcommand("random-read")) return random_read(o);
    if (command.got_subcommand("prepare")) {
        on_reactor(fill, o);
        std::printf("{\"bytes\": %llu}\n", static_cast<unsigned long long>(o.size));
    } else if (command.got_subcommand("copy")) {
        timed(o, [&] { on_reactor(copy, o); });
    } else if (command.got_subcommand("cp")) {
        timed(o, [&] { run_program({"cp", o.file, o.to}); });
    } else {
        std::vector<std::string> words{"dd", "if=" + o.file, "of=" + o.to, "bs=1M", "status=none"};
        if (o.direct) words.insert(words.end(), {"iflag=direct", "oflag=direct"});
        timed(o, [&] { run_program(words); });
    }
}

} // namespace

int main(int argc, char** argv) {
    cw::command_line command("cw-bench-files", "What a shard gets out of files; prints JSON.");
    command.require_subcommand(1, 1);
    bench_options o;
    for (const char* name : {"prepare", "random-read", "copy", "cp", "dd"}) {
        cw::command_line one = command.add_subcommand(name);
        one.add_option("--file", o.file, "The file that is read (prepare: made)").required();
        one.add_option("--to", o.to, "The file that is made");
        one.add_option("--size", o.size, "Bytes").capture_default_str();
        one.add_option("--depth", o.depth, "Reads in flight").check_range(1u, 256u).capture_default_str();
        one.add_flag("--direct", o.direct, "O_DIRECT");
        one.add_option("--duration", o.seconds, "Seconds measured").check_range(0.01, 3600.0).capture_default_str();
        one.add_option("--warmup", o.warmup, "Seconds before that").check_range(0.0, 60.0).capture_default_str();
    }
    if (const auto status = command.parse(argc, argv)) return *status;
    try {
        run(command, o);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cw-bench-files: %s\n", e.what());
        return 2;
    }
    return cw::after_output("cw-bench-files", 0);
}
