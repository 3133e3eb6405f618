// The functions of the Itanium C++ ABI's "Level I: Base ABI" that walk the stack. The dynamic linker prefers those of the program to those
// of libgcc_s, also for the C++ library. What is seldom - forced unwinding (pthread_exit), frames whose tables are not understood, the end
// of the stack - is handed on to libgcc with every register as it was, before anything has changed. Weak, because a program that links
// libgcc's archive (-static) has its functions, all of them.
#include <corewire/reactor/unwind/raise.hh>

#ifdef CW_SHORT_UNWIND

#include <atomic>
#include <bit>
#include <type_traits>

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

using namespace corewire::unwind;

/// Goes on with registers as they are at `at`, in the order of `reg`, and rax and rdx behind them.
extern "C" [[noreturn, gnu::visibility("hidden")]] void corewire_unwind_land(const std::uint64_t* at) noexcept;
/// _Unwind_RaiseException as it is here, whatever that name stands for in this program.
extern "C" [[gnu::visibility("hidden")]] const char corewire_unwind_own_RaiseException[];

namespace {

/// What _Unwind_Context is here: a frame whose call is under way.
struct context {
    std::uint64_t mark = ours;
    std::array<std::uint64_t, registers> at{}; ///< rsp as it is when the call returns, rip where to
    std::uint64_t rax = 0;                     ///< for a landing pad
    std::uint64_t rdx = 0;
    call_frame frame;                          ///< of the function that rip is in

    static constexpr std::uint64_t ours = 0xc0de'0f00'0000'0001; ///< no pointer, with which libgcc's context begins
};

/// An object that is never unloaded.
struct object_range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
};

/// What is found out at the first throw: libgcc's functions, and whether ours may be used.
struct choice {
    decltype(&_Unwind_RaiseException) raise = nullptr;
    decltype(&_Unwind_Resume) resume = nullptr;
    decltype(&_Unwind_Resume_or_Rethrow) rethrow = nullptr;
    decltype(&_Unwind_GetGR) get_gr = nullptr;
    decltype(&_Unwind_SetGR) set_gr = nullptr;
    decltype(&_Unwind_GetIP) get_ip = nullptr;
    decltype(&_Unwind_GetIPInfo) get_ip_info = nullptr;
    decltype(&_Unwind_SetIP) set_ip = nullptr;
    decltype(&_Unwind_GetCFA) get_cfa = nullptr;
    decltype(&_Unwind_GetLanguageSpecificData) get_language_data = nullptr;
    decltype(&_Unwind_GetRegionStart) get_region_start = nullptr;
    decltype(&_Unwind_GetDataRelBase) get_data_base = nullptr;
    decltype(&_Unwind_GetTextRelBase) get_text_base = nullptr;
    std::array<object_range, 2> stay; ///< the program, and the C++ library, through which every throw goes
    bool ours = false;
};

object_range object_of(const void* address) noexcept {
    dl_find_object o;
    if (address == nullptr || _dl_find_object(const_cast<void*>(address), &o) != 0) return {};
    return {std::bit_cast<std::uintptr_t>(o.dlfo_map_start), std::bit_cast<std::uintptr_t>(o.dlfo_map_end)};
}

bool is_the_program(const void* address) noexcept {
    dl_find_object o;
    return _dl_find_object(const_cast<void*>(address), &o) == 0 && o.dlfo_link_map->l_name[0] == '\0';
}

/// A shadow stack (CET) would have to be unwound as well.
bool has_shadow_stack() noexcept {
    std::uint64_t pointer = 0;
    asm volatile("rdsspq %0" : "+r"(pointer)); // a nop where there is none
    return pointer != 0;
}

