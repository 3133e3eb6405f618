# cmake --install: programs, headers, static libraries, find_package(corewire) and pkg-config.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS corewire_reactor corewire_net corewire_rdma corewire_runtime corewire_corewire EXPORT corewireTargets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
if(COREWIRE_PROGRAMS)
    install(TARGETS ${COREWIRE_PROGRAMS} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

# Other compilers cannot read this one's intermediate code: the installed archives carry machine code only.
if(COREWIRE_LTO_COMPILE)
    find_program(COREWIRE_STRIP strip REQUIRED)
    install(CODE "
        file(GLOB archives \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libcorewire_*.a\")
        foreach(archive IN LISTS archives)
            execute_process(COMMAND \"${COREWIRE_STRIP}\" --remove-section=.gnu.lto_* --remove-section=.gnu.debuglto_*
                                    --strip-symbol=__gnu_lto_slim --strip-symbol=__gnu_lto_v1 \"\${archive}\"
                            COMMAND_ERROR_IS_FATAL ANY)
        endforeach()")
endif()

foreach(layer IN LISTS COREWIRE_LAYERS)
    if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/${layer}")
        set(folder "${layer}/")
        if(layer STREQUAL "apps")
            set(folder "apps/runtime") # the programs are no library
        endif()
        install(DIRECTORY "${folder}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/corewire/${layer}"
                FILES_MATCHING PATTERN "*.hh" PATTERN "public" EXCLUDE PATTERN "fake" EXCLUDE)
    endif()
endforeach()
install(FILES ${COREWIRE_FACADES} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/corewire")

set(config_folder "${CMAKE_INSTALL_LIBDIR}/cmake/corewire")
install(EXPORT corewireTargets NAMESPACE corewire:: DESTINATION "${config_folder}")
configure_package_config_file(cmake/corewireConfig.cmake.in "${CMAKE_BINARY_DIR}/generated/corewireConfig.cmake"
                              INSTALL_DESTINATION "${config_folder}")
write_basic_package_version_file("${CMAKE_BINARY_DIR}/generated/corewireConfigVersion.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/generated/corewireConfig.cmake"
              "${CMAKE_BINARY_DIR}/generated/corewireConfigVersion.cmake" DESTINATION "${config_folder}")

# The prefix as seen from the .pc file, so that the installed tree may be moved.
file(RELATIVE_PATH COREWIRE_PC_PREFIX "/p/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/p")
list(JOIN COREWIRE_REQUIRES " " COREWIRE_PC_REQUIRES)
configure_file(cmake/corewire.pc.in "${CMAKE_BINARY_DIR}/generated/corewire.pc" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/generated/corewire.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
