# How everything in the tree is compiled.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

# -g1: line numbers for stack traces at a fraction of the build time and disk of -g.
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG -g1")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")

if(COREWIRE_MARCH)
    add_compile_options(-march=${COREWIRE_MARCH} -mtune=generic)
endif()

# A product and a sum are rounded each, also where there is an instruction that does both: a seed's digest is the same in every build.
# x86-64 and its second level have none.
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" OR NOT COREWIRE_MARCH MATCHES "^(x86-64|x86-64-v2)?$")
    add_compile_options(-ffp-contract=off)
endif()

# Messages name files as they are named in the tree, wherever that is.
add_compile_options(-fmacro-prefix-map=${CMAKE_BINARY_DIR}/include/corewire/= -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=)

# Warnings, for our own code only (dependencies are system includes).
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wundef
                    -Wimplicit-fallthrough -Wcast-qual
                    -Wno-missing-field-initializers) # a designated initializer may leave the rest to its default
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False alarms of g++ 12 inside inlined standard-library code.
    add_compile_options(-Wno-restrict -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                        -Wno-maybe-uninitialized -Wno-dangling-pointer -Wno-free-nonheap-object)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # -Wno-deprecated-declarations: clang reports libstdc++ calling its own deprecated functions, in our name.
    add_compile_options(-Wno-missing-designated-field-initializers -Wno-unknown-warning-option
                        -Wno-deprecated-declarations)
endif()
if(COREWIRE_WERROR)
    add_compile_options(-Werror)
endif()

if(COREWIRE_SANITIZE)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON) # shared_libraries.cmake
    add_compile_options(-fsanitize=${COREWIRE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${COREWIRE_SANITIZE})
endif()

# For libFuzzer: where the code goes is counted. The checks of each pointer are AddressSanitizer's.
if(COREWIRE_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize=null,alignment,vptr,object-size)
endif()

# What sets a program up runs once: under sanitizers it is not worth an optimiser's time.
set(COREWIRE_SETUP_OPTIMISATION "")
if(COREWIRE_SANITIZE)
    set(COREWIRE_SETUP_OPTIMISATION -O0)
endif()

# Link-time optimisation: the libraries carry both forms (fat objects), the programs are linked with it, the
# many test programs without, since each would pay for optimising the libraries once more.
set(COREWIRE_LTO_COMPILE "")
set(COREWIRE_LTO_LINK "")
set(COREWIRE_NO_LTO_LINK "")
if(COREWIRE_LTO)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        set(COREWIRE_LTO_COMPILE -flto=auto -ffat-lto-objects)
        set(COREWIRE_LTO_LINK -flto=auto)
        set(COREWIRE_NO_LTO_LINK -fno-lto)
        set(CMAKE_AR "${CMAKE_CXX_COMPILER_AR}")
        set(CMAKE_RANLIB "${CMAKE_CXX_COMPILER_RANLIB}")
    else()
        message(STATUS "COREWIRE_LTO is for g++; ${CMAKE_CXX_COMPILER_ID} builds without")
    endif()
endif()

if(COREWIRE_CCACHE)
    find_program(CCACHE_PROGRAM ccache)
    if(CCACHE_PROGRAM)
        set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
            CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
    endif()
endif()
