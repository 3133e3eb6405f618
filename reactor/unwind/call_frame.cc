#include <corewire/reactor/unwind/call_frame.hh>

#ifdef CW_HAS_CALL_FRAMES

#include <bit>
#include <cstring>

#include <dlfcn.h>

namespace corewire::unwind {
namespace {

/// Reads on; after the end, or what it does not know, it is `bad` and gives zeros.
class cursor {
public:
    explicit cursor(std::span<const std::byte> bytes) noexcept : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

    template <typename T>
    T take() noexcept {
        T value{};
        if (left() < sizeof value) {
            spoil();
            return value;
        }
        std::memcpy(&value, at_, sizeof value);
        at_ += sizeof value;
        return value;
    }
    std::uint64_t unsigned_leb() noexcept {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = take<std::uint8_t>();
            value |= std::uint64_t{byte & 0x7fu} << shift;
            if ((byte & 0x80u) == 0) return value;
        }
        spoil();
        return 0;
    }
    std::int64_t signed_leb() noexcept {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64; shift += 7) {
            const auto byte = take<std::uint8_t>();
            value |= std::uint64_t{byte & 0x7fu} << shift;
            if ((byte & 0x80u) != 0) continue;
            if ((byte & 0x40u) != 0 && shift + 7 < 64) value |= ~std::uint64_t{0} << (shift + 7);
            return std::bit_cast<std::int64_t>(value);
        }
        spoil();
        return 0;
    }
    /// A pointer as DW_EH_PE_* has it. 0 of one that is omitted or null.
    std::uintptr_t pointer(std::uint8_t encoding) noexcept {
        if (encoding == omitted) return 0;
        const auto here = std::bit_cast<std::uintptr_t>(at_);
        std::uintptr_t value = 0;
        switch (encoding & 0x0f) {
        case 0x00: case 0x04: case 0x0c: value = take<std::uint64_t>(); break;
        case 0x01: value = unsigned_leb(); break;
        case 0x02: value = take<std::uint16_t>(); break;
        case 0x03: value = take<std::uint32_t>(); break;
        case 0x09: value = static_cast<std::uintptr_t>(signed_leb()); break;
        case 0x0a: value = static_cast<std::uintptr_t>(std::intptr_t{take<std::int16_t>()}); break;
        case 0x0b: value = static_cast<std::uintptr_t>(std::intptr_t{take<std::int32_t>()}); break;
        default: spoil();
        }
        if (bad_ || value == 0) return 0;
        if ((encoding & 0x70) == 0x10) value += here;
        else if ((encoding & 0x70) != 0) spoil();
        if ((encoding & 0x80) != 0 && !bad_) std::memcpy(&value, std::bit_cast<const void*>(value), sizeof value);
        return value;
    }
    void skip(std::uint64_t bytes) noexcept {
        if (bytes > left()) spoil();
        else at_ += bytes;
    }
    void spoil() noexcept {
        bad_ = true;
        at_ = end_;
    }
    std::size_t left() const noexcept { return static_cast<std::size_t>(end_ - at_); }
    bool bad() const noexcept { return bad_; }
    const std::byte* at() const noexcept { return at_; }
    std::span<const std::byte> rest() const noexcept { return {at_, left()}; }

    static constexpr std::uint8_t omitted = 0xff;

private:
    const std::byte* at_;
    const std::byte* end_;
    bool bad_ = false;
};

struct common_entry {
    std::uint64_t code_factor = 1;
    std::int64_t data_factor = 1;
    std::uintptr_t personality = 0;
    std::uint8_t pointer_encoding = 0;
    std::uint8_t language_encoding = cursor::omitted;
    bool augmented = false;
    std::span<const std::byte> instructions;
};

std::optional<common_entry> read_common(std::span<const std::byte> bytes) noexcept {
    cursor in(bytes);
    common_entry e;
    in.skip(8); // length and the zero that tells it from the others
    const auto version = in.take<std::uint8_t>();
    if (version != 1 && version != 3) return std::nullopt;
    const auto* const augmentation = reinterpret_cast<const char*>(in.at());
    const std::size_t length = strnlen(augmentation, in.left());
    in.skip(length + 1);
    e.code_factor = in.unsigned_leb();
    e.data_factor = in.signed_leb();
    const std::uint64_t return_column = version == 1 ? in.take<std::uint8_t>() : in.unsigned_leb();
    if (in.bad() || return_column != 16) return std::nullopt;
    if (length != 0) {
        if (augmentation[0] != 'z') return std::nullopt;
        e.augmented = true;
        const std::uint64_t size = in.unsigned_leb();
        if (in.bad() || size > in.left()) return std::nullopt;
        cursor data(in.rest().first(size));
        in.skip(size);
        for (std::size_t i = 1; i < length; ++i) {
            switch (augmentation[i]) {
            case 'P': {
                const auto encoding = data.take<std::uint8_t>();
                e.personality = data.pointer(encoding);
                break;
            }
            case 'L': e.language_encoding = data.take<std::uint8_t>(); break;
            case 'R': e.pointer_encoding = data.take<std::uint8_t>(); break;
            default: return std::nullopt; // 'S', a signal frame, and what is not of this machine
            }
        }
        if (data.bad()) return std::nullopt;
    }
    e.instructions = in.rest();
    return e;
}

