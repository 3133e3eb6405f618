#include <boost/test/unit_test.hpp>

#include <corewire/reactor/unwind/call_frame.hh>

#ifdef CW_HAS_CALL_FRAMES

#include <bit>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <libelf.h>
#include <link.h>
#include <unistd.h>
#include <unwind.h>

namespace {

using namespace corewire::unwind;

struct seen {
    std::uintptr_t ip = 0;
    std::uintptr_t sp = 0;
    std::uintptr_t bp = 0;
    std::uintptr_t function = 0;
    std::uintptr_t language_data = 0;
};

_Unwind_Reason_Code see(_Unwind_Context* frame, void* list) {
    static_cast<std::vector<seen>*>(list)->push_back({_Unwind_GetIP(frame), _Unwind_GetCFA(frame), _Unwind_GetGR(frame, 6),
                                                      _Unwind_GetRegionStart(frame),
                                                      std::bit_cast<std::uintptr_t>(_Unwind_GetLanguageSpecificData(frame))});
    return _URC_NO_REASON;
}

/// The words of .eh_frame_hdr's table: each function that the object has.
struct function_table {
    const std::byte* header = nullptr;
    std::size_t count = 0;

    std::pair<std::uintptr_t, const std::byte*> at(std::size_t i) const {
        std::int32_t words[2];
        std::memcpy(words, header + 12 + 8 * i, sizeof words);
        return {std::bit_cast<std::uintptr_t>(header + words[0]), header + words[1]};
    }
};

std::vector<function_table> tables() {
    std::vector<function_table> found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* list) {
            for (int i = 0; i < object->dlpi_phnum; ++i) {
                if (object->dlpi_phdr[i].p_type != PT_GNU_EH_FRAME) continue;
                function_table t;
                t.header = std::bit_cast<const std::byte*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
                if (std::to_integer<int>(t.header[2]) != 3 || std::to_integer<int>(t.header[3]) != 0x3b) continue;
                std::uint32_t count = 0;
                std::memcpy(&count, t.header + 8, sizeof count);
                t.count = count;
                static_cast<std::vector<function_table>*>(list)->push_back(t);
            }
            return 0;
        },
        &found);
    return found;
}

std::span<const std::byte> entry(const std::byte* at) {
    std::uint32_t length = 0;
    std::memcpy(&length, at, sizeof length);
    return {at, length + 4u};
}

call_frame_entries entries_of(const std::byte* own) {
    std::uint32_t back = 0;
    std::memcpy(&back, own + 4, sizeof back);
    return {entry(own + 4 - back), entry(own)};
}

/// This program's tables as libdw reads them, from the file.
class by_libdw {
public:
    by_libdw() {
        elf_version(EV_CURRENT);
        file_ = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
        elf_ = elf_begin(file_, ELF_C_READ, nullptr);
        cfi_ = dwarf_getcfi_elf(elf_);
        BOOST_REQUIRE(cfi_ != nullptr);
    }
    ~by_libdw() {
        dwarf_cfi_end(cfi_);
        elf_end(elf_);
        ::close(file_);
    }
    by_libdw(const by_libdw&) = delete;

