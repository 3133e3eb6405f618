// The XDP program: which frames of an interface go to our AF_XDP sockets, and which to the kernel as before.
//
//     frame -> ours? -- yes -> the socket of the queue it came in on (the kernel, if that queue has none)
//                    -- no  -> the kernel
//
// It never drops and never changes a frame. A frame that is too short or strange to classify is the kernel's.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "steer_maps.h"

volatile const __u32 steering = CW_STEER_ADDRESSES;
volatile const __u32 vlan = 0; // ours, or 0: frames without a tag, and those whose tag carries a priority only

struct {
    __uint(type, BPF_MAP_TYPE_XSKMAP);
    __uint(max_entries, CW_MAX_QUEUES);
    __type(key, __u32);
    __type(value, __u32);
} sockets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CW_MAX_ADDRESSES);
    __type(key, __u32); // network byte order
    __type(value, __u8);
} addresses_v4 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CW_MAX_ADDRESSES);
    __type(key, struct cw_ipv6_key);
    __type(value, __u8);
} addresses_v6 SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CW_MAX_FLOWS);
    __type(key, struct cw_flow_key);
    __type(value, __u8);
    __uint(map_flags, BPF_F_NO_PREALLOC);
} flows SEC(".maps");

struct arp_ipv4 {
    __u8 header[8]; // hardware and protocol type, their lengths, the operation
    __u8 sender_mac[6];
    __u32 sender;
    __u8 target_mac[6];
    __u32 target;
} __attribute__((packed));

struct vlan_tag {
    __be16 tci;
    __be16 protocol;
};

struct port_pair {
    __be16 source;
    __be16 destination;
};

struct discovery { // RFC 4861 4.3, 4.4: neighbour solicitations and advertisements
    __u8 type;
    __u8 code;
    __u8 rest[6]; // checksum, flags or nothing
    struct cw_ipv6_key target;
};

struct dhcp_reply { // UDP, and RFC 2131 2
    struct port_pair ports;
    __u8 length_and_checksum[4];
    __u8 operation, hardware, hardware_length, hops;
    __u32 transaction;
};

struct icmp_error {
    __u8 type;
    __u8 code;
    __u8 rest[6]; // checksum, and what depends on the type
    struct iphdr quoted;
    struct port_pair ports;
};

struct icmp6_error {
    __u8 type;
    __u8 code;
    __u8 rest[6];
    struct ipv6hdr quoted;
    struct port_pair ports;
};

// Requests and replies for an address of ours, announcements (RFC 5227 3: sender and target are equal), and whatever another host says
// in the name of an address of ours: answers to a probe go to 0.0.0.0 (RFC 5227 2.1.1). The host's kernel confirms its neighbours by
// itself, so it misses nothing but an early hint.
static __always_inline int arp_is_ours(const void* at, const void* end) {
    const struct arp_ipv4* arp = at;
    if ((const void*)(arp + 1) > end) return 0;
    if (arp->sender == arp->target) return 1;
    __u32 target = arp->target, sender = arp->sender;
    return bpf_map_lookup_elem(&addresses_v4, &target) != 0 || bpf_map_lookup_elem(&addresses_v4, &sender) != 0;
}

static __always_inline int is_flow_of_ours(struct cw_flow_key* key) {
    if (bpf_map_lookup_elem(&flows, key)) return 1;
    __builtin_memset(&key->remote_address, 0, sizeof key->remote_address);
    key->remote_port = 0;
    if (bpf_map_lookup_elem(&flows, key)) return 1;
    __builtin_memset(&key->local_address, 0, sizeof key->local_address);
    return bpf_map_lookup_elem(&flows, key) != 0;
}

static __always_inline void set_ipv4(struct cw_ipv6_key* to, __u32 address) {
    to->words[0] = to->words[1] = 0;
    to->words[2] = bpf_htonl(0xffff);
    to->words[3] = address;
}

static __always_inline void set_ipv6(struct cw_ipv6_key* to, const struct in6_addr* address) {
    __builtin_memcpy(to, address, sizeof *to);
}

