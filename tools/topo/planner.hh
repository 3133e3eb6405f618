// Which shard goes where: a placement for a machine, with the reason for every line. A plain function of its arguments, so that it
// plans for machines that are not here.
//
// In this order: CPUs that may be pinned to; isolated ones alone if there are any; the fastest kind of core; the NUMA node of the NIC,
// then its package, then the rest; there those without a tick; the first thread of every core before any second one; a core behind
// each L2 before the second behind any, and the L3s of a package in turn. The kernel keeps a core if there are enough, and its core comes
// last among its equals if there are not.
#pragma once

#include <corewire/reactor/topology/machine.hh>
#include <corewire/reactor/topology/placement.hh>

#include <optional>
#include <string>
#include <vector>

namespace corewire::topo {

struct plan_request {
    std::optional<unsigned> shards{};  ///< nothing: as many as the NIC's node has cores and the NIC has queues
    std::string nic{};                 ///< an interface or RDMA device; empty: the only NIC, if there is one; "none": none
    bool every_thread = false;         ///< --smt all: second threads too
    std::optional<unsigned> leave{};   ///< cores for the kernel; nothing: one, if there are four
};

struct plan {
    placement place;                   ///< each shard with its `why`
    std::vector<std::string> heading;  ///< the machine, the NIC, what is left to the kernel: one sentence a line
    std::vector<std::string> warnings; ///< what a person should know before starting; one sentence each
};

/// Throws std::invalid_argument with a sentence that says what to ask for instead.
plan make_plan(const machine& on, const plan_request& request);

/// The placement file: heading, warnings, shards.
std::string to_text(const plan& plan);

/// "2 packages, 2 NUMA nodes, 64 cores, 128 CPUs".
std::string in_one_line(const machine& on);

} // namespace corewire::topo
