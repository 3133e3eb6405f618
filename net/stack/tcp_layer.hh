// TCP of one stack: which connection a segment belongs to, listeners and their backlogs, opening and burying connections,
// and turning what a tcb wants to send into packets. The protocol itself is net/tcp's; this is what surrounds it.
//
//     ip_input --segment--> input() --> tcb.on_segment() --> events wake socket operations
//     write(), timers, input --> mark_dirty() --> flush(): tcb.next_segment() --> packet --> egress
//
// One shard's. Bounded: connections (stack_config::max_connections), each listener's backlog, and egress.
#pragma once

#include <corewire/net/frame/small_blocks.hh>
#include <corewire/net/stack/config.hh>
#include <corewire/net/stack/egress.hh>
#include <corewire/net/stack/flow_table.hh>
#include <corewire/net/stack/ip_arrival.hh>
#include <corewire/net/stack/listener_table.hh>
#include <corewire/net/stack/opening_report.hh>
#include <corewire/net/stack/tcp_connection.hh>
#include <corewire/net/stack/tcp_listen_socket.hh>
#include <corewire/net/stack/tcp_tuning.hh>
#include <corewire/net/tcp/open/accurate_ecn_paths.hh>
#include <corewire/net/tcp/commons.hh>
#include <corewire/net/tcp/guard/buffer_budget.hh>
#include <corewire/net/tcp/guard/challenge_ack.hh>
#include <corewire/net/tcp/open/fast_open.hh>
#include <corewire/net/tcp/open/port_selection.hh>
#include <corewire/net/wire/icmp.hh>

#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace corewire {

class ip_output;
class ipv6_addresses;
class reactor;

class tcp_layer {
public:
    tcp_layer(reactor& loop, ip_output& out, egress& tx, frame_pool& pool, const stack_config& config,
              stack_statistics& statistics);
    ~tcp_layer();
    tcp_layer(const tcp_layer&) = delete;

    /// A TCP segment for one of our addresses; `p.head` starts at the TCP header and is cut to the datagram's length.
    void input(time_point now, packet& p, ipv4 source, ipv4 destination, ip_arrival under);
    /// The same over IPv6.
    void input(time_point now, packet& p, const net_address& source, const net_address& destination, ip_arrival under);
    /// Header prediction: takes a frame that is just what its connection expected next, and says so. Else nothing has
    /// changed, and the frame goes up the layers to input(). `p.head` starts at the Ethernet header. `Frame`: plain_frame.hh.
    template <typename Frame>
    bool take_expected(time_point now, packet& p, mac_address mac);
    bool anything_to_send() const noexcept { return !dirty_.empty(); }
    bool anything_to_do() const noexcept { return !dirty_.empty() || !dead_.empty(); }
    /// Sends what dirty connections have to say, while there is room. True if anything was sent.
    bool flush(time_point now);
    /// Of egress::leave_chores(): writers that found no frames, and connections that are over.
    bool do_chores(time_point now);
    /// An ICMP error about a segment of ours.
    /// `said`: the message, to be kept for take_report() if that ends an attempt to open; null: it is not.
    void on_icmp_error(const flow_name& flow, std::errc what, bool hard, tcp::seq_number seq, const icmp_report* said = nullptr);
    void on_no_route(time_point now, const flow_name& flow, tcp::seq_number seq);
    void on_path_mtu(time_point now, const flow_name& flow, std::uint32_t mtu, tcp::seq_number seq);

