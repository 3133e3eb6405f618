#!/usr/bin/env python3
"""Writes the machines that the tests plan for, as hwloc's XML with I/O objects: `make_machines.py FOLDER`.

Each is a machine that a person may meet: its CPUs are numbered as Linux numbers them there, its NIC stands where it would stand.
"""
import sys
from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30


def bits(numbers):
    """hwloc's text of a set: words of 32 bits, the highest first."""
    value = sum(1 << n for n in numbers)
    words = []
    while True:
        words.append(value & 0xffffffff)
        value >>= 32
        if not value:
            break
    return ",".join(f"0x{w:08x}" for w in reversed(words))


class Machine:
    def __init__(self):
        self.next_index = 1
        self.lines = []

    def open(self, depth, kind, cpus, nodes, extra="", closed=False):
        sets = ""
        if cpus is not None:
            sets = (f' cpuset="{bits(cpus)}" complete_cpuset="{bits(cpus)}" nodeset="{bits(nodes)}" '
                    f'complete_nodeset="{bits(nodes)}"')
        self.lines.append(f'{"  " * depth}<object type="{kind}"{sets}{extra} gp_index="{self.next_index}"{"/" if closed else ""}>')
        self.next_index += 1

    def close(self, depth):
        self.lines.append(f'{"  " * depth}</object>')

    def info(self, depth, **values):
        for name, value in values.items():
            self.lines.append(f'{"  " * depth}<info name="{name}" value="{value}"/>')

    def cache(self, depth, kind, level, size, cpus, nodes, cache_type=0):
        self.open(depth, kind, cpus, nodes, f' cache_size="{size}" depth="{level}" cache_linesize="64" '
                                            f'cache_associativity="8" cache_type="{cache_type}"')

    def core(self, depth, cpus, nodes, l2, l1):
        """A core with its own L2 (unless the caller has made a shared one: l2 = 0) and L1."""
        if l2:
            self.cache(depth, "L2Cache", 2, l2, cpus, nodes)
        self.cache(depth, "L1Cache", 1, l1, cpus, nodes, 1)
        self.open(depth, "Core", cpus, nodes, f' os_index="{min(cpus)}"')
        for cpu in cpus:
            self.open(depth + 1, "PU", [cpu], nodes, f' os_index="{cpu}"', True)
        for _ in range(3 if l2 else 2):
            self.close(depth)

    def numa(self, depth, node, cpus, size):
        self.open(depth, "NUMANode", cpus, [node], f' os_index="{node}" local_memory="{size}"')
        self.lines.append(f'{"  " * (depth + 1)}<page_type size="4096" count="{size // 4096}"/>')
        self.close(depth)

    def nic(self, depth, bus, model, ports, link="31.5"):
        """ports: (name, queues or None, RDMA device or None), one PCI function each."""
        vendor, device, ids = model
        first = bus.split(":")[0]
        self.open(depth, "Bridge", None, None, f' bridge_type="0-1" depth="0" bridge_pci="0000:[{first}-{first}]"')
        for function, (name, queues, rdma) in enumerate(ports):
            self.open(depth + 1, "PCIDev", None, None, f' pci_busid="0000:{bus}.{function}" pci_type="0200 [{ids}] [{ids}] 00" '
                                                       f'pci_link_speed="{link}00000"')
            self.info(depth + 2, PCIVendor=vendor, PCIDevice=device)
            self.open(depth + 2, "OSDev", None, None, f' name="{name}" osdev_type="2"')
            self.info(depth + 3, Address=f"02:00:00:00:{function:02x}:01")
            if queues:
                self.info(depth + 3, CorewireQueues=queues)
            self.close(depth + 2)
            if rdma:
                self.open(depth + 2, "OSDev", None, None, f' name="{rdma}" osdev_type="3"', True)
            self.close(depth + 1)
        self.close(depth)

    def machine(self, cpus, nodes, allowed=None, **infos):
        self.lines += ['<?xml version="1.0" encoding="UTF-8"?>', '<!DOCTYPE topology SYSTEM "hwloc2.dtd">', '<topology version="2.0">']
        self.open(1, "Machine", cpus, nodes, f' os_index="0" allowed_cpuset="{bits(allowed or cpus)}" allowed_nodeset="{bits(nodes)}"')
        self.info(2, OSName="Linux", **infos)

    def text(self, kinds=(), distances=()):
        """distances: rows of the firmware's table (SLIT), one a NUMA node."""
        self.close(1)
        if distances:
            nodes = " ".join(str(n) for n in range(len(distances)))
            values = " ".join(str(d) for row in distances for d in row)
            self.lines += [f'  <distances2 type="NUMANode" nbobjs="{len(distances)}" kind="5" name="NUMALatency" indexing="os">',
                           f'    <indexes length="{len(nodes)}">{nodes}</indexes>',
                           f'    <u64values length="{len(values)}">{values}</u64values>', "  </distances2>"]
        for cpus, efficiency, name in kinds:
            self.lines.append(f'  <cpukind cpuset="{bits(cpus)}" forced_efficiency="{efficiency}">')
            self.lines.append(f'    <info name="CoreType" value="{name}"/>')
            self.lines.append("  </cpukind>")
        return "\n".join(self.lines + ["</topology>", ""])