constexpr std::size_t columns = 17;          // DWARF's numbers of the registers
constexpr std::size_t return_address = 16;
constexpr std::int64_t unsaved = 1;          // no register is saved there: all are below the CFA

struct row {
    std::uint64_t base = 0;
    std::int64_t offset = 0;
    std::array<std::int64_t, columns> saved{unsaved, unsaved, unsaved, unsaved, unsaved, unsaved, unsaved, unsaved, unsaved,
                                            unsaved, unsaved, unsaved, unsaved, unsaved, unsaved, unsaved, unsaved};
};

/// Runs the instructions that hold at `pc`. False where one is not understood. `pushed`: bytes of arguments, no part of a remembered row.
bool run(std::span<const std::byte> instructions, const common_entry& common, std::uintptr_t location, std::uintptr_t pc, row& r,
         const row& initial, std::uint64_t& pushed) noexcept {
    cursor in(instructions);
    std::array<row, 4> remembered;
    std::size_t depth = 0;
    const auto save = [&](std::uint64_t column, std::int64_t factored) {
        if (column >= columns) return false;
        r.saved[column] = factored * common.data_factor;
        return true;
    };
    const auto restore = [&](std::uint64_t column) {
        if (column >= columns) return false;
        r.saved[column] = initial.saved[column];
        return true;
    };
    while (in.left() != 0 && location <= pc) {
        const auto op = in.take<std::uint8_t>();
        const std::uint64_t low = op & 0x3f;
        bool understood = true;
        if (op >> 6 == 1) location += low * common.code_factor;                                            // advance_loc
        else if (op >> 6 == 2) understood = save(low, static_cast<std::int64_t>(in.unsigned_leb()));       // offset
        else if (op >> 6 == 3) understood = restore(low);                                                  // restore
        else switch (op) {
        case 0x00: break; // nop
        case 0x02: location += in.take<std::uint8_t>() * common.code_factor; break;
        case 0x03: location += in.take<std::uint16_t>() * common.code_factor; break;
        case 0x04: location += in.take<std::uint32_t>() * common.code_factor; break;
        case 0x05: { // offset_extended
            const std::uint64_t column = in.unsigned_leb();
            understood = save(column, static_cast<std::int64_t>(in.unsigned_leb()));
            break;
        }
        case 0x06: understood = restore(in.unsigned_leb()); break; // restore_extended
        case 0x08: { // same_value
            const std::uint64_t column = in.unsigned_leb();
            understood = column < columns && column != return_address;
            if (understood) r.saved[column] = unsaved;
            break;
        }
        case 0x0a: // remember_state
            understood = depth < remembered.size();
            if (understood) remembered[depth++] = r;
            break;
        case 0x0b: // restore_state
            understood = depth != 0;
            if (understood) r = remembered[--depth];
            break;
        case 0x0c: // def_cfa
            r.base = in.unsigned_leb();
            r.offset = static_cast<std::int64_t>(in.unsigned_leb());
            break;
        case 0x0d: r.base = in.unsigned_leb(); break;                              // def_cfa_register
        case 0x0e: r.offset = static_cast<std::int64_t>(in.unsigned_leb()); break; // def_cfa_offset
        case 0x11: { // offset_extended_sf
            const std::uint64_t column = in.unsigned_leb();
            understood = save(column, in.signed_leb());
            break;
        }
        case 0x12: // def_cfa_sf
            r.base = in.unsigned_leb();
            r.offset = in.signed_leb() * common.data_factor;
            break;
        case 0x13: r.offset = in.signed_leb() * common.data_factor; break; // def_cfa_offset_sf
        case 0x2e: pushed = in.unsigned_leb(); break;                    // GNU_args_size
        default: understood = false; // set_loc, undefined, register, expressions
        }
        if (!understood || in.bad()) return false;
    }
    return true;
}

std::optional<reg> preserved_by_calls(std::uint64_t column) noexcept {
    switch (column) {
    case 3: return rbx;
    case 6: return rbp;
    case 7: return rsp;
    case 12: return r12;
    case 13: return r13;
    case 14: return r14;
    case 15: return r15;
    default: return std::nullopt;
    }
}