    // ---- for sockets ----
    /// Throws EADDRNOTAVAIL (no free port), ENETUNREACH, EADDRINUSE (the 4-tuple), ENOBUFS (connection limit).
    /// A local port of 0: we choose.
    tcp_connection& open(const flow_name& wanted, const tcp_options_set& options, const tcp_tuning& tuning = {});
    tcp_connection& open(ipv4 local, std::uint16_t local_port, ipv4 remote, std::uint16_t remote_port,
                         const tcp_options_set& options, const tcp_tuning& tuning = {}) {
        return open({local, remote, local_port, remote_port}, options, tuning);
    }
    ipv4 own_address() const noexcept;
    /// `wanted`, or a free one if that is 0.
    std::uint16_t choose_listen_port(std::uint16_t wanted);
    /// Whether a connection to this server would take data along in its SYN (RFC 7413).
    bool knows_fast_open(const net_address& server) const noexcept;
    /// In place of those that change every day.
    void set_fast_open_keys(const tcp::fast_open_keys& keys) noexcept { fast_open_keys_.fix(keys); }
    /// From now on: data in a SYN is taken without a cookie.
    void take_data_without_cookie(bool on) noexcept { no_cookie_needed_ = on; }
    /// The headers of the SYN that has opened `c`, as its listener kept them. Once: they are kept no longer. Empty: none are.
    std::vector<std::byte> take_saved_syn(const tcp_connection& c);
    /// With Linux's habits: what ICMP said that ended an attempt to open (ip(7), IP_RECVERR). Once.
    std::optional<opening_report> take_report(const tcp_connection& c);
    /// Throws EADDRINUSE. One for a single address may be beside one for all; with Linux's and FreeBSD's habits it may not (bind(2)).
    void add_listener(tcp_listen_socket& listener);
    void remove_listener(tcp_listen_socket& listener) noexcept;
    /// The handle's owner is gone: closes or deletes the connection.
    void let_go(tcp_connection& connection) noexcept;

    // ---- for connections ----
    void mark_dirty(tcp_connection& c) noexcept {
        if (!static_cast<dirty_hook&>(c).linked()) dirty_.push_back(c);
    }
    void on_wake(tcp_connection& c) noexcept;
    /// R1 retransmissions of one segment: perhaps its next hop is dead (RFC 9293 3.8.3, MUST-20).
    void doubt_next_hop(const tcp_connection& c) noexcept;
    void on_established(tcp_connection& c) noexcept;
    void on_closed(tcp_connection& c) noexcept;
    /// Fast Open: the handshake of one that is in use already is done; and of one of ours, which has told about its server.
    void on_early_established(tcp_connection& c) noexcept;
    void learn_fast_open(tcp_connection& c) noexcept;
    /// The same of AccECN (RFC 9768 3.1.4.1).
    void learn_accurate_path(const tcp_connection& c);
    /// The pool was empty: the connection's writer is tried again when frames have come home.
    void wait_for_frames(tcp_connection& c) noexcept;
    frame_pool& pool() noexcept { return pool_; }
    /// The last frames of the pool are for receiving what frees others: writers wait, and payload that nobody waits for is
    /// dropped as if the network had lost it, unless it is small, or the upper half of them is there yet and nothing waits to be read.
    bool frames_are_scarce() const noexcept { return pool_.free_count < reserve_; }
    /// There are some yet, so small segments that wait to be read are copied out of theirs.
    bool frames_are_rare() const noexcept { return pool_.free_count < rare_; }
    /// Of 1 to small_blocks::most bytes, in no frame; empty: there is no room.
    buffer small_copy(byte_span bytes) noexcept {
        buffer copy = blocks_.copy(bytes);
        statistics_.tcp_small_kept += !copy.empty();
        return copy;
    }
    /// For what its user writes. A connection that holds few frames gets some from the upper half of that reserve: those who hold many,
    /// whose peers do not take them, stop the others' large writes only. `is_new`: it has not waited yet, as others perhaps do.
    bool may_take_frame(const tcp_connection& c, bool is_new) const noexcept;
    time_point now() const noexcept;
    /// What connections use that have not chosen for themselves.
    tcp::congestion_factory standard_congestion() const noexcept { return config_.tcp.congestion; }
    duration standard_fin_wait_2() const noexcept { return config_.orphan_timeout; }