choice choose() noexcept {
    choice c;
    bool all = true; // found, and ours is what others find
    void* const library = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_NOLOAD);
    const auto replace = [&](auto& original, const char* name, auto* function) {
        void* const own = std::bit_cast<void*>(function);
        void* next = dlsym(RTLD_NEXT, name);
        if (next == nullptr && library != nullptr) next = dlsym(library, name);
        original = std::bit_cast<std::remove_reference_t<decltype(original)>>(next);
        all = all && next != nullptr && next != own && dlsym(RTLD_DEFAULT, name) == own;
    };
    replace(c.raise, "_Unwind_RaiseException", &_Unwind_RaiseException);
    replace(c.resume, "_Unwind_Resume", &_Unwind_Resume);
    replace(c.rethrow, "_Unwind_Resume_or_Rethrow", &_Unwind_Resume_or_Rethrow);
    replace(c.get_gr, "_Unwind_GetGR", &_Unwind_GetGR);
    replace(c.set_gr, "_Unwind_SetGR", &_Unwind_SetGR);
    replace(c.get_ip, "_Unwind_GetIP", &_Unwind_GetIP);
    replace(c.get_ip_info, "_Unwind_GetIPInfo", &_Unwind_GetIPInfo);
    replace(c.set_ip, "_Unwind_SetIP", &_Unwind_SetIP);
    replace(c.get_cfa, "_Unwind_GetCFA", &_Unwind_GetCFA);
    replace(c.get_language_data, "_Unwind_GetLanguageSpecificData", &_Unwind_GetLanguageSpecificData);
    replace(c.get_region_start, "_Unwind_GetRegionStart", &_Unwind_GetRegionStart);
    replace(c.get_data_base, "_Unwind_GetDataRelBase", &_Unwind_GetDataRelBase);
    replace(c.get_text_base, "_Unwind_GetTextRelBase", &_Unwind_GetTextRelBase);
    c.stay = {object_of(std::bit_cast<void*>(&corewire::unwind::active)), object_of(dlsym(RTLD_DEFAULT, "__cxa_throw"))};
    const bool first = dlsym(RTLD_DEFAULT, "_Unwind_RaiseException") == corewire_unwind_own_RaiseException;
    c.ours = all && first && is_the_program(corewire_unwind_own_RaiseException) && !has_shadow_stack();
    return c;
}
const choice& chosen() noexcept {
    static const choice c = choose();
    return c;
}
/// Before other constructors of this program, threads and signals: the dynamic linker's locks are not for the middle of a throw.
[[gnu::constructor(101)]] void choose_early() { chosen(); }

// --- frames -----------------------------------------------------------------------------------------------------------------

/// What has been read of functions that stay where they are, by return address. Those of other objects are read anew each time.
struct known_frame {
    std::uintptr_t return_address = 0;
    call_frame frame;
};
constexpr std::size_t known_frames = 128;
constinit thread_local std::array<known_frame, known_frames> known{};
constinit thread_local std::atomic<bool> in_use{false}; ///< `known`, by the throw that a signal handler has interrupted

bool stays_loaded(std::uintptr_t address) noexcept {
    for (const object_range& o : chosen().stay)
        if (address >= o.begin && address < o.end) return true;
    return false;
}

