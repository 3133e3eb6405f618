# The tests. Every folder below tests/ with *_test.cc files is one Boost.Test program (bin/test_<folder>); every file
# foo_test.cc holds one top-level suite `foo` and is one CTest entry, `<folder>/foo`. Every executable *.sh is one
# CTest entry as well. tests/support/*.cc is linked into all of them.
#
# A comment line in the file sets the entry's properties, e.g.
#     // ctest: timeout=300 processors=2 root=yes resource_lock=network
# (serial=yes for what is judged by the time that it takes: nothing else runs beside it, however many cores there are)
# and tests/<folder>/options.cmake may set the same for all of the folder (TEST_TIMEOUT, TEST_PROCESSORS,
# TEST_RESOURCE_LOCK, TEST_ROOT, TEST_LIBRARIES; TEST_ENTRIES OFF: no entries, somebody else runs the program). A test
# that cannot run here prints a line `SKIPPED: why` and succeeds; cmake/run_test.sh turns that into CTest's "skipped", and
# does it for root=yes without root. only=release (scripts only) leaves a test out of the debug and sanitizer builds, where
# it would check the same thing again.

set(COREWIRE_RUN_TEST "${CMAKE_SOURCE_DIR}/cmake/run_test.sh")
set(COREWIRE_TEST_ENVIRONMENT
    "COREWIRE_SOURCE_DIR=${CMAKE_SOURCE_DIR}" "COREWIRE_BINARY_DIR=${CMAKE_BINARY_DIR}"
    "COREWIRE_SANITIZE=${COREWIRE_SANITIZE}" "COREWIRE_CXX=${CMAKE_CXX_COMPILER}"
    "UBSAN_OPTIONS=print_stacktrace=1" "ASAN_OPTIONS=strict_string_checks=1:detect_stack_use_after_return=0")

# corewire_test_properties(TEST FILE): defaults, then the folder's options, then the file's own comment.
function(corewire_test_properties test file)
    set(timeout "${TEST_TIMEOUT}")
    set(processors "${TEST_PROCESSORS}")
    set(resource_lock "${TEST_RESOURCE_LOCK}")
    set(root "${TEST_ROOT}")
    set(serial "")
    file(STRINGS "${file}" line REGEX "^(//|#) ctest: " LIMIT_COUNT 1)
    string(REGEX MATCHALL "[a-z_]+=[^ ]+" settings "${line}")
    foreach(setting IN LISTS settings)
        if(NOT setting MATCHES "^(timeout|processors|serial|resource_lock|root|only)=(.+)$")
            message(FATAL_ERROR "${file}: unknown test setting '${setting}'")
        endif()
        set(name "${CMAKE_MATCH_1}")
        set(${name} "${CMAKE_MATCH_2}")
        if(name STREQUAL "only" AND NOT file MATCHES "\\.sh$")
            message(FATAL_ERROR "${file}: only=${only} is for scripts: programs of tests are built and run everywhere")
        endif()
    endforeach()
    set(environment "${COREWIRE_TEST_ENVIRONMENT}")
    if(root STREQUAL "yes")
        list(APPEND environment "COREWIRE_TEST_NEEDS_ROOT=1")
    endif()
    set_tests_properties("${test}" PROPERTIES TIMEOUT "${timeout}" SKIP_RETURN_CODE 77
                         WORKING_DIRECTORY "${CMAKE_BINARY_DIR}" ENVIRONMENT "${environment}")
    if(processors)
        set_tests_properties("${test}" PROPERTIES PROCESSORS "${processors}")
    endif()
    if(serial STREQUAL "yes")
        set_tests_properties("${test}" PROPERTIES RUN_SERIAL TRUE)
    endif()
    if(resource_lock)
        set_tests_properties("${test}" PROPERTIES RESOURCE_LOCK "${resource_lock}")
    endif()
endfunction()