CONNECTX6 = ("Mellanox Technologies", "MT2892 Family [ConnectX-6 Dx]", "15b3:101d")
INTEL_E810 = ("Intel Corporation", "Ethernet Controller E810-C for QSFP", "8086:1592")
INTEL_X710 = ("Intel Corporation", "Ethernet Controller X710 for 10GbE SFP+", "8086:1572")
INTEL_I226 = ("Intel Corporation", "Ethernet Controller I226-V", "8086:125c")
VIRTIO = ("Red Hat, Inc.", "Virtio network device", "1af4:1000")
ENA = ("Amazon.com, Inc.", "Elastic Network Adapter (ENA)", "1d0f:ec20")


def two_sockets(queues=63, **infos):
    """2 packages of 32 cores with 2 threads; CPUs 0-31 and 32-63 are the cores, 64-127 their second threads. NIC on the second."""
    m = Machine()
    m.machine(range(128), [0, 1], **infos)
    for package in range(2):
        own = [c + t for t in (0, 64) for c in range(package * 32, package * 32 + 32)]
        m.open(2, "Package", own, [package], f' os_index="{package}"')
        m.info(3, CPUVendor="GenuineIntel", CPUModel="Intel(R) Xeon(R) Platinum 8362 CPU @ 2.80GHz")
        m.numa(3, package, own, 256 * GIB)
        m.cache(3, "L3Cache", 3, 48 * MIB, own, [package])
        for core in range(package * 32, package * 32 + 32):
            m.core(4, [core, core + 64], [package], 1280 << 10, 48 << 10)
        m.close(3)
        if package == 0:
            m.nic(3, "18:00", INTEL_X710, [("eth0", 8, None)], "7.9")
        else:
            m.nic(3, "98:00", CONNECTX6, [("eth1", queues, "mlx5_0"), ("eth2", queues, "mlx5_1")])
        m.close(2)
    return m.text(distances=[[10, 21], [21, 10]])