/// Sets `c.frame`. False where libgcc has to go on: at the end of the stack, where the tables are not understood, and where somebody else's
/// personality routine is asked, which may know another libgcc than ours.
bool look(context& c) noexcept {
    const std::uintptr_t return_address = c.at[rip];
    if (return_address == 0) return false;
    known_frame& k = known[(return_address ^ (return_address >> 7)) % known_frames];
    const bool alone = !in_use.load(std::memory_order_relaxed);
    if (alone) {
        in_use.store(true, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        const bool hit = k.return_address == return_address;
        if (hit) c.frame = k.frame;
        std::atomic_signal_fence(std::memory_order_seq_cst);
        in_use.store(false, std::memory_order_relaxed);
        if (hit) return true;
    }
    const auto read = describe(return_address - 1); // a call may be the last instruction of its function
    if (!read || (read->personality != 0 && !stays_loaded(read->personality))) return false;
    c.frame = *read;
    if (!alone || !stays_loaded(return_address - 1)) return true;
    in_use.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    k.frame = *read;
    k.return_address = return_address;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    in_use.store(false, std::memory_order_relaxed);
    return true;
}

/// From a function to the one that called it.
void leave(context& c) noexcept {
    const call_frame& f = c.frame;
    const std::uint64_t cfa = c.at[f.cfa_base] + static_cast<std::uint64_t>(std::int64_t{f.cfa_offset});
    const auto load = [&](std::int64_t offset) { return *std::bit_cast<const std::uint64_t*>(cfa + static_cast<std::uint64_t>(offset)); };
    for (std::size_t i = 0; i < preserved; ++i)
        if (f.saved[i] != 0) c.at[i] = load(f.saved[i]);
    c.at[rip] = load(-8);
    c.at[rsp] = cfa;
}

_Unwind_Reason_Code ask(context& c, _Unwind_Action actions, _Unwind_Exception* e) noexcept {
    const auto personality = std::bit_cast<_Unwind_Personality_Fn>(c.frame.personality);
    return personality(1, actions, e->exception_class, e, reinterpret_cast<_Unwind_Context*>(&c));
}

/// What libgcc writes there and compares with: rsp in the frame of the handler.
std::uint64_t identity(const context& c) noexcept { return c.at[rsp]; }

/// Phase 2: goes on at the next landing pad, which cleans up or is the handler's. Returns, with nothing changed, where a frame before that
/// is not understood.
void clean_up(_Unwind_Exception* e, context& c) noexcept {
    for (;; leave(c)) {
        if (!look(c)) return;
        const bool handler = identity(c) == e->private_2;
        if (c.frame.personality != 0) {
            const auto said = ask(c, static_cast<_Unwind_Action>(_UA_CLEANUP_PHASE | (handler ? _UA_HANDLER_FRAME : 0)), e);
            if (said == _URC_INSTALL_CONTEXT) break;
            if (said != _URC_CONTINUE_UNWIND) __builtin_trap();
        }
        if (handler) __builtin_trap(); // it said that it is
    }
    c.at[rsp] += c.frame.pushed_arguments;
    corewire_unwind_land(c.at.data());
}

/// The registers of who called one of the functions below, as these leave them for us.
context caller(const std::uint64_t* saved) noexcept {
    context c;
    for (std::size_t i = 0; i < registers; ++i) c.at[i] = saved[i];
    return c;
}

constexpr int to_libgcc = -1;

context* mine_or_null(_Unwind_Context* c) noexcept {
    auto* const mine = reinterpret_cast<context*>(c);
    return mine->mark == context::ours ? mine : nullptr;
}

} // namespace

/// Phase 1: who handles it? Returns what the caller is to be told, or that libgcc has to do it.
extern "C" [[gnu::used, gnu::visibility("hidden")]] int corewire_unwind_raise(_Unwind_Exception* e, const std::uint64_t* saved) noexcept {
    if (!chosen().ours) return to_libgcc;
    context c = caller(saved);
    for (;; leave(c)) {
        if (!look(c)) return to_libgcc;
        if (c.frame.personality == 0) continue;
        const auto said = ask(c, _UA_SEARCH_PHASE, e);
        if (said == _URC_HANDLER_FOUND) break;
        if (said != _URC_CONTINUE_UNWIND) return _URC_FATAL_PHASE1_ERROR;
    }
    e->private_1 = 0;
    e->private_2 = identity(c);
    c = caller(saved);
    clean_up(e, c);
    __builtin_trap(); // each frame was understood above
}

extern "C" [[gnu::used, gnu::visibility("hidden")]] int corewire_unwind_rethrow(_Unwind_Exception* e, const std::uint64_t* saved) noexcept {
    return e->private_1 == 0 ? corewire_unwind_raise(e, saved) : to_libgcc;
}

/// A landing pad has cleaned up. Who has brought the exception there may have been libgcc, for a frame that is still to come.
extern "C" [[gnu::used, gnu::visibility("hidden")]] int corewire_unwind_resume(_Unwind_Exception* e, const std::uint64_t* saved) noexcept {
    if (chosen().ours && e->private_1 == 0) {
        context c = caller(saved);
        clean_up(e, c);
    }
    return to_libgcc;
}

