# Every folder apps/NAME or tools/NAME with a main.cc is a program bin/cw-NAME. The rest of its sources are a library
# of their own (corewire_app_NAME), so that the tests below tests/apps and tests/tools can link them, and that one
# program can hold another's part (cw-pingpong runs both ends in one process). The tools named *bench* are baselines and
# probes for tools/bench: they are built with the tests, may use tests/support, and are not installed. Without sanitizers only:
# nobody measures those builds.

set(COREWIRE_PROGRAMS "")
set(COREWIRE_APP_LIBRARIES "")
set(program_folders "")
file(GLOB mains CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/apps/*/main.cc" "${CMAKE_SOURCE_DIR}/tools/*/main.cc")
foreach(main IN LISTS mains)
    get_filename_component(folder "${main}" DIRECTORY)
    get_filename_component(name "${folder}" NAME)
    if(name STREQUAL "runtime" OR name STREQUAL "preload" OR (name MATCHES "bench" AND (NOT COREWIRE_TESTS OR COREWIRE_SANITIZE)))
        continue()
    endif()
    list(APPEND program_folders "${folder}")
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cc")
    list(REMOVE_ITEM sources "${main}")
    if(sources)
        add_library(corewire_app_${name} STATIC ${sources})
        target_link_libraries(corewire_app_${name} PUBLIC corewire_runtime PkgConfig::nlohmann_json)
        target_compile_options(corewire_app_${name} PRIVATE ${COREWIRE_LTO_COMPILE} ${COREWIRE_SETUP_OPTIMISATION})
        if(COREWIRE_PCH)
            target_precompile_headers(corewire_app_${name} REUSE_FROM corewire_runtime)
        endif()
        corewire_unity(corewire_app_${name})
        list(APPEND COREWIRE_APP_LIBRARIES corewire_app_${name})
    endif()
endforeach()

target_link_libraries(corewire_app_pingpong PUBLIC corewire_app_echo) # both ends in one process

# Nobody waits for these: linking them once more as a whole is not worth a builder's time.
set(without_lto stat topo verbs-check bench-scrape bench-goodput bench-connections bench-files)

foreach(folder IN LISTS program_folders)
    get_filename_component(name "${folder}" NAME)
    add_executable(cw-${name} "${folder}/main.cc")
    if(TARGET corewire_app_${name})
        target_link_libraries(cw-${name} PRIVATE corewire_app_${name})
    endif()
    target_link_libraries(cw-${name} PRIVATE ${COREWIRE_APP_LIBRARIES} corewire_runtime
                          PkgConfig::nlohmann_json)
    target_compile_options(cw-${name} PRIVATE ${COREWIRE_SETUP_OPTIMISATION})
    if(name IN_LIST without_lto)
        target_link_options(cw-${name} PRIVATE ${COREWIRE_NO_LTO_LINK})
    else()
        target_compile_options(cw-${name} PRIVATE ${COREWIRE_LTO_COMPILE})
        target_link_options(cw-${name} PRIVATE ${COREWIRE_LTO_LINK})
    endif()
    if(name MATCHES "bench")
        target_link_libraries(cw-${name} PRIVATE corewire_test_support)
        target_link_options(cw-${name} PRIVATE LINKER:--as-needed)
    else()
        list(APPEND COREWIRE_PROGRAMS cw-${name})
    endif()
endforeach()

add_custom_target(programs DEPENDS ${COREWIRE_PROGRAMS} COMMENT "The programs, without tests and probes")
