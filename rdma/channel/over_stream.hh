// Connections without rdma_cm: two ends that have a stream of ours between them tell each other over it where their queue pairs are.
//
//     rdma::rc_channel peer = co_await rdma::connect_over(here, co_await cw::tcp_stream::connect(to));         // one end
//     rdma::rc_channel peer = co_await rdma::accept_over(here, co_await listener.accept());                    // the other
//
//     connecting                                   accepting
//     RESET to INIT, receives posted
//     introduction ------------------------------> checked; RESET to RTS, receives posted
//     checked; INIT to RTS <---------------------- introduction
//     ready -------------------------------------> from now on it may send, too
//
// What either end does not like it refuses with a sentence, which the other one throws (ECONNREFUSED). The channel keeps the stream, and
// says nothing more on it: the stream's end is the peer's leaving (ECONNRESET), as rdma_cm's word is elsewhere. So a stream must last as
// long as the channel; where it may break by itself, so may the channel.
//
// For networks where rdma_cm can't go (no module, no route for its datagrams, addresses of another network), and for our own stacks. Who
// speaks on the stream is believed where its queue pair is: no more than the stream is.
// Belongs to the shard of its context. Bounds: `within`; frames of 256 bytes.
#pragma once

#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/rdma/channel/rc_channel.hh>

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace corewire::rdma {

/// Held in place: options are often temporaries of a co_await, which g++ 12 destroys twice where there is something to destroy.
class device_name {
public:
    constexpr device_name() noexcept = default;
    /// Throws std::system_error ENAMETOOLONG: the kernel's are shorter than 64 characters.
    device_name(std::string_view name);
    device_name(const char* name) : device_name(std::string_view(name)) {}
    device_name(const std::string& name) : device_name(std::string_view(name)) {}
    std::string_view get() const noexcept { return {text_.data(), size_}; }

private:
    std::array<char, IBV_SYSFS_NAME_MAX> text_{};
    std::size_t size_ = 0;
};

struct over_options {
    rc_options channel{};
    device_name device{};                 ///< "mlx5_0"; empty: the one that has the stream's own address, or the only one there is
    std::uint8_t port = 1;                ///< of the device
    std::optional<unsigned> gid_index{};  ///< unset: the stream's own address, if the port has it, else one of RoCE version 2;
                                          ///< who accepts takes one of the peer's version and family first
    duration within = std::chrono::seconds{5}; ///< for the exchange, at most
};

static_assert(std::is_trivially_destructible_v<over_options>);

/// Throws std::system_error: ECONNREFUSED (with the peer's sentence), EPROTO (no peer of ours, or of another version), ECONNABORTED (it
/// left in the middle), ECONNRESET, ETIMEDOUT, ECANCELED, and what making a queue pair throws. The stream is closed then.
task<rc_channel> connect_over(context& in, tcp_stream stream, over_options options = {}, wait_limits limits = {});
task<rc_channel> accept_over(context& in, tcp_stream stream, over_options options = {}, wait_limits limits = {});
/// Instead of accept_over(): turns the peer away with a sentence, which must live until then. Never throws.
task<> refuse_over(context& in, tcp_stream stream, std::string_view why, duration within = std::chrono::seconds{5});

} // namespace corewire::rdma
