// A NIC in memory that speaks verbs: for tests of everything above rdma/verbs, without a device, a kernel module or root.
//
//     the code under test -- set-up --> verbs_api of api() ---------.
//                         -- ibv_post_send(), ibv_poll_cq() ... ----+--> fake::nic --frames--> the other end of a wire
//                            (the library's inline calls)           '                          or of a simulated cable
//
// Datagrams of UD queue pairs, and what connected ones do, cross no wire: all fakes are ports of one switch, which finds a port by its GID.
// It is as strict as hardware: a wrong key, a range outside its region, too many pieces, a queue pair in the wrong state, an
// overrun queue have the effects that they have on a NIC (an errno, an error completion, an event). And it fails on
// demand. Any thread may use it, under one lock; packets move when somebody polls. It outlives what is made on it.
#pragma once

#include <corewire/net/port/port.hh>
#include <corewire/rdma/verbs/api.hh>
#include <corewire/rdma/verbs/cm_api.hh>
#include <corewire/reactor/base/time.hh>

#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace corewire::fake {

/// What the administrator of an InfiniBand subnet says of every group.
struct fabric_options {
    std::uint32_t key = 0x0b1b;
    std::uint16_t lid = 0xc001;
    std::uint8_t service_level = 0;
    bool answers = true;                   ///< false: there is none
};

/// An address of the table of GIDs.
struct nic_gid {
    ibv_gid gid{};
    ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
};

struct nic_options {
    std::string name = "fake0";
    mac_address mac{0x02'00'00'00'00'01};
    unsigned interface = 0;                ///< the kernel's network interface that it says it is behind; 0: none
    std::vector<ipv4> addresses{};         ///< in the table of GIDs, behind the link-local one
    std::vector<nic_gid> more_gids{};      ///< behind those: of IPv6, of RoCE version 1
    bool ethernet = true;                  ///< false: an InfiniBand link, without raw packets
    bool may_send_raw = true;              ///< false: as without CAP_NET_RAW
    bool checksums = true;                 ///< offloads: what a NIC of this kind can do
    bool segmentation = true;
    std::uint32_t max_segmented = 65536;   ///< bytes of a request that is cut
    bool spreading = true;                 ///< receive work queues and hashing queue pairs
    bool extended_sends = true;            ///< ibv_wr_*
    bool extended_completions = true;      ///< ibv_create_cq_ex
    bool thread_domains = true;
    bool loopback = true;                  ///< with two users, a frame to its own MAC comes back, as mlx5 has it
    bool keeps_tags = true;                ///< of VLANs in received frames
    bool moderation = true;                ///< of completion events
    bool spread_verdicts = false;          ///< checksums are judged for receive work queues, too: of spread flows mlx5 says nothing
    bool forgetful = false;                ///< a raw-packet queue pair's rules lead nowhere after its RESET
    bool windows = true;                   ///< memory windows of type 2
    unsigned max_work_requests = 8192;     ///< of a queue
    unsigned max_pieces = 4;               ///< scatter/gather elements of a work request
    unsigned max_inline = 256;             ///< bytes
    unsigned max_entries = 65536;          ///< of a completion queue
    unsigned max_rules = 1024;
    /// Time for what nobody answers: given up after its queue pair's retries. Without: at once.
    std::function<time_point()> clock{};
    fabric_options fabric{};               ///< InfiniBand: only ports that have joined a group, by rdma_cm, send to it or hear it
    unsigned mtu = 1500;                   ///< bytes of IP packet: longer frames are not sent
};

struct nic_statistics {
    std::uint64_t doorbells = 0;           ///< calls that gave work to the send side
    std::uint64_t receive_doorbells = 0;
    std::uint64_t sends = 0, signalled = 0, inline_sends = 0, gathered = 0; ///< work requests; gathered: of several pieces
    std::uint64_t frames_sent = 0, segments = 0; ///< segments: frames cut from TSO sends
    std::uint64_t frames_received = 0;     ///< put into a posted buffer
    std::uint64_t no_receive = 0;          ///< lost: nothing was posted
    std::uint64_t to_kernel = 0;           ///< no rule matched
    std::uint64_t datagrams_sent = 0, datagrams_received = 0; ///< of UD queue pairs; a group's members each receive one
    std::uint64_t datagrams_lost = 0;      ///< by the sender: nobody there, a wrong number or key, nobody in the group
    std::uint64_t requests_served = 0;     ///< of connected queue pairs, by the other end: messages, WRITEs, READs, atomics
    std::uint64_t lost_on_wire = 0;        ///< the link was down, or the wire took no more
    std::uint64_t completions = 0, events = 0;
    std::uint64_t moderated_us = 0;        ///< that a completion queue was last told to wait; of time the fake knows nothing
};

struct state; // objects.hh

class nic {
public:
    /// `wire`: where frames go and come from, an end of a wire or a simulated port; null: sent frames are counted and gone.
    explicit nic(nic_options options = {}, std::unique_ptr<port> wire = nullptr);
    ~nic();
    nic(const nic&) = delete;
    nic& operator=(const nic&) = delete;

