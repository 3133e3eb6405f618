# Every folder apps/NAME or tools/NAME with a main.cc is a program bin/cw-NAME. The rest of its sources are a library
# of their own (corewire_app_NAME), so that the tests below tests/apps and tests/tools can link them, and that one
# program can hold another's part (cw-pingpong runs both ends in one process).

set(COREWIRE_PROGRAMS "")
set(COREWIRE_INSTALLED_PROGRAMS "") # all but the baselines of tools/bench
set(COREWIRE_APP_LIBRARIES "")
set(program_folders "")
file(GLOB mains CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/apps/*/main.cc" "${CMAKE_SOURCE_DIR}/tools/*/main.cc")
foreach(main IN LISTS mains)
    get_filename_component(folder "${main}" DIRECTORY)
    get_filename_component(name "${folder}" NAME)
    if(name STREQUAL "runtime" OR name STREQUAL "preload")
        continue()
    endif()
    list(APPEND program_folders "${folder}")
    file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cc")
    list(REMOVE_ITEM sources "${main}")
    if(sources)
        add_library(corewire_app_${name} STATIC ${sources})
        target_link_libraries(corewire_app_${name} PUBLIC corewire_runtime PkgConfig::CLI11 PkgConfig::nlohmann_json)
        target_compile_options(corewire_app_${name} PRIVATE ${COREWIRE_LTO_COMPILE})
        list(APPEND COREWIRE_APP_LIBRARIES corewire_app_${name})
    endif()
endforeach()

foreach(folder IN LISTS program_folders)
    get_filename_component(name "${folder}" NAME)
    add_executable(cw-${name} "${folder}/main.cc")
    if(TARGET corewire_app_${name})
        target_link_libraries(cw-${name} PRIVATE corewire_app_${name})
    endif()
    target_link_libraries(cw-${name} PRIVATE ${COREWIRE_APP_LIBRARIES} corewire_runtime
                          PkgConfig::CLI11 PkgConfig::nlohmann_json)
    target_compile_options(cw-${name} PRIVATE ${COREWIRE_LTO_COMPILE})
    target_link_options(cw-${name} PRIVATE ${COREWIRE_LTO_LINK})
    list(APPEND COREWIRE_PROGRAMS cw-${name})
    if(NOT name MATCHES "bench")
        list(APPEND COREWIRE_INSTALLED_PROGRAMS cw-${name})
    endif()
endforeach()

add_custom_target(programs DEPENDS ${COREWIRE_PROGRAMS} COMMENT "The programs, without the tests")
