#include <corewire/apps/rdma-perf/perf.hh>

#include <corewire/apps/rdma-program/program.hh>
#include <corewire/reactor/task/when_all.hh>

#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace corewire::rdma_perf {

namespace {

constexpr duration patience = std::chrono::seconds{20}; ///< for the server; the device bounds each operation (rc_options::silence)

struct run {
    const workload& load;
    rdma::rc_channel& peer;
    rdma::registered_buffer& ours; ///< `size` bytes to write from; for reads, as much a lane
    rdma::remote_region theirs;
    std::uint64_t count = 0;       ///< to be begun; 0: until `end`
    time_point end{};
    std::uint64_t begun = 0, done = 0;
    std::uint64_t added = 0;       ///< by atomics, to the first 8 bytes

    bool more() const noexcept { return count != 0 ? begun < count : reactor::current().read_clock() < end; }
};

task<> lane(run& r, unsigned number) {
    const std::uint32_t size = r.load.size;
    const rdma::local_region mine = r.ours.at(r.load.what == operation::read ? std::size_t{number} * size : 0, size);
    std::uint64_t expected = 0;    // of a compare and swap: what the last one has found, or left behind
    while (r.more()) {
        ++r.begun;
        switch (r.load.what) {
        case operation::write: co_await r.peer.write(mine, r.theirs); break;
        case operation::read: co_await r.peer.read(mine, r.theirs); break;
        case operation::fetch_and_add:
            static_cast<void>(co_await r.peer.fetch_and_add(r.theirs, 0, 1));
            ++r.added;
            break;
        case operation::compare_and_swap: {
            const std::uint64_t found = co_await r.peer.compare_and_swap(r.theirs, 0, expected, expected + 1);
            if (found == expected) ++r.added;
            expected = found == expected ? expected + 1 : found;
            break;
        }
        }
        ++r.done;
    }
}

task<> all_lanes(run& r) {
    std::vector<task<>> lanes;
    for (unsigned i = 0; i < r.load.depth; ++i) lanes.push_back(lane(r, i));
    co_await when_all(std::move(lanes));
}

/// What the run should have left behind.
task<std::uint64_t> wrong(run& r, std::uint64_t first_sum, std::uint64_t added) {
    std::uint64_t errors = 0;
    if (is_atomic(r.load.what)) {
        const std::uint64_t sum = co_await r.peer.fetch_and_add(r.theirs, 0, 0);
        co_return sum - first_sum == added ? 0 : 1;
    }
    const std::uint32_t size = r.load.size;
    if (r.load.what == operation::write) {
        auto back = r.peer.allocate(size);
        const rdma::local_region into = back.at(0, size);
        co_await r.peer.read(into, r.theirs);
        for (std::size_t i = 0; i < size; ++i) errors += back.data()[i] != r.ours.data()[i];
        co_return errors;
    }
    for (std::size_t at = 0; at < r.ours.size(); ++at) errors += r.ours.data()[at] != pattern(at % size);
    co_return errors;
}

task<rdma::remote_region> memory_of(rdma::rc_channel& peer) {
    const auto first = co_await peer.receive({.deadline = reactor::current().now() + patience});
    const auto region = first ? rdma::remote_region::from_wire(first->bytes()) : std::nullopt;
    if (!region || region->size < largest) throw std::system_error(EPROTO, std::generic_category(), "the server's first message");
    co_return *region;
}

} // namespace

task<outcome> measure(rdma::context& in, workload load) {
    if (is_atomic(load.what)) load.size = 8;
    rdma::rc_options options;
    options.send_depth = load.depth + 8; // all lanes at once, and what the channel keeps back
    options.reads = std::min(load.depth, 255u);
    options.message_size = 64;
    rdma::connector out(in, options);
    const socket_address from = rdma_program::from_address(load.from);
    const wait_limits soon{.deadline = reactor::current().now() + patience};
    auto peer = co_await out.connect(load.server, soon, from);
    const rdma::remote_region theirs = co_await memory_of(peer);

    auto ours = peer.allocate(load.what == operation::read ? std::size_t{load.size} * load.depth : load.size);
    if (load.what == operation::write)
        for (std::size_t i = 0; i < load.size; ++i) ours.data()[i] = ~pattern(i);
    std::uint64_t first_sum = 0;
    if (is_atomic(load.what)) first_sum = co_await peer.fetch_and_add(theirs, 0, 0);

    run warm{load, peer, ours, theirs, load.warmup};
    if (load.warmup != 0) co_await all_lanes(warm);
    const time_point began = reactor::current().read_clock();
    run measured{load, peer, ours, theirs, load.count, began + load.length};
    co_await all_lanes(measured);
    outcome result;
    result.seconds = std::chrono::duration<double>(reactor::current().read_clock() - began).count();
    result.operations = measured.done;
    result.errors = co_await wrong(measured, first_sum, warm.added + measured.added);
    co_await peer.close({.deadline = reactor::current().now() + patience});
    co_return result;
}

std::string to_json(const workload& load, const outcome& o) {
    const double rate = o.seconds > 0 ? static_cast<double>(o.operations) / o.seconds : 0;
    const std::uint32_t size = is_atomic(load.what) ? 8 : load.size;
    nlohmann::ordered_json out;
    out["net"] = "rdma";
    out["operation"] = name_of(load.what);
    out["size"] = size;
    out["depth"] = load.depth;
    out["operations"] = o.operations;
    out["seconds"] = o.seconds;
    out["rate"] = rate;
    out["bytes_per_second"] = rate * size;
    out["errors"] = o.errors;
    return out.dump();
}

std::string to_table(const workload& load, const outcome& o) {
    const double rate = o.seconds > 0 ? static_cast<double>(o.operations) / o.seconds : 0;
    const std::uint32_t size = is_atomic(load.what) ? 8 : load.size;
    return fmt::format("RDMA {}, {} bytes, {} at a time\n\n  operations   {:>16}\n  seconds      {:>16.3f}\n  a second     {:>16.0f}\n"
                       "  MB/s         {:>16.1f}\n  errors       {:>16}",
                       name_of(load.what), size, load.depth, o.operations, o.seconds, rate, rate * size / 1e6, o.errors);
}

} // namespace corewire::rdma_perf
