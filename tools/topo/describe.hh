// The machine as a person reads it, and as a program does. Plain functions of a machine; JSON's keys are told in README.md.
#pragma once

#include <corewire/reactor/topology/machine.hh>

#include <string>

namespace corewire::topo {

/// Packages, NUMA nodes, caches, cores, CPUs, devices, one below the other; cores that are alike in one line.
std::string describe(const machine& on);

/// One JSON object, ending with a newline.
std::string describe_json(const machine& on);

/// "32 KiB", "1.5 MiB", "377 GiB".
std::string size_text(unsigned long long bytes);

} // namespace corewire::topo
