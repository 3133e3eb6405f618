# The fuzzer: all targets of tests/fuzz in one libFuzzer program (clang). tools/fuzz builds it by the preset `fuzz`, in which everything is
# compiled for coverage (compiler.cmake). The libraries are not built for it: of their folders only those that a target reaches are, as
# one library from which the linker takes what it needs. A symbol that is missing here wants its folder in one of these lists.

set(reached "")
foreach(folder net/dhcp net/frame net/ip net/link net/netlink net/port/wrap net/resolve net/socket net/stack net/tcp net/udp net/wire
        reactor/base reactor/log reactor/loop reactor/memory reactor/metrics reactor/task rdma/ud_link)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.cc")
    list(APPEND reached ${sources})
endforeach()
list(TRANSFORM reached REPLACE "^${CMAKE_SOURCE_DIR}/" "")
# What stands there and only others need:
list(FILTER reached EXCLUDE REGEX "kernel_mirror|resolver\\.cc|connect_by_name|named_address\\.cc|fabric_follower|ud_(device|port|transmit|metrics)|handle_cache|_metrics\\.cc")
list(FILTER reached EXCLUDE REGEX "tcp_census|shard_steering|text_exposition|publisher")
list(APPEND reached apps/runtime/fault_options.cc net/port/joined_segments.cc net/port/lent_ports.cc net/port/super_frame.cc reactor/topology/placement.cc reactor/topology/ranges.cc
     reactor/topology/xml_check.cc apps/runtime/inspection/http_request.cc rdma/channel/introduction.cc rdma/channel/rendezvous.cc rdma/verbs/api.cc
     rdma/verbs/device.cc rdma/verbs/error.cc rdma/verbs/handle.cc)
add_library(fuzzed STATIC EXCLUDE_FROM_ALL ${reached})
target_include_directories(fuzzed PUBLIC "${COREWIRE_INCLUDE_TREE}" "${CMAKE_SOURCE_DIR}")
target_link_libraries(fuzzed PUBLIC PkgConfig::fmt PkgConfig::spdlog PkgConfig::libcares PkgConfig::libmnl PkgConfig::libdw PkgConfig::liburing
                      PkgConfig::libibverbs Threads::Threads)
corewire_precompile(fuzzed)
corewire_unity(fuzzed)
set_source_files_properties(${COREWIRE_LOG_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)

add_executable(fuzzer EXCLUDE_FROM_ALL tests/fuzz/fuzzer.cc)
target_link_options(fuzzer PRIVATE -fsanitize=fuzzer)
target_link_libraries(fuzzer PRIVATE fuzzed)
