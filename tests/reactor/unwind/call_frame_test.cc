#include <boost/test/unit_test.hpp>

#include <corewire/reactor/unwind/call_frame.hh>

#ifdef CW_HAS_CALL_FRAMES

#include <bit>
#include <cstring>
#include <vector>

#include <link.h>
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

} // namespace

BOOST_AUTO_TEST_SUITE(call_frame)

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
