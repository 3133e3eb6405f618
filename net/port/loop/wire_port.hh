// The `wire` port: a cable between two reactors of one process. No privileges, no kernel, no copies of large payload.
//
//     shard A: wire_port --packets--> shard B: wire_port        small packets travel inside the ring (as inline sends do);
//                        <--tokens---                           large ones by reference, and a token brings the frame home
//
// Both ends may also live on one reactor. Then a frame changes hands as it is: its count is one core's, and it goes back to
// the pool that it came from when its last reader lets go. The link owns both ends' frame pools, and holds what keep() names, so memory
// that one end still reads is there until both ends are gone. Each end is its own shard's; only the rings are shared.
#pragma once

#include <corewire/net/port/loop/wire_ring.hh>
#include <corewire/net/port/port.hh>
#include <corewire/reactor/base/unique_fd.hh>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

namespace corewire {

struct wire_options {
    std::uint32_t frames = 8192;         ///< in each end's pool
    std::uint32_t mtu = 1500;            ///< bytes of IP packet; frames are sized to fit
    /// True: the ends vouch for each other's checksums (their bytes are the same memory). False: computed and checked.
    bool vouch_for_checksums = true;
    /// The ends are shards of one host, and frames are handed over as a port received them: their offload flags travel along.
    bool relay = false;
    /// Between ends of one reactor, frames change hands instead of being copied. False: for tests of what two reactors do.
    bool hand_over = true;
    /// Frames of the other end that queues without a reader may hold at this one. 0: half of its pool.
    std::uint32_t held_unread = 0;
};

class reactor;
class wire_link;

class wire_port final : public port {
public:
    ~wire_port() override;

    std::size_t receive(std::span<packet> out) override;
    std::size_t transmit(std::span<packet> burst) override;
    bool prepare_sleep() override;
    void finish_sleep() override;
    int wake_fd() const override;
    void keep(const std::shared_ptr<const void>& memory) override;

    /// Frames of ours that the other end still reads, for tests and shutdown.
    std::uint32_t lent() const noexcept { return lent_; }

private:
    friend class wire_link;
    wire_port(std::shared_ptr<wire_link> link, unsigned end, const wire_options& options);

    /// Views of the other end's frames. recycle() keeps the token to send it home with others.
    struct borrowed_frames : frame_owner {
        wire_port* port = nullptr;
    };
    static void give_back(frame_owner& owner, frame& f) noexcept;
    [[gnu::noinline]] std::size_t receive_burst(const wire_detail::line* next, std::span<packet> out) noexcept;
    std::size_t receive_here(const wire_detail::line* next, std::span<packet> out) noexcept;
    [[gnu::noinline]] std::size_t receive_more_here(const wire_detail::line* next, std::span<packet> out) noexcept;
    bool receive_record(const wire_detail::line& first, packet& out) noexcept;
    void take_over(const wire_detail::line& first, packet& out) noexcept;
    buffer borrow(const wire_detail::piece& p) noexcept;
    void send_tokens_home() noexcept;
    void take_tokens_in() noexcept;
    [[gnu::noinline]] bool receive_pieces(const wire_detail::line& first, packet& out) noexcept;
    std::size_t transmit_here(std::span<packet> burst) noexcept;
    std::size_t transmit_far(std::span<packet> burst) noexcept;
    bool send_one(packet& p) noexcept;
    static bool is_whole(const packet& p) noexcept;
    void hand_over_whole(packet& p, std::uint8_t flags) noexcept;
    bool hand_over(packet& p) noexcept;
    [[gnu::noinline]] void learn_home() noexcept;
    [[gnu::noinline]] bool send_pieces(packet& p) noexcept;
    std::uint8_t flags_of(const packet& p) const noexcept;
    void wake_peer_if_asleep() noexcept;

    std::shared_ptr<wire_link> link_;
    unsigned end_;
    bool relay_;
    std::uint8_t vouched_ = 0; ///< the offload flags that every received packet gets
    bool homes_known_ = false; ///< which reactors poll the two ends,
    bool one_reactor_ = false; ///< and that it is one
    bool hands_over_ = false;  ///< then frames change hands, and with them what is vouched for; a relay passes flags on
    wire_detail::packet_ring* out_ = nullptr;
    wire_detail::packet_ring* in_ = nullptr;
    wire_detail::token_ring* tokens_out_ = nullptr;
    wire_detail::token_ring* tokens_in_ = nullptr;
    std::uint32_t lent_ = 0;
    bool tokens_about_ = false; ///< something is lent, or tokens are due: receive() looks after it
    borrowed_frames borrowed_;
    std::unique_ptr<frame[]> borrowed_handles_;
    std::vector<frame*> tokens_due_; ///< reserved for every handle, so it never grows
};

/// The cable. make() gives its two ends; it lives as long as either.
class wire_link : public std::enable_shared_from_this<wire_link> {
public:
    struct ends {
        std::unique_ptr<wire_port> first, second;
    };
    /// Throws std::system_error when memory or descriptors are short.
    static ends make(const wire_options& options = {});

private:
    friend class wire_port;
    explicit wire_link(const wire_options& options);
    frame_pool pools_[2];
    std::vector<std::shared_ptr<const void>> kept_[2]; ///< [i]: end i's, and only its
    wire_detail::packet_ring packets_[2]; ///< [i]: written by end i
    wire_detail::token_ring tokens_[2];
    std::atomic<reactor*> homes_[2]{}; ///< who polls end i; null until a packet has come
    /// How each end is woken; here, and not in the ends, because one end may be gone while the other still sends.
    struct alignas(64) sleeper {
        std::atomic<bool> asleep{false};
        unique_fd wake;
    } sleepers_[2];
};

} // namespace corewire
