// One-sided operations on a server's memory, as many at a time as `depth`: how many a second, and how many bytes. One reactor's.
//
//     client: lane 1..depth, each: write / read / atomic, wait, again --> server's memory (told in its first message)
//
// What was moved is checked at the end, not during the run: the memory, byte for byte, or the sum:
// a fetch and add always adds one, a compare and swap when nobody else has meanwhile.
#pragma once

#include <corewire/net/socket/address.hh>
#include <corewire/rdma/channel/listener.hh>
#include <corewire/reactor/task/task.hh>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace corewire::rdma_perf {

enum class operation : std::uint8_t { write, read, fetch_and_add, compare_and_swap };
constexpr std::array<std::string_view, 4> operation_names{"write", "read", "fetch-add", "compare-swap"};
constexpr std::string_view name_of(operation o) noexcept { return operation_names[static_cast<std::size_t>(o)]; }
constexpr bool is_atomic(operation o) noexcept { return o == operation::fetch_and_add || o == operation::compare_and_swap; }
constexpr std::uint32_t largest = 1u << 20; ///< bytes: the server's memory for a client
constexpr unsigned deepest = 256;           ///< operations at a time

struct workload {
    operation what = operation::write;
    std::uint32_t size = 65536;  ///< bytes of an operation; an atomic has 8
    unsigned depth = 64;         ///< operations at a time
    std::uint64_t count = 0;     ///< measured operations; 0: `length` says
    duration length = std::chrono::seconds{3};
    std::uint64_t warmup = 64;   ///< operations that do not count
    socket_address server;
    std::optional<ip_address> from{};
};

struct outcome {
    std::uint64_t operations = 0;
    std::uint64_t errors = 0;    ///< bytes that are wrong in the end, or a wrong sum
    double seconds = 0;
};

/// The client. Throws std::system_error when the connection can't be made or ends.
task<outcome> measure(rdma::context& in, workload load);
std::string to_json(const workload& load, const outcome& result);
std::string to_table(const workload& load, const outcome& result);

/// The server: `largest` bytes for each client, until it says goodbye. With `once`, ends after the first.
task<> serve(rdma::listener& at, bool once);

/// Byte `i` of what a server's memory holds at first.
constexpr std::byte pattern(std::size_t i) noexcept { return static_cast<std::byte>(i * 31 + 7); }

} // namespace corewire::rdma_perf
