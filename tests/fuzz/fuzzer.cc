// All targets in one libFuzzer program; which one, says the name it is called by: `tcp`, or `tcp+udp` for what gets each input, one after
// the other. Built and run by tools/fuzz.
#include "targets.hh"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

std::vector<fuzz::target> chosen;

/// False where one of the names joined by '+' is nobody's.
bool choose(std::string_view names) {
    const std::vector<fuzz::target> all = fuzz::all_targets();
    for (;;) {
        const std::size_t plus = std::min(names.find('+'), names.size());
        const auto found = std::ranges::find(all, names.substr(0, plus), &fuzz::target::name);
        if (found == all.end()) return false;
        chosen.push_back(*found);
        if (plus == names.size()) return true;
        names.remove_prefix(plus + 1);
    }
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int*, char*** arguments) {
    std::string_view name = **arguments;
    name.remove_prefix(name.rfind('/') + 1);
    if (choose(name)) return 0;
    for (const fuzz::target& each : fuzz::all_targets()) std::printf("%.*s\n", static_cast<int>(each.name.size()), each.name.data());
    std::exit(name == "fuzzer" ? 0 : 2); // by its own name it lists them
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    for (const fuzz::target& each : chosen) each.run(std::as_bytes(std::span(data, size)));
    return 0;
}
