# Sources compiled several at a time (COREWIRE_UNITY): most of a source's cost is what it includes. It halves the time of a build
# that is made once; who changes one source compiles its neighbours with it. What a source calls its own, in an anonymous namespace, its
# neighbours see: those below, whose names are another's as well, and those whose system headers exclude another's, are compiled alone.
# A "redefinition" or a "shadows" that names two sources of a folder is a case for another name, or for this list.

set(COREWIRE_ALONE
    apps/runtime/icmp_error_listener.cc apps/runtime/network_options.cc apps/runtime/shared_host.cc apps/runtime/verbs_network.cc
    net/dhcp/dhcp6_client.cc net/dhcp/dhcp6_message.cc net/ip/icmpv6.cc net/ip/mld.cc net/kernel/kernel_metrics.cc
    net/port/super_frame.cc net/port/xdp/xdp_setup.cc net/posix/freebsd_socket.cc net/posix/kept_options.cc net/posix/repair.cc
    net/posix/socket_options.cc net/stack/ipv6_input.cc net/stack/ipv6_output.cc net/tcp/arrives/linux.cc net/tcp/congestion/freebsd.cc
    net/tcp/send/loss.cc net/udp/udp_port_map.cc rdma/channel/memory_pool.cc rdma/channel/rc_connection_setup.cc rdma/fake/setup.cc rdma/ud_link/ud_transmit.cc
    reactor/file/file_status.cc reactor/topology/machine.cc reactor/topology/placement.cc reactor/topology/xml_check.cc
    tools/bench-connections/idle.cc tools/topo/planner.cc tools/verbs-check/traffic.cc)

set(COREWIRE_UNITY_SIZE 8) # sources: what two compilers at a time hold in memory, and what is compiled anew for a change

set(COREWIRE_UNITY_WARNINGS "")
if(COREWIRE_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    set(COREWIRE_UNITY_WARNINGS -Wno-shadow) # of what a neighbour has
elseif(COREWIRE_UNITY)
    set(COREWIRE_UNITY_WARNINGS -Wno-subobject-linkage) # an included file's anonymous namespace is as good as the main file's
endif()

# corewire_unity(TARGET): its sources by the folder.
function(corewire_unity target)
    if(NOT COREWIRE_UNITY)
        return()
    endif()
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "\\.cc$")
    set(folders "")
    foreach(source IN LISTS sources)
        cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE path)
        cmake_path(RELATIVE_PATH path BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE name)
        cmake_path(GET name PARENT_PATH folder)
        if(name IN_LIST COREWIRE_ALONE)
            set_source_files_properties("${source}" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
            continue()
        endif()
        string(MAKE_C_IDENTIFIER "${folder}" group)
        math(EXPR number "${count_${group}} + 0")
        math(EXPR part "${number} / ${COREWIRE_UNITY_SIZE}")
        math(EXPR count_${group} "${number} + 1")
        set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${part}")
    endforeach()
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    target_compile_options(${target} PRIVATE ${COREWIRE_UNITY_WARNINGS})
endfunction()

# corewire_joined_tests(OUT PROGRAM FOLDER SOURCES...): the tests of a folder, each in a namespace of its own, behind what all of them
# include. A test that must stand alone is one that opens a namespace of ours, defines macros, or compiles by condition.
function(corewire_joined_tests out program folder)
    if(NOT COREWIRE_UNITY)
        set(${out} ${ARGN} PARENT_SCOPE)
        return()
    endif()
    set(result "")
    set(part 0)
    set(number 0)
    set(includes "")
    set(bodies "")
    foreach(source IN LISTS ARGN)
        file(STRINGS "${source}" alone LIMIT_COUNT 1
             REGEX "^(namespace (corewire|boost|std)|BOOST_TEST_DONT_PRINT|#if|#define|int main|extern|template <>)")
        if(alone)
            list(APPEND result "${source}")
            continue()
        endif()
        file(STRINGS "${source}" lines REGEX "^#include ")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^#include \"([^\"]+)\".*" "${folder}/\\1" beside "${line}")
            if(EXISTS "${beside}")
                set(line "#include \"${beside}\"")
            endif()
            list(APPEND includes "${line}")
        endforeach()
        cmake_path(GET source STEM name)
        string(APPEND bodies "namespace in_${name} {\n#include \"${source}\"\n}\n")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${source}") # for its includes
        math(EXPR number "${number} + 1")
        if(number EQUAL COREWIRE_UNITY_SIZE)
            corewire_write_joined("${program}" ${part})
        endif()
    endforeach()
    if(number)
        corewire_write_joined("${program}" ${part})
    endif()
    set(${out} ${result} PARENT_SCOPE)
endfunction()

# Writes what corewire_joined_tests has gathered, and begins anew.
macro(corewire_write_joined program part_number)
    list(REMOVE_DUPLICATES includes)
    list(JOIN includes "\n" text)
    set(joined "${CMAKE_BINARY_DIR}/generated/joined/${program}_${part_number}.cc")
    file(CONFIGURE OUTPUT "${joined}" CONTENT "${text}\n${bodies}" @ONLY)
    list(APPEND result "${joined}")
    math(EXPR part "${part_number} + 1")
    set(number 0)
    set(includes "")
    set(bodies "")
endmacro()