def eight_nodes():
    """2 packages with 4 NUMA nodes each (NPS4), a node of 2 CCX of 8 cores, 1 thread taken of 2: CPUs 128-255 are second threads."""
    m = Machine()
    m.machine(range(256), range(8))
    for package in range(2):
        own = [c + t for t in (0, 128) for c in range(package * 64, package * 64 + 64)]
        nodes = list(range(package * 4, package * 4 + 4))
        m.open(2, "Package", own, nodes, f' os_index="{package}"')
        m.info(3, CPUVendor="AuthenticAMD", CPUModel="AMD EPYC 9554 64-Core Processor")
        for node in nodes:
            cores = range(node * 16, node * 16 + 16)
            mine = [c + t for t in (0, 128) for c in cores]
            m.open(3, "Group", mine, [node], ' kind="0" subkind="0"')
            m.numa(4, node, mine, 96 * GIB)
            for ccx in range(2):
                part = cores[ccx * 8:ccx * 8 + 8]
                shared = [c + t for t in (0, 128) for c in part]
                m.cache(4, "L3Cache", 3, 32 * MIB, shared, [node])
                for core in part:
                    m.core(5, [core, core + 128], [node], 1 * MIB, 32 << 10)
                m.close(4)
            if node == 5:
                m.nic(4, "a1:00", INTEL_E810, [("ens1", 64, None)])
            m.close(3)
        m.close(2)
    return m.text(distances=[[10 if a == b else 12 if a // 4 == b // 4 else 32 for b in range(8)] for a in range(8)])


def hybrid():
    """8 fast cores with 2 threads (CPUs 0-15, siblings are neighbours), 16 slow ones (16-31) in clusters of 4 behind one L2."""
    m = Machine()
    m.machine(range(32), [0])
    m.open(2, "Package", range(32), [0], ' os_index="0"')
    m.info(3, CPUVendor="GenuineIntel", CPUModel="13th Gen Intel(R) Core(TM) i9-13900K")
    m.numa(3, 0, range(32), 64 * GIB)
    m.cache(3, "L3Cache", 3, 36 * MIB, range(32), [0])
    for core in range(8):
        m.core(4, [2 * core, 2 * core + 1], [0], 2 * MIB, 48 << 10)
    for cluster in range(16, 32, 4):
        m.cache(4, "L2Cache", 2, 4 * MIB, range(cluster, cluster + 4), [0])
        for core in range(cluster, cluster + 4):
            m.core(5, [core], [0], 0, 32 << 10)
        m.close(4)
    m.close(3)
    m.close(2)
    m.nic(2, "04:00", INTEL_I226, [("enp4s0", 4, None)], "0.5")
    return m.text([(range(16, 32), 0, "IntelAtom"), (range(16), 1, "IntelCore")])


def arm(cores=80):
    """80 cores, one thread each, one NUMA node, a system cache shared by all."""
    m = Machine()
    m.machine(range(cores), [0], Architecture="aarch64")
    m.open(2, "Package", range(cores), [0], ' os_index="0"')
    m.info(3, CPUModel="Ampere Altra Q80-30")
    m.numa(3, 0, range(cores), 256 * GIB)
    m.cache(3, "L3Cache", 3, 32 * MIB, range(cores), [0])
    for core in range(cores):
        m.core(4, [core], [0], 1 * MIB, 64 << 10)
    m.close(3)
    m.close(2)
    m.nic(2, "01:00", CONNECTX6, [("enp1s0f0", 32, "mlx5_0")])
    return m.text()


def container(allowed=(10, 11, 58, 59), **infos):
    """2 packages of 24 cores with 2 threads (0-47, 48-95); the container's cpuset holds 2 cores of the first."""
    m = Machine()
    m.machine(range(96), [0, 1], allowed, **infos)
    for package in range(2):
        own = [c + t for t in (0, 48) for c in range(package * 24, package * 24 + 24)]
        m.open(2, "Package", own, [package], f' os_index="{package}"')
        m.info(3, CPUVendor="GenuineIntel", CPUModel="Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz")
        m.numa(3, package, own, 192 * GIB)
        m.cache(3, "L3Cache", 3, 36608 << 10, own, [package])
        for core in range(package * 24, package * 24 + 24):
            m.core(4, [core, core + 48], [package], 1 * MIB, 32 << 10)
        m.close(3)
        if package == 0:
            m.nic(3, "3b:00", ENA, [("eth0", 8, None)], "15.7")
        m.close(2)
    return m.text()


def two_small_packages():
    """Two packages of one core, as a VM has with `sockets=2`, and passed through to it a NIC that is next to the first."""
    m = Machine()
    m.machine(range(2), [0, 1])
    for package in range(2):
        m.open(2, "Package", [package], [package], f' os_index="{package}"')
        m.info(3, CPUVendor="AuthenticAMD", CPUModel="AMD EPYC-Milan Processor")
        m.numa(3, package, [package], 4 * GIB)
        m.cache(3, "L3Cache", 3, 32 * MIB, [package], [package])
        m.core(4, [package], [package], 512 << 10, 32 << 10)
        m.close(3)
        if package == 0:
            m.nic(3, "01:00", CONNECTX6, [("ens1", 2, None)])
        m.close(2)
    return m.text()


def small_vm():
    """QEMU's -smp 2: two CPUs, each a core of its own, and a virtio NIC with one queue."""
    m = Machine()
    m.machine(range(2), [0])
    m.open(2, "Package", range(2), [0], ' os_index="0"')
    m.info(3, CPUVendor="GenuineIntel", CPUModel="Intel Xeon Processor (Skylake, IBRS)")
    m.numa(3, 0, range(2), 4 * GIB)
    m.cache(3, "L3Cache", 3, 16 * MIB, range(2), [0])
    for core in range(2):
        m.core(4, [core], [0], 4 * MIB, 32 << 10)
    m.close(3)
    m.close(2)
    m.nic(2, "00:03", VIRTIO, [("ens3", 1, None)])
    return m.text()


MACHINES = {
    "two-sockets": two_sockets(),
    "two-sockets-isolated": two_sockets(CorewireIsolated="34-41,98-105", CorewireNohzFull="34-41,98-105"),
    "two-sockets-nohz": two_sockets(CorewireNohzFull="34-41"),
    "two-sockets-nohz-far": two_sockets(CorewireNohzFull="1-7"),
    "eight-nodes": eight_nodes(),
    "hybrid": hybrid(),
    "arm": arm(),
    "container": container(),
    "container-first-four": container(range(4)),
    "container-quota": container(range(96), CorewireCpuQuota="4.00"),
    "container-quota-of-one": container(range(96), CorewireCpuQuota="1.00"),
    "small-vm": small_vm(),
    "two-small-packages": two_small_packages(),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, text in MACHINES.items():
        (folder / f"{name}.xml").write_text(text)
