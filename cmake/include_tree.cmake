# One way to name a header, in the tree and after installation: <corewire/LAYER/folder/file.hh>.
# In the tree that is a folder of symlinks. The facades in apps/runtime/public become <corewire/NAME.hh>.

set(COREWIRE_INCLUDE_TREE "${CMAKE_BINARY_DIR}/include")
set(COREWIRE_LAYERS reactor net rdma apps)
file(MAKE_DIRECTORY "${COREWIRE_INCLUDE_TREE}/corewire" "${CMAKE_BINARY_DIR}/generated")

foreach(layer IN LISTS COREWIRE_LAYERS)
    if(IS_DIRECTORY "${CMAKE_SOURCE_DIR}/${layer}")
        file(CREATE_LINK "${CMAKE_SOURCE_DIR}/${layer}" "${COREWIRE_INCLUDE_TREE}/corewire/${layer}" SYMBOLIC)
    endif()
endforeach()

file(GLOB COREWIRE_FACADES CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/apps/runtime/public/*.hh")
foreach(facade IN LISTS COREWIRE_FACADES)
    get_filename_component(name "${facade}" NAME)
    file(CREATE_LINK "${facade}" "${COREWIRE_INCLUDE_TREE}/corewire/${name}" SYMBOLIC)
endforeach()