// An ICMP error quotes the packet that it is about, which we sent: its source is our end. The kernel knows no such flow.
static __always_inline int error_is_ours(const struct iphdr* ip, const void* end) {
    if (ip->ihl != 5) return 0;
    const struct icmp_error* error = (const void*)(ip + 1);
    if ((const void*)(error + 1) > end) return 0;
    if (error->type != 3 && error->type != 11 && error->type != 12) return 0;
    const struct iphdr* quoted = &error->quoted;
    if (quoted->ihl != 5 || (quoted->protocol != IPPROTO_TCP && quoted->protocol != IPPROTO_UDP)) return 0;
    if (quoted->frag_off & bpf_htons(0x1fff)) return 0; // not its first fragment: no ports
    struct cw_flow_key key = {.local_port = error->ports.source, .remote_port = error->ports.destination, .protocol = quoted->protocol};
    set_ipv4(&key.local_address, quoted->saddr);
    set_ipv4(&key.remote_address, quoted->daddr);
    return is_flow_of_ours(&key);
}

static __always_inline int flow_is_ours(const struct iphdr* ip, const void* end) {
    if (ip->frag_off & bpf_htons(0x3fff)) return 0; // fragments have no ports: the kernel keeps them
    if (ip->protocol == IPPROTO_ICMP) return error_is_ours(ip, end);
    if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP) return 0;
    if (ip->ihl < 5) return 0;
    const struct port_pair* ports = (const void*)((const char*)ip + ip->ihl * 4);
    if ((const void*)(ports + 1) > end) return 0;
    struct cw_flow_key key = {.local_port = ports->destination, .remote_port = ports->source, .protocol = ip->protocol};
    set_ipv4(&key.local_address, ip->daddr);
    set_ipv4(&key.remote_address, ip->saddr);
    return is_flow_of_ours(&key);
}

// The same over IPv6 (RFC 4443 3). Behind extension headers, fragments' among them, nobody looks: the kernel keeps such packets.
static __always_inline int flow6_is_ours(const struct ipv6hdr* ip, const void* end) {
    struct cw_flow_key key = {};
    const struct port_pair* ports = (const void*)(ip + 1);
    if (ip->nexthdr == IPPROTO_ICMPV6) {
        const struct icmp6_error* error = (const void*)(ip + 1);
        if ((const void*)(error + 1) > end || error->type == 0 || error->type > 4) return 0;
        const struct ipv6hdr* quoted = &error->quoted;
        if (quoted->nexthdr != IPPROTO_TCP && quoted->nexthdr != IPPROTO_UDP) return 0;
        key.protocol = quoted->nexthdr;
        key.local_port = error->ports.source;
        key.remote_port = error->ports.destination;
        set_ipv6(&key.local_address, &quoted->saddr);
        set_ipv6(&key.remote_address, &quoted->daddr);
        return is_flow_of_ours(&key);
    }
    if (ip->nexthdr != IPPROTO_TCP && ip->nexthdr != IPPROTO_UDP) return 0;
    if ((const void*)(ports + 1) > end) return 0;
    key.protocol = ip->nexthdr;
    key.local_port = ports->destination;
    key.remote_port = ports->source;
    set_ipv6(&key.local_address, &ip->daddr);
    set_ipv6(&key.remote_address, &ip->saddr);
    return is_flow_of_ours(&key);
}

// A DHCP server's answer to a question of ours, by the question's number: it may go to everybody, or to an address that is not ours yet.
// What answers the kernel's client stays the kernel's.
static __always_inline int dhcp_is_ours(const struct iphdr* ip, const void* end) {
    if (ip->protocol != IPPROTO_UDP || ip->ihl != 5 || (ip->frag_off & bpf_htons(0x3fff))) return 0;
    const struct dhcp_reply* reply = (const void*)(ip + 1);
    if ((const void*)(reply + 1) > end || reply->ports.destination != bpf_htons(68)) return 0;
    struct cw_flow_key key = {.local_port = bpf_htons(68), .remote_port = bpf_htons(67), .protocol = IPPROTO_UDP};
    set_ipv4(&key.local_address, reply->transaction);
    return bpf_map_lookup_elem(&flows, &key) != 0;
}

