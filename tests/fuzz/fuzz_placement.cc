// clang++-19 -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined: see tests/fuzz/README.md.
#include "placement_targets.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, unsigned long size) {
    placement_fuzz::file({reinterpret_cast<const char*>(data), size});
    return 0;
}
