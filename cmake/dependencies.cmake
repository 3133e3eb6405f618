# Libraries from the system, each by pkg-config. COREWIRE_REQUIRES is also what the installed package asks for.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

set(COREWIRE_REQUIRES liburing fmt hwloc libxdp libbpf libmnl libibverbs librdmacm libdw spdlog)
foreach(module IN LISTS COREWIRE_REQUIRES)
    pkg_check_modules(${module} REQUIRED IMPORTED_TARGET ${module})
endforeach()

# For the programs only; both are headers.
foreach(module IN ITEMS CLI11 nlohmann_json)
    pkg_check_modules(${module} REQUIRED IMPORTED_TARGET ${module})
endforeach()

if(COREWIRE_TESTS)
    find_package(Boost REQUIRED COMPONENTS unit_test_framework)
endif()