    /// What buffers have grown by.
    const tcp::buffer_budget& buffer_growth() const noexcept { return budget_; }
    /// What connections hold together.
    const tcp::commons& commons() const noexcept { return commons_; }
    std::size_t connections() const noexcept { return table_.size() + table6_.size(); }
    template <typename Visit>
    void for_each_connection(Visit&& visit) const {
        table_.for_each(visit);
        table6_.for_each(visit);
    }
    /// The same in portions, as flow_table::visit() does it: IPv4's slots, then IPv6's.
    template <typename Visit>
    std::size_t visit_connections(std::size_t first, std::size_t count, Visit&& visit) const {
        if (first < ipv6_slots) {
            const std::size_t next = table_.visit(first, count, visit);
            if (next != 0) return next;
            return table6_.size() == 0 ? 0 : ipv6_slots;
        }
        const std::size_t next = table6_.visit(first - ipv6_slots, count, visit);
        return next == 0 ? 0 : next + ipv6_slots;
    }
    /// What the connections that are gone have counted.
    const tcp::counters& closed_counters() const noexcept { return closed_counters_; }
    /// Which local ports this shard may open flows from, so that replies come home (RSS); empty: any.
    void set_home_predicate(std::function<bool(const flow_name&)> is_home) { is_home_ = std::move(is_home); }
    /// Its parameters say other marks for its packets.
    void on_marking_changed(tcp_connection& c) noexcept { prepare_path(c); }
    /// tcp_options_set::hops and traffic_class; where they are 0, what stack_config says.
    void mark(tcp_connection& c, const tcp_options_set& options) noexcept;
    /// Routes are others: every connection of these families looks for its way anew.
    void on_routes_changed(bool four = true, bool six = true) noexcept;
    /// Routes, or the link, say other sizes.
    void fit_into_paths() noexcept;
    /// A segment that starts at `seq` may be on its way (RFC 5927 4.1).
    bool has_in_flight(const flow_name& flow, tcp::seq_number seq) const noexcept;
    /// From now on connections may ask for hops (parameters::least_time_to_live): what has fewer left is dropped.
    void judge_hops() noexcept { judges_hops_ = looks_closer_ = true; }
    /// Its connection, or who listens there, takes nothing with so few hops left; of ICMP's errors, those that quote such (as Linux).
    bool is_from_too_far(const flow_name& flow, unsigned hops_left);
    /// What became of a claim that was in progress (host_share::claim_flow): 0, or an errno with which the connection ends.
    void follow_claim(const flow_name& flow, int error);
    /// The address is not ours any more: its connections end with ECONNABORTED.
    void on_address_gone(ipv4 address);
    /// Each once, also one of both families.
    template <typename Visit>
    void for_each_listener(Visit&& visit) const {
        listeners_.for_each(visit);
    }
    /// What a stack still has that should have none of it any more. A connection's timer is part of it, and so is its local port.
    struct remains {
        std::size_t connections, over; ///< in the tables; and those that have left them and are not deleted
        std::size_t listeners, saved_syns, reports, starved;
        std::uint64_t parameter_users; ///< of sets and controllers in commons()
        std::uint64_t sum() const noexcept { return connections + over + listeners + saved_syns + reports + starved + parameter_users; }
    };
    remains what_remains() const;
    void check_invariants() const;

private:
    friend class tcp_connection;
    void on_segment(time_point now, tcp_connection& c, const tcp::segment& s, packet& p);
    static constexpr std::uint32_t few_ahead = 4; ///< pieces beyond gaps that may keep their frames, however small they are
    bool make_affordable(const tcp_connection& c, const tcp::segment& s, packet& p) noexcept;
    void take_without_payload(time_point now, tcp_connection& c, const tcp::segment& s, packet& p);
    bool reincarnate(time_point now, tcp_connection& c, const tcp::segment& s, packet& p);
    /// `floor`: not null in the place of a connection in TIME-WAIT, whose numbers end there.
    void no_connection(time_point now, const flow_name& flow, const tcp::segment& s, packet& p, const tcp::seq_number* floor = nullptr);
    void on_syn(time_point now, tcp_listen_socket& listener, const flow_name& flow, const tcp::segment& s, packet& p,
                const tcp::seq_number* floor);
    void keep_report(const tcp_connection& c, std::errc error, const icmp_report& report);
    void save_syn(const tcp_connection& c, tcp_listen_socket& listener, const packet& p);
    void reflect_service(tcp::parameters& ours, const flow_name& flow, const packet& p) const noexcept;
    template <typename Address>
    bool stands_a_closer_look(const Address& source, const Address& destination, const wire::tcp_view& view, unsigned hops_left);
    void end_a_time_wait();
    /// From the last number of a connection in TIME-WAIT to the first of the one that takes its place: beyond any window without a scale.
    static constexpr std::uint32_t incarnation_gap = 65'537;
    struct local_claim {
        int said = 0; ///< host_share::claim_flow()
        std::optional<tcp::seq_number> floor{}; ///< of a connection in TIME-WAIT whose place is taken
        std::uint32_t older_timestamp = 0;      ///< and what its peer's clock said last
    };
    local_claim claim_local_port(flow_name& flow, bool timestamps);
    tcp_connection* choose_local_port(flow_name& flow, bool timestamps, int& said);
    local_claim take_place_of(tcp_connection& old) noexcept;
    int claim_flow(const flow_name& flow);
    tcp::fast_open_answer judge_fast_open(time_point now, tcp_listen_socket& listener, const flow_name& flow, const tcp::segment& s);
    tcp::fast_open_request request_fast_open(time_point now, const net_address& server, const tcp::parameters& p);
    void open_early(tcp_listen_socket& listener, tcp_connection& c, packet& p);
    bool on_cookie(time_point now, tcp_listen_socket& listener, const flow_name& flow, const tcp::segment& s, packet& p);
    void answer_with_cookie(time_point now, tcp_listen_socket& listener, const flow_name& flow, const tcp::segment& s);
    /// What owner_of() has found last. When it has left the table `flow` is no frame's.
    template <typename Flow>
    struct found_last {
        Flow flow;
        tcp_connection* connection = nullptr;
    };
    found_last<wire_flow>& last_of(const wire_flow&) noexcept { return last4_; }
    found_last<ipv6_wire_flow>& last_of(const ipv6_wire_flow&) noexcept { return last6_; }
    const flow_table<tcp_connection>& table_of(const wire_flow&) const noexcept { return table_; }
    const flow_table<tcp_connection, flow_name>& table_of(const ipv6_wire_flow&) const noexcept { return table6_; }
    template <typename Frame>
    tcp_connection* owner_of(const Frame& frame) noexcept;
    template <typename Frame>
    tcp_connection* look_up(Frame frame) noexcept;
    bool still_for_us(tcp_connection& c) const noexcept;
    static bool look_at_addresses(ipv6_flow& flow, const ipv6_addresses& ours) noexcept;
    tcp_connection* add_connection(const flow_name& flow, tcp::tcb&& block);
    void send_reset(const flow_name& flow, const tcp::segment& s);
    tcp_connection* find(const flow_name& flow) const noexcept {
        return flow.is_v4() ? table_.find(flow.key()) : table6_.find(flow);
    }
    /// Who listens where the flow has come to, or null.
    tcp_listen_socket* listener_for(const flow_name& flow) const noexcept { return listeners_.find(flow.local, flow.local_port); }
    void prepare_path(tcp_connection& c) noexcept;
    tcp::four_tuple tuple_of(const flow_name& flow) const noexcept;
    /// Of our clock towards this peer.
    std::uint32_t timestamp_offset(const flow_name& flow) const noexcept;
    struct header_ports {
        std::uint16_t local = 0, remote = 0;
    };
    template <typename Address>
    bool take_header(packet& p, const Address& source, const Address& destination, ip_arrival under, tcp::segment& s, header_ports& ports);
    template <typename Frame>
    bool checksums_hold(packet& p) noexcept;
    bool send_dirty(time_point now);
    bool emit_all(time_point now, tcp_connection& c);
    bool emit_all_over_ipv6(time_point now, tcp_connection& c);
    // `Path` is output_path or ipv6_path, `Output` what keeps it right: ip_output or ipv6_output.
    template <typename Path, typename Output>
    bool emit_each(time_point now, tcp_connection& c, Path& path, Output& out);
    template <typename Path, typename Output>
    bool emit(time_point now, tcp_connection& c, const tcp::outgoing_segment& s, Path& path, Output& out);
    template <typename Frame, typename Output>
    bool emit_plain(time_point now, tcp_connection& c, typename Frame::path& path, Output& out);
    std::byte* place_payload(tcp_connection& c, const tcp::outgoing_segment& s, packet& p, std::uint32_t header_size);
    std::byte* place_chunk(const buffer& chunk, std::uint32_t offset, std::uint32_t size, packet& p, std::uint32_t header_size);
    template <typename Path>
    void finish_checksum(packet& p, std::byte* at, const Path& path);
    void send_bare(const flow_name& flow, const tcp::outgoing_segment& s, const tcp::parameters& marks);
    template <typename Path, typename Output>
    void send_bare(packet& p, std::uint32_t tcp_size, Path& path, Output& out);
    void rearm(tcp_connection& c) noexcept;
    void retry_starved(unsigned portion) noexcept;
    void note_scarcity() noexcept;
    void look_at_scarcity() noexcept;
    void doom(tcp_connection& c) noexcept;
    void bury() noexcept;
    void claim_port_for(tcp_connection& c);
    void release_claim(tcp_connection& c) noexcept;
    void share_path_mtu(time_point now, const tcp_connection& c) noexcept;
    void explain_bad_checksum(const net_address& source, wire::tcp_flags flags);
    tcp::parameters parameters_for(const tcp_options_set& options, const net_address& remote, const tcp_tuning& tuning);

