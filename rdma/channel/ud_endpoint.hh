// One UD queue pair, its buffers, and the address handles it has made: what ud_socket stands on. Datagrams get lost, and come
// in any order. Belongs to one shard; held by its socket and by each datagram that somebody has received, whose buffer is in it.
// Bounds: the depths; `max_handles` address handles, of which the oldest goes; `most_resolved` GIDs that the kernel is asked for at a time.
//
// A new destination's handle is made by another thread (verbs::waiting_calls), as its GID may be nobody's and the kernel asks for a second:
// meanwhile sends to it stand in a line of their own, and all others go on. Who was not found is not asked for again for `retry_after`.
//
// A queue pair in error is started again: what was under way is lost, as datagrams may be. After `most_restarts` in a row, without
// anything sent or received between them, the socket ends with EIO.
#pragma once

#include <corewire/rdma/channel/registered_buffer.hh>
#include <corewire/rdma/verbs/address_handle.hh>
#include <corewire/rdma/verbs/datagram_header.hh>
#include <corewire/rdma/verbs/work_chain.hh>
#include <corewire/reactor/task/waiter.hh>

#include <array>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <vector>

namespace corewire::rdma {

/// Where a UD queue pair is: its port's address and its number. Told by other means (a message, a file, rdma_cm).
struct ud_address {
    ibv_gid gid{};
    std::uint32_t queue_pair = 0;
    std::uint32_t key = 0x11111111; ///< Q_Key

    /// All sockets that have joined it.
    static ud_address of_group(const ibv_gid& group) noexcept { return {group, 0xffffff}; }
    static ud_address of_group(const net_address& group) noexcept { return of_group(gid_of(group)); }
    /// An IP address as RoCE has it.
    static ibv_gid gid_of(const net_address& ip) noexcept;
};

class ud_endpoint;

/// Lets a socket hear a group, until this is destroyed, or the socket is. It may outlive the socket, and not the context.
class joined_group {
public:
    joined_group() noexcept = default;
    joined_group(joined_group&& other) noexcept : endpoint_(std::exchange(other.endpoint_, nullptr)), group_(other.group_) {}
    joined_group& operator=(joined_group&& other) noexcept {
        std::swap(endpoint_, other.endpoint_);
        std::swap(group_, other.group_);
        return *this;
    }
    ~joined_group();

private:
    friend class ud_endpoint;
    joined_group(ud_endpoint& in, const ibv_gid& group) noexcept;
    ud_endpoint* endpoint_ = nullptr;
    ibv_gid group_{};
};

struct ud_options {
    unsigned receive_depth = 256; ///< datagrams that may wait to be received; what is beyond is lost
    unsigned send_depth = 64;
    unsigned inline_bytes = 128;
    unsigned max_handles = 1024;
};

struct ud_statistics {
    std::uint64_t sent = 0, received = 0, doorbells = 0;
    std::uint64_t malformed = 0;      ///< without the header that every datagram has
    std::uint64_t failed_sends = 0;   ///< completions with an error
    std::uint64_t restarts = 0;       ///< times the queue pair was put back to its beginning
    std::uint64_t waits_for_room = 0;
    std::uint64_t handles_made = 0, handles_dropped = 0;
    std::uint64_t waits_for_way = 0;  ///< sends to a GID that the kernel was being asked for
    std::uint64_t unreachable = 0;    ///< GIDs for which no handle could be made
};

class ud_operation;
class ud_receive_awaiter;

class ud_endpoint final : public work_source {
public:
    static constexpr std::uint32_t header = verbs::datagram_header::size;

    /// `ours`: an address of this port of the device. Throws std::system_error with a sentence.
    ud_endpoint(adapter& on, std::uint8_t port, const net_address& ours, const ud_options& options);
    ud_endpoint(const ud_endpoint&) = delete;

    void hold() noexcept { ++references_; }
    void release() noexcept {
        if (--references_ == 0) delete this;
    }
    /// The socket has gone, and the queue pair with it: waits end with ECANCELED. Datagrams keep their bytes.
    void shut_down() noexcept;

    struct arrival {
        std::uint32_t buffer = 0, size = 0, from_pair = 0;
        ibv_gid from{};
    };
    bool start(ud_operation& op) noexcept;
    std::optional<arrival> take_arrival() noexcept;
    void put_back(const arrival& a) noexcept;
    void give_back(std::uint32_t buffer) noexcept;
    mutable_byte_span bytes_of(const arrival& a) noexcept { return {memory_.data() + stride_ * a.buffer + header, a.size}; }

