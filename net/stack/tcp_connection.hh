// One TCP connection inside a stack: the sans-I/O tcb, who it is (4-tuple), how its packets leave (path), when it wants
// to be woken (one wheel timer), and which socket operations wait for it.
//
// Owned by its tcp_layer from SYN to CLOSED; a socket (stack_tcp_backend) borrows it while the user holds a stream.
// Bounded by the layer's limit on connections and by each tcb's own buffers.
#pragma once

#include <corewire/net/socket/provider.hh>
#include <corewire/net/stack/ipv6_path.hh>
#include <corewire/net/stack/output_path.hh>
#include <corewire/net/tcp/tcb.hh>
#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/loop/timer.hh>

#include <system_error>

namespace corewire {

class tcp_layer;
struct packet;
class tcp_listen_socket;

/// On the layer's list of connections that may have something to send.
class dirty_hook : public list_hook {};
/// On a listener's accept queue; or, when a user has it, among the layer's writers that wait for frames; or on none.
class accept_hook : public list_hook {};

class tcp_connection final : public dirty_hook, public accept_hook, private timer {
public:
    tcp_connection(tcp_layer& layer, const flow_name& flow, tcp::tcb tcb);

    tcp::tcb tcb;
    const flow_key key; ///< over IPv6: the ports alone
    output_path path;   ///< over IPv6: never current
    const std::unique_ptr<ipv6_flow> six; ///< null over IPv4
    flow_name name() const noexcept { return six == nullptr ? flow_name(key) : six->name; }

    // ---- what the socket calls; each returns true when the operation is finished ----
    bool start_read(read_operation& op) noexcept;
    bool start_write(write_operation& op) noexcept;
    bool start_connected(plain_operation& op) noexcept;
    bool start_drain(plain_operation& op) noexcept;
    bool start_wait_readable(plain_operation& op) noexcept;
    bool start_wait_writable(plain_operation& op) noexcept;
    void cancel(socket_operation& op) noexcept;
    std::errc shutdown() noexcept;
    void abort() noexcept;
    buffer allocate(std::uint32_t size) noexcept;

    /// Bytes that write() would take now. Once it has been 0 it stays so until a quarter of the buffer is free again, so
    /// that writers are not woken for every ACK.
    std::uint32_t room() noexcept {
        if (full_) return 0;
        const std::uint32_t free = tcb.writable();
        if (free == 0) [[unlikely]] full_ = true;
        return free;
    }
    /// What the tcb reported: wakes whoever waited for it.
    void react(tcp::event events) noexcept {
        using tcp::event;
        if (has(events, event::readable | event::end_of_stream)) settle_read();
        // Nearly every segment acknowledges all there was, and nobody waits for that.
        constexpr event everyday = event::readable | event::end_of_stream | event::all_acknowledged;
        if ((events | everyday) != everyday || waits_ != nullptr) [[unlikely]] react_to_the_rest(events);
    }
    // A segment that the tcb expects() arrived (header_prediction.hh), with or without a reader who waits for its payload.
    // `p` is empty afterwards; without a reader it starts at the payload.
    read_operation* reader_of(std::uint32_t size, const packet& p) const noexcept;
    void take_expected(time_point now, const tcp::plain_arrival& seg, packet& p, std::uint32_t header_size,
                       read_operation& reader) noexcept;
    void take_expected(time_point now, const tcp::plain_arrival& seg, packet& p) noexcept;
    /// The user let go of the stream: close gracefully, without an owner (RFC 9293 3.6, RFC 1122 4.2.2.13).
    void orphan() noexcept;
    /// A stop was asked for: waits that `which` names fail with ECANCELED.
    void end_waits(time_point now, ended_waits which) noexcept;
    bool orphaned() const noexcept { return !has_user_; }
    /// Somebody waits for bytes, with read() or with wait_readable().
    bool awaits_bytes() const noexcept { return reader_ != nullptr || (waits_ != nullptr && waits(wait::readable)); }
    void adopt() noexcept { has_user_ = true; }
    /// Of what its socket has asked for what counts before the handshake alone: to be told back.
    void keep_choices(const tcp_options_set& options) noexcept {
        chosen_fast_open_ = options.fast_open;
        chosen_probing_ = options.mtu_probing;
    }
    bool chosen_fast_open() const noexcept { return chosen_fast_open_; }
    path_mtu_probing chosen_probing() const noexcept { return chosen_probing_; }
    /// In use before its handshake is done (RFC 7413).
    bool early() const noexcept {
        const bool hurried = !tcb.options().like_linux() && tcb.fast_open_room() != 0; // its SYN has left for who reads first
        return tcb.serving_early() || tcb.fast_open().syn_data != 0 || tcb.waits_for_data() || hurried;
    }
    tcp_layer& layer() noexcept { return layer_; }
    /// Forward progress since the last call says that the next hop is there (RFC 4861 7.3.1). Called when the timer fires,
    /// which a busy connection's does many times a second, so that it costs nothing per packet.
    void confirm_neighbor() noexcept;
    /// When the wheel will wake it; `never` when its timer is not armed.
    time_point wakes_at() const noexcept { return armed() ? expiry() : never; }

