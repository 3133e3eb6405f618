# What a builder may choose. The presets in CMakePresets.json set most of it.

option(COREWIRE_TESTS "Build the tests" ON)
option(COREWIRE_FUZZ "The target `fuzzer` (clang)" OFF)
option(COREWIRE_WERROR "Treat warnings as errors" ON)
option(COREWIRE_LTO "Link the programs with link-time optimisation (g++ only)" OFF)
option(COREWIRE_PCH "Compile the standard headers that most sources include once (hides an include that is missing in a source)" OFF)
option(COREWIRE_UNITY "Compile sources several at a time: soon when all is compiled, later when one has changed" OFF)
option(COREWIRE_CCACHE "Use ccache when it is installed" ON)
set(COREWIRE_SANITIZE "" CACHE STRING "Sanitizers for everything, e.g. address,undefined")
set(COREWIRE_TEST_PREFIX "" CACHE STRING "Put before each test's name, to tell builds apart in one CTest run")
set(COREWIRE_MARCH "x86-64-v2" CACHE STRING
    "Instruction set the code may use (-march); 'native' for this machine only, empty for the compiler's default")

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