    void completed(const ibv_wc& wc) noexcept;
    void post_work() noexcept override;
    void device_failed(std::errc why) noexcept override { fail(why); }
    bool stands_on(std::uint32_t pair) const noexcept override { return pair_ && pair_->number() == pair; }
    void pair_failed() noexcept override {
        if (failed_ != std::errc{}) return;
        restart_wanted_ = true;
        device_.has_work(*this);
    }

    std::uint32_t largest_datagram() const noexcept { return mtu_; }
    ud_address address() const noexcept { return {address_.gid, pair_->number(), key}; }
    std::errc failed() const noexcept { return failed_; }
    joined_group join(const ibv_gid& group); ///< throws
    void leave(const ibv_gid& group) noexcept;

    intrusive_list<waiter> senders, receivers;
    ud_statistics counts;

private:
    static constexpr std::uint32_t key = 0x11111111;
    static constexpr unsigned most_restarts = 16;
    static constexpr unsigned most_resolved = 4;
    static constexpr std::size_t remembered = 16;
    static constexpr duration retry_after = std::chrono::seconds{1};
    /// A GID whose handle is being made, or will be, and the sends to it.
    struct resolution {
        ibv_gid gid{};
        bool begun = false;
        intrusive_list<waiter> waiting{};
    };
    struct resolving_call;
    struct refusal {
        ibv_gid gid{};
        time_point until{};
        std::exception_ptr why;
    };
    struct known {
        ibv_gid gid{};
        verbs::address_handle handle;
        std::uint32_t last_send = 0; ///< sequence number behind its last use
    };
    /// The queue pair's attachment to a group, which goes before it does.
    struct membership {
        ibv_gid group{};
        unsigned handles = 0; ///< joined_groups that name it
        verbs::group_membership member;
        verbs::multicast_attachment attached;
    };
    ~ud_endpoint() = default;
    unsigned completions() const noexcept { return options_.send_depth + options_.receive_depth; }
    void fail(std::errc why) noexcept;
    [[gnu::cold]] void start_again_soon(const ibv_wc& wc) noexcept;
    [[gnu::cold]] void start_again() noexcept;
    void lend(std::uint32_t buffer) noexcept;
    void ring() noexcept;
    void wake() noexcept;
    bool post(ud_operation& op) noexcept; ///< true: it is over
    void post_or_line_up(ud_operation& op) noexcept;
    void stand_for_way(ud_operation& op);
    bool resolve(resolution& r) noexcept;
    void resolve_more() noexcept;
    void resolved(const ibv_gid& gid, verbs::address_handle made, std::exception_ptr why) noexcept;
    void end(resolution& r, const std::exception_ptr& why) noexcept;
    void refuse(const ibv_gid& gid, std::exception_ptr why) noexcept;
    bool has_room() const noexcept { return posted_ - retired_ < options_.send_depth; }
    ibv_ah* handle_for(const ibv_gid& gid); ///< null: it is to be waited for. Throws
    ibv_ah* keep(const ibv_gid& gid, verbs::address_handle made); ///< throws

    unsigned references_ = 1;
    adapter& device_;
    ud_options options_;
    std::uint8_t port_;
    verbs::port_address address_;
    std::uint32_t mtu_;
    std::uint64_t work_base_ = 0;
    std::size_t stride_;
    registered_buffer memory_; ///< receive_depth buffers, then send_depth; outlives the queue pair, which writes to it
    std::optional<verbs::queue_pair> pair_;
    std::list<membership> groups_;
    verbs::send_chain chain_;
    verbs::receive_chain refill_;
    std::vector<known> handles_;
    std::vector<std::unique_ptr<resolution>> resolutions_; ///< the oldest first
    unsigned resolving_ = 0;                 ///< of them, those that have begun, and those whose socket has gone since
    std::array<refusal, remembered> refusals_;
    std::size_t next_refusal_ = 0;
    bool gone_ = false;                      ///< the socket
    std::size_t oldest_ = 0;
    std::uint32_t posted_ = 0, retired_ = 0, unsignalled_ = 0;
    std::vector<bool> lent_; ///< buffers that the device has, or is to get
    unsigned restarts_in_a_row_ = 0;
    bool restart_wanted_ = false;
    std::vector<arrival> arrived_;
    std::uint32_t arrived_first_ = 0, arrived_count_ = 0;
    std::errc failed_{};
};

} // namespace corewire::rdma