    const nic_options& options() const noexcept;
    const nic_statistics& statistics() const noexcept;
    port* wire() const noexcept;
    /// What a strict device refused, in sentences: a test that expects none looks here.
    const std::vector<std::string>& violations() const noexcept;
    /// Objects that exist: queue pairs, regions and so on.
    unsigned live_objects() const noexcept;
    /// Called with what no rule takes.
    void on_kernel_frame(std::function<void(byte_span)> tell);
    /// Called with every frame that is sent, instead of the wire.
    void on_sent_frame(std::function<void(byte_span)> tell);

    /// A frame as if it came off the wire.
    [[gnu::noinline]] void deliver(byte_span frame); // what it costs is to be told from what a port costs (tools/bench rdma)
    /// Moves what waits on the wire; polling does it too.
    void pump();

    // ---- faults ----
    /// The next `times` calls of this name ("reg_mr", "modify_qp") fail with `error`, once `after` of them have gone well.
    void fail_calls(std::string_view call, int error, unsigned times = 1, unsigned after = 0);
    /// The next `count` sends complete with `status`, and their queue pair fails as it would with that.
    void fail_sends(ibv_wc_status status, unsigned count = 1);
    /// The next `count` receives complete with `status`.
    void fail_receives(ibv_wc_status status, unsigned count = 1);
    /// Sends go out, and their completions are kept back until release_completions().
    void hold_completions();
    void release_completions();
    /// The next `count` completions that should wake somebody don't.
    void lose_events(unsigned count);
    /// The next `count` datagrams that UD queue pairs send are lost on their way.
    void lose_datagrams(unsigned count);
    /// The next `count` datagrams that UD queue pairs receive come with 40 bytes that are no header, and (`told`) are said to be none.
    void spoil_headers(unsigned count, bool told);
    /// A queue pair neither answers nor asks any more, nor does rdma_cm speak for it: its host has lost its power.
    void mute_queue_pair(std::uint32_t number);
    /// The next `count` requests of connected queue pairs are done, and their senders never hear of it.
    void lose_acknowledgements(unsigned count);
    /// Nobody answers for this GID: calls of the set-up that look for a way to it (an address handle, a queue pair in RTR) wait, until
    /// release_ways() has all of them go on (0), or fail. `ways_awaited`: how many wait now.
    void hold_way_to(const ibv_gid& gid);
    void release_ways(int error = ETIMEDOUT);
    unsigned ways_awaited() const;
    /// Posted receives are seen by the device one pump later each: as a slow refill.
    void slow_refill(bool on);
    /// The subnet's administrator says other things of every group from now on.
    void set_fabric(const fabric_options& fabric);
    /// The subnet's administrator forgets which groups the port has joined, and says so (IBV_EVENT_CLIENT_REREGISTER).
    void forget_groups();
    /// Every queue pair goes to ERR with everything flushed, and says so (IBV_EVENT_QP_FATAL).
    void break_queue_pairs();
    void break_queue_pair(std::uint32_t number);
    /// The same of every receive work queue (IBV_EVENT_WQ_FATAL).
    void break_work_queues();
    /// The completion queues that there are have room for no more than `entries` from now on: what comes on top overruns them
    /// (IBV_EVENT_CQ_ERR). `quietly`: polls of one that has overrun find nothing, and no error: only the event tells.
    void shrink_completion_queues(unsigned entries, bool quietly = false);
    /// The port's state, and the event.
    void set_link(bool up);
    /// The device is gone: flushes, one event, and EIO from everything.
    void remove();

private:
    std::unique_ptr<state> state_;
};

/// The set-up calls of all fake NICs; their devices are listed by name.
const verbs::verbs_api& api() noexcept;
/// rdma_cm between them: RC connections, by their IP addresses.
const verbs::cm_api& cm() noexcept;

} // namespace corewire::fake
