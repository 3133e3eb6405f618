# Shared libraries that other programs load: libcorewire_packetdrill.so. What they take from the layers is compiled once
# more, as position-independent code: the static libraries are for programs, whose thread-local variables cost nothing.
# Builds with a sanitizer measure nothing: there the static libraries are position-independent and serve both.
# Nothing is exported but what the library's exports.map names.

# corewire_shared_library(NAME SOURCES... FROM FOLDERS...): bin/libcorewire_NAME.so
function(corewire_shared_library name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "MAP" "SOURCES;FROM")
    set(sources ${arg_SOURCES})
    if(NOT COREWIRE_SANITIZE)
        foreach(folder IN LISTS arg_FROM)
            file(GLOB_RECURSE more CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.cc")
            list(APPEND sources ${more})
        endforeach()
    endif()
    add_library(corewire_${name} SHARED ${sources})
    if(COREWIRE_SANITIZE)
        target_link_libraries(corewire_${name} PRIVATE corewire_net corewire_reactor)
        target_link_options(corewire_${name} PRIVATE LINKER:--exclude-libs,ALL)
    endif()
    target_compile_options(corewire_${name} PRIVATE -fPIC -ffunction-sections -fvisibility=hidden -fvisibility-inlines-hidden
                           $<$<CONFIG:Release>:-O1>) # a test's tool: it is to be compiled soon
    corewire_precompile(corewire_${name})
    corewire_unity(corewire_${name})
    target_include_directories(corewire_${name} PRIVATE "${COREWIRE_INCLUDE_TREE}")
    target_link_libraries(corewire_${name} PRIVATE Threads::Threads PkgConfig::liburing PkgConfig::fmt PkgConfig::hwloc
                          PkgConfig::libdw PkgConfig::spdlog ${CMAKE_DL_LIBS})
    target_link_options(corewire_${name} PRIVATE "LINKER:--version-script=${arg_MAP}" LINKER:--gc-sections LINKER:-z,defs)
    set_target_properties(corewire_${name} PROPERTIES LINK_DEPENDS "${arg_MAP}"
                          LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
endfunction()

# google/packetdrill drives the stack in process through it (apps/packetdrill/README.md).
file(GLOB packetdrill_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/apps/packetdrill/*.cc")
corewire_shared_library(packetdrill MAP "${CMAKE_SOURCE_DIR}/apps/packetdrill/exports.map" SOURCES ${packetdrill_sources}
         "${CMAKE_SOURCE_DIR}/net/port/wrap/vlan_port.cc"
    FROM reactor/base reactor/memory reactor/loop reactor/log reactor/task reactor/metrics net/frame net/wire net/link net/ip net/udp net/tcp
         net/dhcp net/stack net/socket net/posix net/port/loop)