# What is tested is the libraries, optimised as their build says. The tests' own code is to be compiled soon: it is most of the code.
# Under sanitizers it goes without line numbers (Boost.Test tells them) and without the checks of each pointer (AddressSanitizer makes them).
set(COREWIRE_TEST_OPTIMISATION $<$<CONFIG:Release>:-O1>)
if(COREWIRE_SANITIZE)
    set(COREWIRE_TEST_OPTIMISATION -O0 -g0)
    if(COREWIRE_SANITIZE MATCHES "undefined")
        list(APPEND COREWIRE_TEST_OPTIMISATION -fno-sanitize=null,alignment,vptr)
    endif()
endif()

# What the tests share: their vocabulary, and main().
file(GLOB support_sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/support/*.cc")
add_library(corewire_test_support STATIC ${support_sources})
target_compile_definitions(corewire_test_support PUBLIC BOOST_TEST_DYN_LINK)
target_include_directories(corewire_test_support PUBLIC "${CMAKE_SOURCE_DIR}")
target_compile_options(corewire_test_support PRIVATE ${COREWIRE_TEST_OPTIMISATION})
corewire_unity(corewire_test_support)
target_link_libraries(corewire_test_support PUBLIC corewire_runtime Boost::unit_test_framework
                      PkgConfig::nlohmann_json)

# What nearly every test includes costs more than the test. The programs reuse what the support library has compiled, for which
# their flags must be the same.
if(COREWIRE_PCH)
    target_precompile_headers(corewire_test_support PRIVATE <boost/test/unit_test.hpp> <algorithm> <array> <chrono> <coroutine> <cstring>
                              <fstream> <functional> <map> <memory> <optional> <sstream> <stdexcept> <string> <system_error> <thread> <vector>
                              <fmt/format.h>)
    set_target_properties(corewire_test_support PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endif()

add_library(corewire_test_main STATIC "${CMAKE_SOURCE_DIR}/cmake/test_main.cc")
target_link_libraries(corewire_test_main PUBLIC corewire_test_support)

file(GLOB_RECURSE test_sources RELATIVE "${CMAKE_SOURCE_DIR}/tests" CONFIGURE_DEPENDS
     "${CMAKE_SOURCE_DIR}/tests/*_test.cc")
file(GLOB_RECURSE test_scripts RELATIVE "${CMAKE_SOURCE_DIR}/tests" CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/*.sh")
set(folders "")
foreach(file IN LISTS test_sources test_scripts)
    get_filename_component(folder "${file}" DIRECTORY)
    list(APPEND folders "${folder}")
endforeach()
list(REMOVE_DUPLICATES folders)
list(SORT folders)

foreach(folder IN LISTS folders)
    set(TEST_TIMEOUT 120)
    set(TEST_PROCESSORS "")
    set(TEST_RESOURCE_LOCK "")
    set(TEST_ROOT "")
    set(TEST_LIBRARIES "")
    set(TEST_ENTRIES ON)
    if(folder MATCHES "^interop(/|$)")
        set(TEST_RESOURCE_LOCK network_namespaces) # they make devices and spin on both cores: one at a time
        set(TEST_PROCESSORS 2)
    endif()
    if(folder MATCHES "^(apps|tools)(/|$)")
        set(TEST_LIBRARIES ${COREWIRE_APP_LIBRARIES})
    endif()
    include("${CMAKE_SOURCE_DIR}/tests/${folder}/options.cmake" OPTIONAL)

    set(sources ${test_sources})
    list(FILTER sources INCLUDE REGEX "^${folder}/[^/]+$")
    if(sources)
        string(REPLACE "/" "_" program "test_${folder}")
        set(paths ${sources})
        list(TRANSFORM paths PREPEND "${CMAKE_SOURCE_DIR}/tests/")
        corewire_joined_tests(compiled "${program}" "${CMAKE_SOURCE_DIR}/tests/${folder}" ${paths})
        add_executable(${program} ${compiled})
        target_link_libraries(${program} PRIVATE corewire_test_main ${TEST_LIBRARIES})
        target_link_options(${program} PRIVATE ${COREWIRE_NO_LTO_LINK})
        target_compile_options(${program} PRIVATE ${COREWIRE_TEST_OPTIMISATION} ${COREWIRE_UNITY_WARNINGS})
        if(COREWIRE_PCH)
            target_precompile_headers(${program} REUSE_FROM corewire_test_support)
            set_target_properties(${program} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
        endif()
        if(NOT TEST_ENTRIES)
            continue()
        endif()
        foreach(source IN LISTS sources)
            get_filename_component(suite "${source}" NAME)
            string(REGEX REPLACE "_test\\.cc$" "" suite "${suite}")
            set(test "${COREWIRE_TEST_PREFIX}${folder}/${suite}")
            add_test(NAME "${test}" COMMAND "${COREWIRE_RUN_TEST}" "$<TARGET_FILE:${program}>" "--run_test=${suite}"
                     --log_level=test_suite --color_output=no --catch_system_errors=no)
            corewire_test_properties("${test}" "${CMAKE_SOURCE_DIR}/tests/${source}")
        endforeach()
    endif()

    set(scripts ${test_scripts})
    list(FILTER scripts INCLUDE REGEX "^${folder}/[^/]+$")
    foreach(script IN LISTS scripts)
        set(path "${CMAKE_SOURCE_DIR}/tests/${script}")
        execute_process(COMMAND test -x "${path}" RESULT_VARIABLE not_executable)
        file(STRINGS "${path}" release_only REGEX "^# ctest: .*only=release" LIMIT_COUNT 1)
        if(release_only AND (COREWIRE_SANITIZE OR NOT CMAKE_BUILD_TYPE STREQUAL "Release"))
            continue()
        endif()
        if(NOT not_executable)
            string(REGEX REPLACE "\\.sh$" "" test "${COREWIRE_TEST_PREFIX}${script}")
            add_test(NAME "${test}" COMMAND "${COREWIRE_RUN_TEST}" "${path}")
            corewire_test_properties("${test}" "${path}")
        endif()
    endforeach()
endforeach()

# What tests/fuzz plays of its corpora, libFuzzer goes on from: each target for 20 seconds, in the release build alone, from one seed: what
# fails is the change, not the luck of the run (tools/fuzz without --seed looks elsewhere each time). The fuzzer is a
# build of its own, build/fuzz, by two jobs at a time. Without clang 19 and its libFuzzer they say SKIPPED. A new target begins with a
# corpus of one input.
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT COREWIRE_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    set(fuzz "${CMAKE_SOURCE_DIR}/tools/fuzz")
    add_test(NAME "${COREWIRE_TEST_PREFIX}fuzz/libfuzzer/build" COMMAND "${COREWIRE_RUN_TEST}" "${fuzz}" --build)
    set_tests_properties("${COREWIRE_TEST_PREFIX}fuzz/libfuzzer/build" PROPERTIES FIXTURES_SETUP fuzzer PROCESSORS 2 TIMEOUT 1800
                         SKIP_RETURN_CODE 77 LABELS fuzz)
    file(GLOB kept RELATIVE "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus" CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/*.hex")
    foreach(file IN LISTS kept)
        string(REGEX REPLACE "\\.hex$" "" target "${file}")
        set(test "${COREWIRE_TEST_PREFIX}fuzz/libfuzzer/${target}")
        add_test(NAME "${test}" COMMAND "${COREWIRE_RUN_TEST}" "${fuzz}" --built --seed 1 --seconds 20 --jobs 1 "${target}")
        set_tests_properties("${test}" PROPERTIES FIXTURES_REQUIRED fuzzer TIMEOUT 180 SKIP_RETURN_CODE 77 LABELS fuzz)
    endforeach()
    set(test "${COREWIRE_TEST_PREFIX}fuzz/libfuzzer/together")
    add_test(NAME "${test}" COMMAND "${COREWIRE_RUN_TEST}" "${fuzz}" --built --seed 1 --seconds 2 --together ethernet vlan)
    set_tests_properties("${test}" PROPERTIES FIXTURES_REQUIRED fuzzer TIMEOUT 180 SKIP_RETURN_CODE 77 LABELS fuzz)
endif()
