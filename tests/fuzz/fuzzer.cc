// All targets in one libFuzzer program; which one, says the name it is called by. Built and run by tools/fuzz.
#include "targets.hh"

#include <cstdio>
#include <cstdlib>

namespace {

void (*chosen)(corewire::byte_span) = nullptr;

} // namespace

extern "C" int LLVMFuzzerInitialize(int*, char*** arguments) {
    std::string_view name = **arguments;
    name.remove_prefix(name.rfind('/') + 1);
    for (const fuzz::target& each : fuzz::all_targets())
        if (each.name == name) chosen = each.run;
    if (chosen != nullptr) return 0;
    for (const fuzz::target& each : fuzz::all_targets()) std::printf("%.*s\n", static_cast<int>(each.name.size()), each.name.data());
    std::exit(name == "fuzzer" ? 0 : 2); // by its own name it lists them
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    chosen(std::as_bytes(std::span(data, size)));
    return 0;
}