extern "C" [[gnu::used, gnu::visibility("hidden")]] void* corewire_unwind_original_raise(const _Unwind_Exception*) noexcept {
    return std::bit_cast<void*>(chosen().raise);
}
extern "C" [[gnu::used, gnu::visibility("hidden")]] void* corewire_unwind_original_resume(const _Unwind_Exception*) noexcept {
    return std::bit_cast<void*>(chosen().resume);
}
extern "C" [[gnu::used, gnu::visibility("hidden")]] void* corewire_unwind_original_rethrow(const _Unwind_Exception* e) noexcept {
    // libgcc's would call _Unwind_RaiseException, which is ours.
    return e->private_1 == 0 ? std::bit_cast<void*>(chosen().raise) : std::bit_cast<void*>(chosen().rethrow);
}

// Each leaves the registers that calls preserve on the stack, in the order of `reg`, and the exception behind them.
// rax < 0 afterwards: to libgcc, as if it had been called at once.
#define CW_UNWIND_ENTRY(name, body, original)                                                                                              \
    asm(".text\n.p2align 4\n.weak _Unwind_" #name "\n.type _Unwind_" #name ", @function\n"                                                 \
        ".globl corewire_unwind_own_" #name "\n.hidden corewire_unwind_own_" #name "\n"                                                    \
        "_Unwind_" #name ":\ncorewire_unwind_own_" #name ":\n"                                                                             \
        ".cfi_startproc\n"                                                                                                                 \
        "endbr64\n"                                                                                                                        \
        "leaq 8(%rsp), %rax\n"                                                                                                             \
        "movq (%rsp), %rdx\n"                                                                                                              \
        "subq $72, %rsp\n"                                                                                                                 \
        ".cfi_adjust_cfa_offset 72\n"                                                                                                      \
        "movq %rbx, (%rsp)\nmovq %rbp, 8(%rsp)\nmovq %r12, 16(%rsp)\nmovq %r13, 24(%rsp)\nmovq %r14, 32(%rsp)\nmovq %r15, 40(%rsp)\n"      \
        "movq %rax, 48(%rsp)\nmovq %rdx, 56(%rsp)\nmovq %rdi, 64(%rsp)\n"                                                                  \
        "movq %rsp, %rsi\n"                                                                                                                \
        "call " #body "\n"                                                                                                                 \
        "testl %eax, %eax\n"                                                                                                               \
        "js 1f\n"                                                                                                                          \
        "addq $72, %rsp\n"                                                                                                                 \
        ".cfi_remember_state\n.cfi_adjust_cfa_offset -72\n"                                                                                \
        "ret\n"                                                                                                                            \
        "1:\n.cfi_restore_state\n"                                                                                                         \
        "movq 64(%rsp), %rdi\n"                                                                                                            \
        "call " #original "\n"                                                                                                             \
        "movq 64(%rsp), %rdi\n"                                                                                                            \
        "addq $72, %rsp\n"                                                                                                                 \
        ".cfi_adjust_cfa_offset -72\n"                                                                                                     \
        "jmp *%rax\n"                                                                                                                      \
        ".cfi_endproc\n.size _Unwind_" #name ", .-_Unwind_" #name "\n")

CW_UNWIND_ENTRY(RaiseException, corewire_unwind_raise, corewire_unwind_original_raise);
CW_UNWIND_ENTRY(Resume, corewire_unwind_resume, corewire_unwind_original_resume);
CW_UNWIND_ENTRY(Resume_or_Rethrow, corewire_unwind_rethrow, corewire_unwind_original_rethrow);

// The context is in a frame that is left: all is read before rsp is set.
asm(".text\n.p2align 4\n.globl corewire_unwind_land\n.hidden corewire_unwind_land\n.type corewire_unwind_land, @function\n"
    "corewire_unwind_land:\n"
    ".cfi_startproc\n.cfi_undefined rip\n"
    "endbr64\n"
    "movq (%rdi), %rbx\nmovq 8(%rdi), %rbp\nmovq 16(%rdi), %r12\nmovq 24(%rdi), %r13\nmovq 32(%rdi), %r14\nmovq 40(%rdi), %r15\n"
    "movq 56(%rdi), %rcx\nmovq 64(%rdi), %rax\nmovq 72(%rdi), %rdx\n"
    "movq 48(%rdi), %rsp\n"
    "jmp *%rcx\n"
    ".cfi_endproc\n.size corewire_unwind_land, .-corewire_unwind_land\n");

extern "C" {

[[gnu::weak]] _Unwind_Word _Unwind_GetGR(_Unwind_Context* c, int index) {
    const context* const mine = mine_or_null(c);
    if (mine == nullptr) return chosen().get_gr(c, index);
    switch (index) {
    case 0: return mine->rax;
    case 1: return mine->rdx;
    case 3: return mine->at[rbx];
    case 6: return mine->at[rbp];
    case 7: return mine->at[rsp];
    case 12: return mine->at[r12];
    case 13: return mine->at[r13];
    case 14: return mine->at[r14];
    case 15: return mine->at[r15];
    default: __builtin_trap(); // no personality asks for another
    }
}
[[gnu::weak]] void _Unwind_SetGR(_Unwind_Context* c, int index, _Unwind_Word value) {
    context* const mine = mine_or_null(c);
    if (mine == nullptr) return chosen().set_gr(c, index, value);
    switch (index) {
    case 0: mine->rax = value; break;
    case 1: mine->rdx = value; break;
    default: __builtin_trap(); // no landing pad expects another
    }
}
[[gnu::weak]] _Unwind_Ptr _Unwind_GetIP(_Unwind_Context* c) {
    const context* const mine = mine_or_null(c);
    return mine != nullptr ? mine->at[rip] : chosen().get_ip(c);
}
[[gnu::weak]] _Unwind_Ptr _Unwind_GetIPInfo(_Unwind_Context* c, int* before) {
    const context* const mine = mine_or_null(c);
    if (mine == nullptr) return chosen().get_ip_info(c, before);
    *before = 0;
    return mine->at[rip];
}
[[gnu::weak]] void _Unwind_SetIP(_Unwind_Context* c, _Unwind_Ptr value) {
    context* const mine = mine_or_null(c);
    if (mine == nullptr) return chosen().set_ip(c, value);
    mine->at[rip] = value;
}
[[gnu::weak]] _Unwind_Word _Unwind_GetCFA(_Unwind_Context* c) {
    const context* const mine = mine_or_null(c);
    return mine != nullptr ? mine->at[rsp] : chosen().get_cfa(c);
}
[[gnu::weak]] void* _Unwind_GetLanguageSpecificData(_Unwind_Context* c) {
    const context* const mine = mine_or_null(c);
    return mine != nullptr ? std::bit_cast<void*>(mine->frame.language_data) : chosen().get_language_data(c);
}
[[gnu::weak]] _Unwind_Ptr _Unwind_GetRegionStart(_Unwind_Context* c) {
    const context* const mine = mine_or_null(c);
    return mine != nullptr ? mine->frame.function : chosen().get_region_start(c);
}
// No table of this machine's is relative to either: they are asked of libgcc's contexts only, or of ours in vain.
[[gnu::weak]] _Unwind_Ptr _Unwind_GetDataRelBase(_Unwind_Context* c) { return mine_or_null(c) != nullptr ? 0 : chosen().get_data_base(c); }
[[gnu::weak]] _Unwind_Ptr _Unwind_GetTextRelBase(_Unwind_Context* c) { return mine_or_null(c) != nullptr ? 0 : chosen().get_text_base(c); }

} // extern "C"

namespace corewire::unwind {
bool active() noexcept { return chosen().ours; }
} // namespace corewire::unwind

#else

namespace corewire::unwind {
bool active() noexcept { return false; }
} // namespace corewire::unwind

#endif
