// The machine as an SVG drawing, with a placement coloured in. A plain function; the drawing needs no fonts or files beside it.
#pragma once

#include <corewire/reactor/topology/machine.hh>
#include <corewire/reactor/topology/placement.hh>

#include <string>

namespace corewire::topo {

/// Packages, NUMA nodes, L3 caches, cores, CPUs and devices as boxes in boxes. `placed` must fit `on`; without shards nothing is
/// coloured but what this process may not use.
std::string draw(const machine& on, const placement& placed);

} // namespace corewire::topo
