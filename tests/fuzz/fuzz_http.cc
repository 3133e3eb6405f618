// clang++-19 -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined: see tests/fuzz/README.md.
#include "http_target.hh"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
    http_fuzz::head({reinterpret_cast<const char*>(data), size});
    return 0;
}
