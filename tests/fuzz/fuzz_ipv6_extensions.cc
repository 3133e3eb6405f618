// clang++-19 -std=c++20 -O1 -g -fsanitize=fuzzer,address,undefined: see tests/fuzz/README.md.
#include "wire_targets.hh"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    wire_fuzz::ipv6_extensions(std::as_bytes(std::span(data, size)));
    return 0;
}
