// <corewire/sim.hh>: services in a simulated world: hosts, cables, switches, virtual time, one seed (docs/SIMULATOR.md).
#pragma once

#include <corewire/net/sim/sim_flow.hh>
#include <corewire/net/sim/simulation.hh>