    void check_invariants() const;

private:
    friend class tcp_layer;
    friend class tcp_listen_socket;
    enum class wait : std::uint8_t { connected, drained, readable, writable };
    void hurry() noexcept;
    bool nothing_will_come(read_operation& op) noexcept;
    bool nothing_will_go(write_operation& op) const noexcept;
    void settle_read() noexcept;
    void react_to_the_rest(tcp::event events) noexcept;
    bool take_write(write_operation& op) noexcept;
    bool copy_write(write_operation& op) noexcept;
    std::uint32_t write_into(frame& f, byte_span bytes) noexcept;
    std::uint32_t write_where_frames_are_rare(byte_span bytes) noexcept;
    void wait_for_room(write_operation& op) noexcept;
    write_operation& take_writer() noexcept;
    void read_now(read_operation& op) noexcept;
    void end_sending() noexcept;
    /// All that was written has been acknowledged, the FIN of a shutdown with it.
    bool drained() const noexcept { return writer_ == nullptr && tcb.all_acknowledged(); }
    void fail_all(std::errc why) noexcept;
    bool waits(wait what) const noexcept;
    void wait_for(wait what, plain_operation& op) noexcept;
    void finish(wait what, std::errc why = {}) noexcept;
    std::errc failure() const noexcept;

    bool half_open_ : 1 = false;   ///< counts in the listener's half-open ones
    bool connected_ : 1 = false;
    bool opened_here_ : 1 = false; ///< by connect(), not accepted
    bool erased_ : 1 = false;      ///< closed and out of the flow table; deleted when the user lets go
    bool shut_down_ : 1 = false;   ///< the user has closed the sending side
    bool chosen_fast_open_ : 1 = false; ///< tcp_options_set::fast_open and mtu_probing, as they were before the handshake
    path_mtu_probing chosen_probing_ : 2 = path_mtu_probing::standard;
    bool has_user_ = false;
    bool full_ = false;            ///< room() was 0, and event::writable has not come yet
    enum class claim : std::uint8_t { none, port, flow, in_progress } claim_ = claim::none; ///< what it holds of a host_share
    tcp::seq_number confirmed_at_; ///< SND.UNA at the last confirm_neighbor()
    tcp_layer& layer_;
    tcp_listen_socket* listener_ = nullptr; ///< whose backlog it counts in, until accepted
    tcp_listen_socket* early_listener_ = nullptr; ///< whose limit on Fast Open it counts in, until its handshake is done
    read_operation* reader_ = nullptr;
    write_operation* writer_ = nullptr;
    plain_operation* waits_ = nullptr; ///< at most one of each kind of wait
};

/// There may be a million of them on a shard, most of them idle: what few connections need goes behind a pointer
/// (tcp/send/seldom.hh, tcp/on_demand.hh), what is the same for many into tcp/commons.hh. docs/BENCHMARKS.md, `idle-bytes`.
static_assert(sizeof(tcp_connection) <= 912);

} // namespace corewire