    reactor& reactor_;
    ip_output& out_;
    egress& egress_;
    frame_pool& pool_;
    const std::uint32_t reserve_; ///< frames
    const std::uint32_t rare_;    ///< frames, more than `reserve_`
    small_blocks blocks_;
    const stack_config& config_;
    stack_statistics& statistics_;
    tcp::counters closed_counters_;
    port_capabilities port_;
    flow_table<tcp_connection> table_;
    flow_table<tcp_connection, flow_name> table6_;
    static constexpr std::size_t ipv6_slots = std::size_t{1} << 40; ///< visit_connections() counts table6_'s slots from here
    found_last<wire_flow> last4_;
    found_last<ipv6_wire_flow> last6_;
    intrusive_list<dirty_hook> dirty_;
    intrusive_list<dirty_hook> claiming_; ///< dirty, and nothing may be sent before their claim has been granted
    listener_table listeners_;
    std::unordered_map<const tcp_connection*, std::vector<std::byte>> saved_syns_; ///< of connections that nobody has accepted yet
    std::unordered_map<const tcp_connection*, opening_report> reports_; ///< of connections that a socket has still
    std::uint32_t syn_header_ = 0; ///< bytes of TCP's header of the SYN that came last
    std::uint32_t syn_ip_header_ = 0; ///< and of what lies in front of it, from IP's header on
    std::size_t looked_at_ = 0; ///< where end_a_time_wait() goes on, as visit_connections() counts
    intrusive_list<accept_hook> starved_; ///< writers that wait for frames, who has waited longest first
    static constexpr duration scarcity_interval = std::chrono::milliseconds{100};
    struct scarcity_watch final : timer {
        explicit scarcity_watch(tcp_layer& of) noexcept
            : timer([](timer& t) noexcept { static_cast<scarcity_watch&>(t).layer.look_at_scarcity(); }), layer(of) {}
        tcp_layer& layer;
    };
    scarcity_watch scarcity_{*this}; ///< armed from when frames were found scarce until they are not
    unsigned scarce_looks_ = 0;      ///< at frames that were scarce, in a row
    time_point relieved_at_{};       ///< when something was last dropped
    std::size_t relieved_ = 0;       ///< where it goes on, as visit_connections() counts
    std::vector<tcp_connection*> dead_;
    std::size_t over_ = 0; ///< connections that are closed and not deleted, those of dead_ among them
    std::function<bool(const flow_name&)> is_home_;
    siphash_key isn_key_;
    siphash_key cookie_key_;
    siphash_key timestamp_key_;
    tcp::fast_open_key_chain fast_open_keys_;
    tcp::fast_open_cache fast_open_servers_;
    tcp::accurate_ecn_paths accurate_paths_;
    bool no_cookie_needed_ = false;
    bool looks_closer_ = false; ///< for signatures, which is Linux's habit, and hops
    bool judges_hops_ = false;
    random_generator random_;
    tcp::port_selector ports_;
    tcp::challenge_limiter challenges_;
    tcp::buffer_budget budget_;
    tcp::commons commons_;
    unsigned bad_syns_ = 0; ///< SYNs with a wrong checksum from one host, and since the last good one of anybody's
    net_address bad_syn_source_{};
};

} // namespace corewire