    struct row {
        std::uintptr_t end = 0; ///< the first place for which another one holds
        bool simple = true;     ///< as call_frame can say it
        call_frame said;
    };
    std::optional<row> at(std::uintptr_t address) {
        Dwarf_Frame* frame = nullptr;
        if (dwarf_cfi_addrframe(cfi_, address, &frame) != 0) return std::nullopt;
        row r;
        Dwarf_Addr start = 0;
        Dwarf_Addr end = 0;
        bool signal = false;
        dwarf_frame_info(frame, &start, &end, &signal);
        r.end = end;
        r.simple = !signal;
        Dwarf_Op* ops = nullptr;
        std::size_t count = 0;
        dwarf_frame_cfa(frame, &ops, &count);
        constexpr std::pair<int, reg> columns[] = {{3, rbx}, {6, rbp}, {12, r12}, {13, r13}, {14, r14}, {15, r15}, {7, rsp}};
        bool known = false;
        if (count == 1)
            for (const auto& [column, which] : columns) {
                const bool it = ops[0].atom == DW_OP_breg0 + column || (ops[0].atom == DW_OP_bregx && ops[0].number == Dwarf_Word(column));
                if (!it) continue;
                known = true;
                r.said.cfa_base = which;
                r.said.cfa_offset = static_cast<std::int32_t>(ops[0].atom == DW_OP_bregx ? ops[0].number2 : ops[0].number);
            }
        r.simple = r.simple && known;
        for (const auto& [column, which] : columns) {
            if (which == rsp) continue;
            const auto offset = saved(frame, column);
            if (!offset) r.simple = false;
            else r.said.saved[which] = *offset;
        }
        if (saved(frame, 16) != -8) r.simple = false;
        std::free(frame);
        return r;
    }

private:
    /// From the CFA; 0: not saved.
    static std::optional<std::int32_t> saved(Dwarf_Frame* frame, int column) {
        Dwarf_Op room[3];
        Dwarf_Op* ops = nullptr;
        std::size_t count = 0;
        dwarf_frame_register(frame, column, room, &ops, &count);
        if (count == 0) return 0;
        if (count == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst)
            return static_cast<std::int32_t>(static_cast<std::int64_t>(ops[1].number));
        return std::nullopt;
    }

    int file_ = -1;
    Elf* elf_ = nullptr;
    Dwarf_CFI* cfi_ = nullptr;
};

/// Where this program's file begins in memory.
std::uintptr_t program_base() {
    std::uintptr_t base = 0;
    dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* at) { // the program comes first
            *static_cast<std::uintptr_t*>(at) = object->dlpi_addr;
            return 1;
        },
        &base);
    return base;
}

} // namespace

BOOST_AUTO_TEST_SUITE(call_frame)