/// An entry from its length on. Empty where it is the last one or longer than 4 GiB.
std::span<const std::byte> entry_at(const std::byte* at) noexcept {
    std::uint32_t length = 0;
    std::memcpy(&length, at, sizeof length);
    if (length < 4 || length >= 0xffff'fff0) return {};
    return {at, std::size_t{length} + 4};
}

/// The entries of the function that `pc` is in, by the table that the linker sorts (.eh_frame_hdr).
std::optional<call_frame_entries> find(std::uintptr_t pc) noexcept {
    dl_find_object object;
    if (_dl_find_object(std::bit_cast<void*>(pc), &object) != 0 || object.dlfo_eh_frame == nullptr) return std::nullopt;
    const auto* const header = static_cast<const std::byte*>(object.dlfo_eh_frame);
    // Its version, then how its pointers are written.
    constexpr std::array expected{std::byte{1}, std::byte{0x1b}, std::byte{3}, std::byte{0x3b}};
    if (std::memcmp(header, expected.data(), expected.size()) != 0) return std::nullopt;
    std::uint32_t count = 0;
    std::memcpy(&count, header + 8, sizeof count);
    struct line {
        std::int32_t function;
        std::int32_t entry;
    };
    const auto line_at = [&](std::size_t i) {
        line l;
        std::memcpy(&l, header + 12 + i * sizeof l, sizeof l);
        return l;
    };
    const auto wanted = static_cast<std::int64_t>(pc - std::bit_cast<std::uintptr_t>(header));
    std::size_t first = 0; // functions that begin at or before pc: [0, first)
    for (std::size_t last = count; first < last;) {
        const std::size_t middle = first + (last - first) / 2;
        if (line_at(middle).function <= wanted) first = middle + 1;
        else last = middle;
    }
    if (first == 0) return std::nullopt;
    call_frame_entries found;
    found.own = entry_at(header + line_at(first - 1).entry);
    if (found.own.size() < 8) return std::nullopt;
    std::uint32_t back = 0;
    std::memcpy(&back, found.own.data() + 4, sizeof back);
    if (back == 0) return std::nullopt;
    found.common = entry_at(found.own.data() + 4 - back);
    if (found.common.empty()) return std::nullopt;
    return found;
}

} // namespace

std::optional<call_frame> describe(std::uintptr_t pc, const call_frame_entries& entries) noexcept {
    const auto common = read_common(entries.common);
    if (!common) return std::nullopt;
    cursor own(entries.own);
    own.skip(8);
    call_frame f;
    f.function = own.pointer(common->pointer_encoding);
    const std::uintptr_t size = own.pointer(common->pointer_encoding & 0x0f);
    if (own.bad() || pc < f.function || pc - f.function >= size) return std::nullopt;
    if (common->augmented) {
        const std::uint64_t bytes = own.unsigned_leb();
        if (own.bad() || bytes > own.left()) return std::nullopt;
        cursor data(own.rest().first(bytes));
        own.skip(bytes);
        f.language_data = data.pointer(common->language_encoding);
        if (data.bad()) return std::nullopt;
    }
    f.personality = common->personality;

    row now;
    std::uint64_t pushed = 0;
    if (!run(common->instructions, *common, 0, 0, now, row{}, pushed)) return std::nullopt;
    const row initial = now;
    if (!run(own.rest(), *common, f.function, pc, now, initial, pushed)) return std::nullopt;

    const auto base = preserved_by_calls(now.base);
    constexpr std::int64_t far = std::int64_t{1} << 30;
    if (!base || now.offset < -far || now.offset > far || pushed > far) return std::nullopt;
    f.cfa_base = *base;
    f.cfa_offset = static_cast<std::int32_t>(now.offset);
    f.pushed_arguments = static_cast<std::uint32_t>(pushed);
    for (std::size_t column = 0; column < columns; ++column) {
        const std::int64_t at = now.saved[column];
        if (column == return_address) {
            if (at != -8) return std::nullopt;
            continue;
        }
        const auto which = preserved_by_calls(column);
        if (at == unsaved || !which) continue; // the others belong to who is called
        if (*which == rsp || at >= 0 || at < -far) return std::nullopt;
        f.saved[*which] = static_cast<std::int32_t>(at);
    }
    return f;
}

std::optional<call_frame> describe(std::uintptr_t pc) noexcept {
    const auto entries = find(pc);
    if (!entries) return std::nullopt;
    return describe(pc, *entries);
}

} // namespace corewire::unwind

#endif
