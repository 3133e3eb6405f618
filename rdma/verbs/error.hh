// What went wrong with a verbs call, in a sentence: what was asked, of which device, the errno, and the usual remedy.
// Set-up only; on the data path errors are values (ibv_wc_status, errno numbers).
#pragma once

#include <string>
#include <string_view>

namespace corewire::verbs {

/// What was tried: with the errno, it decides which remedy is named.
enum class operation {
    list_devices,
    open_device,
    query_device,
    query,
    list_addresses,
    allocate_domain,
    map_memory,
    register_memory,
    make_window,
    create_completion_queue,
    moderate_events,
    create_queue_pair,
    create_raw_queue_pair,
    move_queue_pair,
    create_receive_queue,
    arm_receive_limit,
    create_receive_table,
    create_address_handle,
    find_ipoib,
    join_multicast,
    create_flow,
    open_connection_manager,
    manage_connection,
};

/// The usual cause and what to do about it; empty if there is no usual one.
std::string_view remedy(operation tried, int error) noexcept;

/// Throws std::system_error: "cannot WHAT: REMEDY: TEXT OF ERRNO".
[[noreturn]] void fail(operation tried, int error, const std::string& what);

} // namespace corewire::verbs
