// Every fuzz target by name: for the fuzzer (fuzzer.cc) and for the replay of what it has kept (corpus_test.cc).
// A target takes any bytes at all and asserts what must hold.
#pragma once

#include "connection_target.hh"
#include "control_target.hh"
#include "dhcp6_target.hh"
#include "dhcp_target.hh"
#include "dns_target.hh"
#include "file_targets.hh"
#include "http_target.hh"
#include "netlink_targets.hh"
#include "placement_targets.hh"
#include "port_targets.hh"
#include "rdma_targets.hh"
#include "stack_target.hh"
#include "wire_targets.hh"

#include <string_view>
#include <vector>

namespace fuzz {

using corewire::byte_span;

struct target {
    std::string_view name;
    void (*run)(byte_span);
};

inline std::string_view as_text(byte_span bytes) noexcept { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// The parsers of net/wire first.
inline std::vector<target> all_targets() {
    std::vector<target> all;
    for (const wire_fuzz::target& each : wire_fuzz::all_targets) all.push_back({each.name, each.run});
    all.push_back({"connection", [](byte_span bytes) { connection_fuzz::connection(bytes); }});
    all.push_back({"dhcp", [](byte_span bytes) { dhcp_fuzz::message(bytes); }});
    all.push_back({"dhcp6", [](byte_span bytes) { dhcp6_fuzz::message(bytes); }});
    all.push_back({"dns", [](byte_span bytes) { dns_fuzz::answer(bytes); }});
    all.push_back({"http", [](byte_span bytes) { http_fuzz::head(as_text(bytes)); }});
    all.push_back({"netlink", [](byte_span bytes) { netlink_fuzz::messages(bytes); }});
    all.push_back({"placement", [](byte_span bytes) { placement_fuzz::file(as_text(bytes)); }});
    all.push_back({"super_frame", [](byte_span bytes) { port_fuzz::cut(bytes); }});
    all.push_back({"packet_text", [](byte_span bytes) { port_fuzz::text(bytes); }});
    all.push_back({"rdma_channel", [](byte_span bytes) { rdma_fuzz::channel(bytes); }});
    all.push_back({"rdma_link", [](byte_span bytes) { rdma_fuzz::link(bytes); }});
    all.push_back({"metrics_page", [](byte_span bytes) { file_fuzz::metrics_page(bytes); }});
    all.push_back({"words", [](byte_span bytes) { file_fuzz::words(as_text(bytes)); }});
    all.push_back({"control_messages", [](byte_span bytes) { control_fuzz::messages(bytes); }});
    all.push_back({"stack", [](byte_span bytes) { stack_fuzz::frames(bytes); }});
    all.push_back({"quoted_flow", [](byte_span bytes) { stack_fuzz::quoted(bytes); }});
    return all;
}

} // namespace fuzz
