// What steer.bpf.c and xdp_device.cc share: the values and keys of the BPF maps. Plain C, fixed-width, no padding left
// unnamed (BPF hashes keys byte by byte).
#pragma once

#include <linux/types.h>

// Which frames are ours; xdp_steering in xdp_device.hh.
#define CW_STEER_ADDRESSES 0
#define CW_STEER_FLOWS 1
#define CW_STEER_EVERYTHING 2

#define CW_MAX_QUEUES 256    // sockets map: one entry a receive queue
#define CW_MAX_ADDRESSES 256 // addresses of ours, multicast groups included
#define CW_MAX_FLOWS 65536   // listening ports and flows in shared mode

struct cw_ipv6_key {
    union {
        __u8 octets[16];
        __u32 words[4];
    };
};

// A connection or a port of ours, all in network byte order; IPv4 addresses in their mapped form (::ffff:a.b.c.d). The remote end is
// zero for a listening port, and the local address as well for one on every address of both families.
struct cw_flow_key {
    struct cw_ipv6_key local_address;
    struct cw_ipv6_key remote_address;
    __u16 local_port;
    __u16 remote_port;
    __u8 protocol;
    __u8 zero[3];
};
