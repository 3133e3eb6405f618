// The metrics of a port and of the stack above it, by name. Every counter that a module of net/ keeps is here.
#pragma once

#include <corewire/reactor/metrics/registry.hh>

namespace corewire {

class network_stack;
class port;

/// Registers by reference: what is counted outlives the group.
void register_port_metrics(metric_group& group, port& device);
void register_stack_metrics(metric_group& group, network_stack& stack);

} // namespace corewire
