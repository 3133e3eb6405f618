// <corewire/metrics.hh>: counters, gauges and histograms of a program's own (docs/OPERATIONS.md).
#pragma once

#include <corewire/reactor/metrics/histogram.hh>
#include <corewire/reactor/metrics/metric.hh>
#include <corewire/reactor/metrics/publisher.hh>
#include <corewire/reactor/metrics/registry.hh>