BOOST_AUTO_TEST_CASE(libdw_says_the_same_of_each_row_of_each_function_of_this_program) {
    by_libdw libdw;
    const std::uintptr_t base = program_base();
    const function_table program = tables().front();
    std::size_t rows = 0;
    std::size_t left_to_libgcc = 0;
    for (std::size_t i = 0; i < program.count; ++i) {
        const std::uintptr_t function = program.at(i).first;
        const std::uintptr_t next = i + 1 < program.count ? program.at(i + 1).first : ~std::uintptr_t{0};
        bool simple = true; // so far: ours reads no further than to what it does not know
        for (std::uintptr_t pc = function; pc < next;) {
            const auto theirs = libdw.at(pc - base);
            if (!theirs || theirs->end <= pc - base) break;
            const std::uintptr_t last = theirs->end + base - 1;
            simple = simple && theirs->simple;
            for (const std::uintptr_t place : {pc, last}) {
                const auto ours = describe(place);
                ++rows;
                if (!ours) ++left_to_libgcc;
                const bool same = ours ? theirs->simple && ours->cfa_base == theirs->said.cfa_base &&
                                             ours->cfa_offset == theirs->said.cfa_offset && ours->saved == theirs->said.saved
                                       : !simple;
                if (!same) BOOST_TEST(same, "function " << i << ", " << std::hex << place - base);
            }
            pc = last + 1;
        }
    }
    BOOST_TEST(rows > 2'000u);
    BOOST_TEST(left_to_libgcc * 5 < rows, left_to_libgcc << " of " << rows);
}

BOOST_AUTO_TEST_CASE(libgcc_says_the_same_of_each_frame_of_this_stack) {
    std::vector<seen> stack;
    _Unwind_Backtrace(see, &stack);
    BOOST_REQUIRE(stack.size() > 5u);
    std::size_t compared = 0;
    for (std::size_t i = 0; i + 1 < stack.size(); ++i) {
        const auto frame = describe(stack[i].ip - 1);
        if (!frame) continue;
        BOOST_TEST(frame->function == stack[i].function);
        BOOST_TEST(frame->language_data == stack[i].language_data);
        if (frame->cfa_base != rsp && frame->cfa_base != rbp) continue;
        const std::uintptr_t base = frame->cfa_base == rsp ? stack[i].sp : stack[i].bp;
        const std::uintptr_t cfa = base + static_cast<std::uintptr_t>(std::intptr_t{frame->cfa_offset});
        BOOST_TEST(cfa == stack[i + 1].sp);
        std::uintptr_t return_address = 0;
        std::memcpy(&return_address, std::bit_cast<const void*>(cfa - 8), sizeof return_address);
        BOOST_TEST(return_address == stack[i + 1].ip);
        if (frame->saved[rbp] != 0) {
            std::uintptr_t saved = 0;
            const auto offset = static_cast<std::uintptr_t>(std::intptr_t{frame->saved[rbp]});
            std::memcpy(&saved, std::bit_cast<const void*>(cfa + offset), sizeof saved);
            BOOST_TEST(saved == stack[i + 1].bp);
        }
        ++compared;
    }
    BOOST_TEST(compared > 5u);
}

BOOST_AUTO_TEST_CASE(nearly_every_function_that_is_loaded_is_understood) {
    std::size_t all = 0;
    std::size_t understood = 0;
    for (const auto& table : tables())
        for (std::size_t i = 0; i < table.count; ++i) {
            const auto [function, own] = table.at(i);
            ++all;
            const auto frame = describe(function);
            if (!frame) continue;
            ++understood;
            if (frame->function != function || frame->cfa_offset < 8) BOOST_TEST(false, "function " << i << " at " << function);
        }
    BOOST_TEST(all > 1000u);
    BOOST_TEST(understood * 100 > all * 95, understood << " of " << all);
}

BOOST_AUTO_TEST_CASE(entries_that_end_too_soon_are_not_understood_or_bounded) {
    const auto pc = std::bit_cast<std::uintptr_t>(&tables);
    const auto whole = describe(pc);
    BOOST_REQUIRE(whole.has_value());
    for (const auto& table : tables())
        for (std::size_t i = 0; i < table.count; ++i) {
            const auto [function, own] = table.at(i);
            if (function != whole->function) continue;
            const auto entries = entries_of(own);
            BOOST_TEST(describe(pc, entries).has_value());
            for (std::size_t bytes = 0; bytes < 16; ++bytes) { // up to where its function is said
                BOOST_TEST(!describe(pc, {entries.common, entries.own.first(bytes)}).has_value());
            }
            for (std::size_t bytes = 0; bytes < 14; ++bytes)
                BOOST_TEST(!describe(pc, {entries.common.first(bytes), entries.own}).has_value());
            // Every other length reads no further: AddressSanitizer sees it in these copies.
            for (std::size_t bytes = 16; bytes < entries.own.size(); ++bytes) {
                const std::vector<std::byte> copy(entries.own.begin(), entries.own.begin() + static_cast<std::ptrdiff_t>(bytes));
                describe(pc, {entries.common, copy});
            }
        }
}

BOOST_AUTO_TEST_CASE(no_function_is_there) {
    BOOST_TEST(!describe(0).has_value());
    BOOST_TEST(!describe(1).has_value());
    int on_the_stack = 0;
    BOOST_TEST(!describe(std::bit_cast<std::uintptr_t>(&on_the_stack)).has_value());
    BOOST_TEST(!describe(~std::uintptr_t{0}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

#else

BOOST_AUTO_TEST_SUITE(call_frame)
BOOST_AUTO_TEST_CASE(on_other_machines_libgcc_does_it) {}
BOOST_AUTO_TEST_SUITE_END()

#endif
