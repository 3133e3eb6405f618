#include <corewire/reactor/base/backtrace.hh>

#include <cstdint>
#include <cstdlib>
#include <cxxabi.h>
#include <elfutils/libdwfl.h>
#include <fmt/format.h>
#include <memory>
#include <string_view>
#include <unistd.h>

namespace corewire {

namespace {

/// Only what the files themselves hold: no search of the disk, no question to a server.
int no_other_debuginfo(Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*, const char*, GElf_Word, char**) { return -1; }

std::string demangled(const char* symbol) {
    int status = 0;
    const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
    return status == 0 ? readable.get() : symbol;
}

/// The last two parts of a path say enough, and are the same wherever the tree was built.
std::string_view short_path(std::string_view path) {
    const std::size_t file = path.rfind('/');
    if (file == std::string_view::npos || file == 0) return path;
    const std::size_t folder = path.rfind('/', file - 1);
    return folder == std::string_view::npos ? path : path.substr(folder + 1);
}

std::string describe(Dwfl* process, std::uintptr_t address) {
    Dwfl_Module* module = process != nullptr ? dwfl_addrmodule(process, address) : nullptr;
    const char* name = module != nullptr ? dwfl_module_addrname(module, address) : nullptr;
    std::string line = name != nullptr ? demangled(name) : fmt::format("{:#x}", address);
    if (module == nullptr) return line;
    if (Dwfl_Line* source = dwfl_module_getsrc(module, address)) {
        int number = 0;
        if (const char* file = dwfl_lineinfo(source, nullptr, &number, nullptr, nullptr, nullptr))
            return fmt::format("{} at {}:{}", line, short_path(file), number);
    }
    const char* file = dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    return file != nullptr ? fmt::format("{} in {}", line, short_path(file)) : line;
}

} // namespace

std::vector<std::string> describe_frames(std::span<void* const> addresses) {
    static const Dwfl_Callbacks callbacks{.find_elf = dwfl_linux_proc_find_elf,
                                          .find_debuginfo = no_other_debuginfo,
                                          .section_address = nullptr,
                                          .debuginfo_path = nullptr};
    const std::unique_ptr<Dwfl, void (*)(Dwfl*)> process(dwfl_begin(&callbacks), dwfl_end);
    const bool known = process != nullptr && dwfl_linux_proc_report(process.get(), ::getpid()) == 0 &&
                       dwfl_report_end(process.get(), nullptr, nullptr) == 0;
    std::vector<std::string> lines;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        const auto address = reinterpret_cast<std::uintptr_t>(addresses[i]) - (i == 0 ? 0 : 1); // of the call itself
        lines.push_back(describe(known ? process.get() : nullptr, address));
    }
    return lines;
}

} // namespace corewire
