# The fuzzer: all targets of tests/fuzz in one libFuzzer program (clang), with the sources that they reach. tools/fuzz builds it
# by the preset `fuzz`.

file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/net/frame/*.cc" "${CMAKE_SOURCE_DIR}/net/dhcp/*.cc" "${CMAKE_SOURCE_DIR}/net/wire/*.cc"
     "${CMAKE_SOURCE_DIR}/net/tcp/*.cc")
add_executable(fuzzer "${CMAKE_SOURCE_DIR}/tests/fuzz/fuzzer.cc" ${sources}
    "${CMAKE_SOURCE_DIR}/net/resolve/dns_message.cc" "${CMAKE_SOURCE_DIR}/net/socket/address.cc"
    "${CMAKE_SOURCE_DIR}/net/netlink/route_messages.cc"
    "${CMAKE_SOURCE_DIR}/reactor/topology/placement.cc" "${CMAKE_SOURCE_DIR}/reactor/topology/ranges.cc"
    "${CMAKE_SOURCE_DIR}/apps/runtime/inspection/http_request.cc" "${CMAKE_SOURCE_DIR}/reactor/base/assert.cc"
    "${CMAKE_SOURCE_DIR}/reactor/base/random.cc")
target_include_directories(fuzzer PRIVATE "${COREWIRE_INCLUDE_TREE}" "${CMAKE_SOURCE_DIR}")
target_compile_options(fuzzer PRIVATE -fsanitize=fuzzer)
target_link_options(fuzzer PRIVATE -fsanitize=fuzzer)
target_link_libraries(fuzzer PRIVATE PkgConfig::fmt PkgConfig::libcares PkgConfig::libmnl Threads::Threads)
set_target_properties(fuzzer PROPERTIES EXCLUDE_FROM_ALL ON)
