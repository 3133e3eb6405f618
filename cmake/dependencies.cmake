# Libraries from the system, each by pkg-config. COREWIRE_REQUIRES is also what the installed package asks for.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

set(COREWIRE_REQUIRES liburing fmt hwloc libxdp libbpf libmnl libcares libibverbs librdmacm libdw spdlog)
foreach(module IN LISTS COREWIRE_REQUIRES)
    pkg_check_modules(${module} REQUIRED IMPORTED_TARGET ${module})
endforeach()

# For our own sources only; headers.
pkg_check_modules(CLI11 REQUIRED IMPORTED_TARGET CLI11)
pkg_check_modules(nlohmann_json REQUIRED IMPORTED_TARGET nlohmann_json)

if(COREWIRE_TESTS)
    find_package(Boost REQUIRED COMPONENTS unit_test_framework)
endif()