static __always_inline int ipv4_is_ours(const void* at, const void* end) {
    const struct iphdr* ip = at;
    if ((const void*)(ip + 1) > end) return 0;
    if (steering == CW_STEER_FLOWS) return flow_is_ours(ip, end);
    __u32 destination = ip->daddr;
    return bpf_map_lookup_elem(&addresses_v4, &destination) != 0 || dhcp_is_ours(ip, end);
}

static __always_inline int is_about_us(const struct discovery* nd) {
    struct cw_ipv6_key target = nd->target;
    return bpf_map_lookup_elem(&addresses_v6, &target) != 0;
}

// ICMPv6 to a group of the link whose members have something in common: ours by the address that it is about. 1, or 0; -1: it is something
// else.
//
// To all nodes (ff02::1), about an address of ours: somebody else has it, and says so to whoever asks (RFC 4862 5.4). To a solicited-node
// group (ff02::1:ff00:0/104): an address of the kernel's may have the same last 24 bits.
static __always_inline int discovery_is_ours(const struct ipv6hdr* ip, const struct cw_ipv6_key* destination, const void* end) {
    const __u8* to = destination->octets;
    if (to[0] != 0xff || to[1] != 2 || ip->nexthdr != IPPROTO_ICMPV6) return -1;
    const struct discovery* nd = (const void*)(ip + 1);
    if ((const void*)(nd + 1) > end) return -1;
    if (nd->type == 136 && to[15] == 1) return is_about_us(nd) ? 1 : -1;
    if (nd->type == 135 && to[11] == 1 && to[12] == 0xff) return is_about_us(nd);
    return -1;
}

static __always_inline int ipv6_is_ours(const void* at, const void* end) {
    const struct ipv6hdr* ip = at;
    if ((const void*)(ip + 1) > end) return 0;
    if (steering == CW_STEER_FLOWS) return flow6_is_ours(ip, end);
    struct cw_ipv6_key destination;
    __builtin_memcpy(&destination, &ip->daddr, sizeof destination);
    int about_us = discovery_is_ours(ip, &destination, end);
    if (about_us >= 0) return about_us;
    return bpf_map_lookup_elem(&addresses_v6, &destination) != 0;
}

static __always_inline int is_ours(const void* data, const void* end) {
    if (steering == CW_STEER_EVERYTHING) return 1;
    const struct ethhdr* ethernet = data;
    if ((const void*)(ethernet + 1) > end) return 0;
    const void* payload = ethernet + 1;
    __be16 protocol = ethernet->h_proto;
    if (protocol == bpf_htons(ETH_P_8021Q)) {
        const struct vlan_tag* tag = payload;
        if ((const void*)(tag + 1) > end) return 0;
        if ((bpf_ntohs(tag->tci) & 0xfff) != vlan) return 0; // another VLAN's: the kernel's
        protocol = tag->protocol;
        payload = tag + 1;
    } else if (vlan != 0) {
        return 0;
    }
    if (protocol == bpf_htons(ETH_P_IP)) return ipv4_is_ours(payload, end);
    if (protocol == bpf_htons(ETH_P_IPV6)) return ipv6_is_ours(payload, end);
    if (steering == CW_STEER_FLOWS) return 0;
    if (protocol == bpf_htons(ETH_P_ARP)) return arp_is_ours(payload, end);
    return protocol == bpf_htons(0x88b5); // IEEE 802 local experimental: bare frames of our own tools
}

static __always_inline int steer_frame(struct xdp_md* context) {
    const void* data = (const void*)(long)context->data;
    const void* end = (const void*)(long)context->data_end;
    if (!is_ours(data, end)) return XDP_PASS;
    return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
}

SEC("xdp")
int steer(struct xdp_md* context) { return steer_frame(context); }

// The same for kernels that can hand over frames in several pieces (6.6 and later): a local sender's 64 KiB frames.
SEC("xdp.frags")
int steer_pieces(struct xdp_md* context) { return steer_frame(context); }

char steer_license[] SEC("license") = "Dual BSD/GPL";
