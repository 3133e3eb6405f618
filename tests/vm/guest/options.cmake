# These suites need the devices that tests/vm/guest/init makes: tests/vm/run runs the program in the virtual machine.
set(TEST_ENTRIES OFF)

# The program of docs/RDMA.md, with nothing of the tests: as its reader has it.
if(NOT TARGET rdma_service)
    add_executable(rdma_service "${CMAKE_SOURCE_DIR}/docs/rdma/service.cc")
    target_link_libraries(rdma_service PRIVATE corewire::corewire)
    target_link_options(rdma_service PRIVATE ${COREWIRE_NO_LTO_LINK})
endif()
