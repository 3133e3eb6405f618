#include <corewire/rdma/verbs/error.hh>

#include <cerrno>
#include <system_error>

namespace corewire::verbs {

namespace {

struct advice {
    operation tried;
    int error; ///< 0: any
    std::string_view text;
};

constexpr std::string_view raise_open_files = "too many open files: raise `ulimit -n`";
constexpr std::string_view load_rdma_cm = "rdma_cm is not loaded: `modprobe rdma_ucm`";
constexpr std::string_view allow_raw_packets = "raw packets need CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` the program";

constexpr advice known[] = {
    {operation::list_devices, ENOSYS,
     "this kernel has no RDMA support: load ib_uverbs (`modprobe ib_uverbs`), or choose another --net"},
    {operation::list_devices, EPERM, "the RDMA devices may not be listed: run as root"},
    {operation::open_device, ENODEV,
     "`ibv_devices` lists the devices there are; `rdma link` shows their network interfaces"},
    {operation::open_device, EACCES,
     "the process may not open /dev/infiniband/uverbsN: run as root, or give the user access to it"},
    {operation::open_device, EMFILE, raise_open_files},
    {operation::query_device, 0, "its driver does not answer: see `dmesg`; `ibv_devinfo` should show it"},
    {operation::list_addresses, 0, "the driver does not tell its GIDs: see `dmesg`; `ibv_devinfo -v` should list them"},
    {operation::query, EINVAL, "the device has no such port: `ibv_devinfo` shows its ports"},
    {operation::query, ENOENT,
     "there is no such GID: `ibv_devinfo -v` lists them; an interface needs its address first"},
    {operation::allocate_domain, ENOMEM,
     "the device's limit is reached, or the memory-lock limit: raise `ulimit -l`"},
    {operation::map_memory, ENOMEM,
     "the host has less memory, or lets this process have less: `ulimit -v`, vm.overcommit_memory, vm.max_map_count"},
    {operation::register_memory, ENOMEM,
     "too little locked memory is allowed: raise `ulimit -l` (unlimited), or run as root"},
    {operation::register_memory, EFAULT,
     "the range is not mapped, or mapped read-only while write access is asked for"},
    {operation::register_memory, EINVAL, "remote write or atomic access needs local write access as well"},
    {operation::register_memory, EOPNOTSUPP, "the device does not know one of the access flags (on-demand paging?)"},
    {operation::make_window, ENOMEM,
     "the device has no more of them (max_mw of `ibv_devinfo -v`): expose less at a time, or do without (memory.windows = false)"},
    {operation::make_window, EOPNOTSUPP, "the driver has none, though the device says so: do without (memory.windows = false)"},
    {operation::create_completion_queue, EINVAL,
     "more entries than the device's max_cqe, or a completion vector that it does not have"},
    {operation::create_completion_queue, EOPNOTSUPP,
     "the driver has no extended completion queues: ask for no timestamps"},
    {operation::create_completion_queue, ENOMEM,
     "too little locked memory is allowed (raise `ulimit -l`), or the device's max_cq is reached"},
    {operation::moderate_events, 0, "the device moderates no events, or not so long: leave --moderation-us out, or lower it"},
    {operation::create_queue_pair, EINVAL,
     "more work requests, scatter elements or inline bytes than the device has (`ibv_devinfo -v`)"},
    {operation::create_queue_pair, ENOMEM,
     "too little locked memory is allowed (raise `ulimit -l`), or the device's max_qp is reached"},
    {operation::create_queue_pair, EOPNOTSUPP, "the driver does not know this kind of queue pair"},
    {operation::create_raw_queue_pair, EPERM, allow_raw_packets},
    {operation::create_raw_queue_pair, EOPNOTSUPP,
     "this device has no raw-packet queue pairs (rdma_rxe, InfiniBand links): choose --net=xdp"},
    {operation::create_raw_queue_pair, EINVAL,
     "the device has no raw-packet queue pairs of this size, or its link is not Ethernet"},
    {operation::create_raw_queue_pair, ENOMEM, "too little locked memory is allowed: raise `ulimit -l`"},
    {operation::move_queue_pair, EINVAL,
     "a wrong parameter for this state: port, GID index, P_Key index, MTU, or the peer's number"},
    {operation::move_queue_pair, ETIMEDOUT,
     "the peer's address was not resolved: is the GID right, and does the peer answer `ping`?"},
    {operation::move_queue_pair, ENETUNREACH,
     "no route to the peer's GID from ours: choose the GID index of the right network and RoCE version"},
    {operation::move_queue_pair, EHOSTUNREACH, "no neighbour answers for the peer's GID: is its address up?"},
    {operation::move_queue_pair, ENODEV, "the GID's network interface has gone"},
    {operation::create_receive_queue, EOPNOTSUPP, "the driver has no receive work queues (RSS): use one core"},
    {operation::create_receive_queue, EINVAL,
     "more work requests or scatter elements than the device has (`ibv_devinfo -v`)"},
    {operation::create_receive_queue, ENOMEM, "too little locked memory is allowed: raise `ulimit -l`"},
    {operation::create_receive_queue, EPERM, allow_raw_packets},
    {operation::arm_receive_limit, EINVAL, "the limit is more than the queue has room for"},
    {operation::arm_receive_limit, 0, "the driver tells no limits of shared queues: leave the limit out (0), and look at the queue"},
    {operation::create_receive_table, EOPNOTSUPP, "the driver has no receive work queues (RSS): use one core"},
    {operation::create_receive_table, 0,
     "more tables, or entries of one, than the device has (rss_caps of `ibv_devinfo -v`): use fewer cores, or one"},
    {operation::create_address_handle, EINVAL,
     "a wrong GID index, or a destination that is no GID of this kind of network"},
    {operation::create_address_handle, ETIMEDOUT,
     "the destination's address was not resolved: does it answer `ping`?"},
    {operation::create_address_handle, ENETUNREACH,
     "no route to the destination from this GID: choose the GID index of the right network"},
    {operation::find_ipoib, ENODEV, "load it and give it an IPv4 address (`modprobe ib_ipoib`, `ip address add`)"},
    {operation::join_multicast, ENOBUFS,
     "the kernel lets a socket join no more groups: raise net.ipv4.igmp_max_memberships, or net.core.optmem_max (`sysctl`)"},
    {operation::join_multicast, ETIMEDOUT, "the subnet's administrator does not answer: does a subnet manager (opensm) run?"},
    {operation::join_multicast, EMFILE, raise_open_files},
    {operation::join_multicast, EINVAL, "the group is no multicast GID, or the queue pair is not UD"},
    {operation::create_flow, EPERM, "steering packets needs CAP_NET_RAW: run as root"},
    {operation::create_flow, ENOMEM,
     "the device's flow table is full, or a rule like this exists (another program's?)"},
    {operation::create_flow, EBUSY, "another program has steered the same packets to itself"},
    {operation::create_flow, EEXIST, "another program has steered the same packets to itself"},
    {operation::create_flow, EOPNOTSUPP,
     "the device, or its mode, cannot steer by these fields (mlx4: log_num_mgm_entry_size=-1)"},
    {operation::create_flow, EINVAL, "the device cannot match these fields together"},
    {operation::open_connection_manager, EACCES,
     "the process may not open /dev/infiniband/rdma_cm: run as root, or give the user access to it"},
    {operation::open_connection_manager, EMFILE, raise_open_files},
    {operation::open_connection_manager, ENOENT, load_rdma_cm},
    {operation::open_connection_manager, ENODEV, "there is no RDMA device, or rdma_cm is not loaded (`modprobe rdma_ucm`)"},
    {operation::manage_connection, EACCES, "ports below 1024 need CAP_NET_BIND_SERVICE: run as root, or choose another port"},
    {operation::manage_connection, ENODEV,
     "no RDMA device carries this address, or rdma_cm is not loaded (`modprobe rdma_ucm`)"},
    {operation::manage_connection, ENOENT, load_rdma_cm},
    {operation::manage_connection, EADDRINUSE, "another program listens on this port"},
    {operation::manage_connection, EADDRNOTAVAIL, "no interface of this host has the address"},
    {operation::manage_connection, ECONNREFUSED, "nobody listens there"},
    {operation::manage_connection, ECONNABORTED, "the peer left while the connection was being made: try again"},
    {operation::manage_connection, ETIMEDOUT, "nobody answers there: is the host up, and does it answer `ping`?"},
    {operation::manage_connection, EHOSTUNREACH, "no route leads there from an RDMA device: `ip route get` shows the way"},
};

} // namespace

std::string_view remedy(operation tried, int error) noexcept {
    for (const advice& each : known)
        if (each.tried == tried && (each.error == error || each.error == 0)) return each.text;
    if (error == EIO || error == ENODEV) return "the device has gone or failed: see `dmesg`";
    return {};
}

void fail(operation tried, int error, const std::string& what) {
    std::string sentence = "cannot " + what;
    if (const std::string_view usual = remedy(tried, error); !usual.empty()) sentence.append(": ").append(usual);
    throw std::system_error(error, std::generic_category(), sentence);
}

} // namespace corewire::verbs
