# corewire_bpf_skeletons(TARGET SOURCES...): each NAME.bpf.c is compiled for the BPF machine, and bpftool embeds the
# object in generated/NAME.skel.h, which the target includes as <NAME.skel.h>.

find_program(COREWIRE_BPF_CLANG NAMES clang-19 clang clang-14 DOC "The clang that compiles BPF programs")
find_program(COREWIRE_BPFTOOL bpftool PATHS /usr/sbin /sbin DOC "Generates the BPF skeletons")

function(corewire_bpf_skeletons target)
    if(ARGN AND NOT (COREWIRE_BPF_CLANG AND COREWIRE_BPFTOOL))
        message(FATAL_ERROR "net/port/xdp needs clang and bpftool to build: apt-get install clang bpftool")
    endif()
    set(skeletons "")
    foreach(source IN LISTS ARGN)
        get_filename_component(name "${source}" NAME)
        string(REGEX REPLACE "\\.bpf\\.c$" "" name "${name}")
        set(object "${CMAKE_BINARY_DIR}/generated/${name}.bpf.o")
        set(skeleton "${CMAKE_BINARY_DIR}/generated/${name}.skel.h")
        add_custom_command(
            OUTPUT "${object}"
            COMMAND "${COREWIRE_BPF_CLANG}" -O2 -g -Wall -Werror -target bpf
                    -I/usr/include/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu
                    -MD -MF "${object}.d" -c "${source}" -o "${object}"
            DEPENDS "${source}" DEPFILE "${object}.d" VERBATIM COMMENT "BPF program ${name}")
        add_custom_command(
            OUTPUT "${skeleton}"
            COMMAND sh -c "\"$1\" gen skeleton \"$2\" name \"$3\" > \"$4.new\" && mv \"$4.new\" \"$4\"" --
                    "${COREWIRE_BPFTOOL}" "${object}" "${name}" "${skeleton}"
            DEPENDS "${object}" VERBATIM COMMENT "BPF skeleton ${name}.skel.h")
        list(APPEND skeletons "${skeleton}")
    endforeach()
    target_sources(${target} PRIVATE ${skeletons})
    target_include_directories(${target} SYSTEM PRIVATE "${CMAKE_BINARY_DIR}/generated")
endfunction()
