# The libraries: one a layer, from every .cc below its folder. A layer links the ones to its left only.

# corewire_precompile(TARGET): the standard headers that most sources include are compiled once for it.
function(corewire_precompile target)
    if(COREWIRE_PCH)
        target_precompile_headers(${target} PRIVATE <algorithm> <array> <chrono> <coroutine> <cstring> <functional> <memory>
                                  <optional> <span> <string> <system_error> <utility> <variant> <vector>)
    endif()
endfunction()

# corewire_library(NAME FOLDER DEPENDENCIES...)
function(corewire_library name folder)
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.cc")
    if(NOT sources)
        set(sources "${CMAKE_BINARY_DIR}/generated/${name}_empty.cc")
        file(WRITE "${sources}" "// ${folder}/ has no sources yet.\n")
    endif()
    add_library(corewire_${name} STATIC ${sources})
    add_library(corewire::${name} ALIAS corewire_${name})
    set_target_properties(corewire_${name} PROPERTIES EXPORT_NAME ${name})
    target_compile_features(corewire_${name} PUBLIC cxx_std_20)
    target_compile_options(corewire_${name} PRIVATE ${COREWIRE_LTO_COMPILE})
    target_include_directories(corewire_${name} PUBLIC
        "$<BUILD_INTERFACE:${COREWIRE_INCLUDE_TREE}>" "$<INSTALL_INTERFACE:include>")
    target_link_libraries(corewire_${name} PUBLIC ${ARGN})
    corewire_precompile(corewire_${name})
    corewire_unity(corewire_${name})
endfunction()

corewire_library(reactor reactor Threads::Threads PkgConfig::liburing PkgConfig::fmt PkgConfig::hwloc PkgConfig::libdw)
# spdlog's definitions are for the log's sources only; whoever links gets the library.
target_link_libraries(corewire_reactor INTERFACE "$<LINK_ONLY:PkgConfig::spdlog>")
file(GLOB COREWIRE_LOG_SOURCES CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/reactor/log/*.cc")
set_source_files_properties(${COREWIRE_LOG_SOURCES} PROPERTIES COMPILE_OPTIONS "${spdlog_CFLAGS_OTHER}"
                            SKIP_PRECOMPILE_HEADERS ON) # other definitions

# Its entry points are written in assembly, which link-time optimisation would not see.
set_source_files_properties("${CMAKE_SOURCE_DIR}/reactor/unwind/raise.cc" PROPERTIES SKIP_PRECOMPILE_HEADERS ON COMPILE_OPTIONS
                            "$<$<CXX_COMPILER_ID:GNU>:-fno-lto>")

corewire_library(net net corewire_reactor PkgConfig::libxdp PkgConfig::libbpf PkgConfig::libmnl PkgConfig::libcares)
file(GLOB_RECURSE COREWIRE_BPF_SOURCES CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/net/*.bpf.c")
corewire_bpf_skeletons(corewire_net ${COREWIRE_BPF_SOURCES})

corewire_library(rdma rdma corewire_net PkgConfig::libibverbs PkgConfig::librdmacm)

corewire_library(runtime apps/runtime corewire_rdma)
target_link_libraries(corewire_runtime PRIVATE "$<BUILD_INTERFACE:PkgConfig::CLI11>" "$<BUILD_INTERFACE:PkgConfig::nlohmann_json>")
target_compile_options(corewire_runtime PRIVATE ${COREWIRE_SETUP_OPTIMISATION})
# CLI11's thousand inline functions run once, too.
set_source_files_properties("${CMAKE_SOURCE_DIR}/apps/runtime/command_line.cc" PROPERTIES SKIP_PRECOMPILE_HEADERS ON
                            COMPILE_OPTIONS "$<$<CONFIG:Release>:-O1;-fno-lto>")

# Everything: what a user links.
add_library(corewire_corewire INTERFACE)
add_library(corewire::corewire ALIAS corewire_corewire)
set_target_properties(corewire_corewire PROPERTIES EXPORT_NAME corewire)
target_link_libraries(corewire_corewire INTERFACE corewire_runtime)
