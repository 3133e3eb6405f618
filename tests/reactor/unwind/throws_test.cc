// What a throw has to do, whoever walks the stack: ours where it can, libgcc where it has to.
#include <boost/test/unit_test.hpp>

#include <corewire/reactor/unwind/raise.hh>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <link.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

namespace {

/// Notes its number when it is destroyed.
class note {
public:
    note(std::vector<int>& notes, int number) noexcept : notes_(notes), number_(number) { notes_.reserve(64); }
    ~note() { notes_.push_back(number_); }
    note(const note&) = delete;

private:
    std::vector<int>& notes_;
    int number_;
};

/// Not inlined, and not known to throw always.
[[gnu::noinline]] void throw_number(int number) {
    asm volatile("" : "+r"(number));
    if (number != 0) throw number;
}

#ifdef __x86_64__
/// Uses all registers that a call preserves, and throws.
[[gnu::noinline]] void clobber_and_throw() {
    asm volatile("xorl %%ebx, %%ebx\nxorl %%r12d, %%r12d\nxorl %%r13d, %%r13d\nxorl %%r14d, %%r14d\nxorl %%r15d, %%r15d"
                 :
                 :
                 : "rbx", "r12", "r13", "r14", "r15");
    throw_number(1);
    asm volatile("");
}
#endif

[[gnu::noinline]] int many_arguments(int a, int b, int c, int d, int e, int f, int g, int h, int i, std::string j) {
    throw_number(a + b + c + d + e + f + g + h + i + static_cast<int>(j.size()));
    return a;
}

[[gnu::noinline]] int dive(int depth, std::vector<int>& notes) {
    const note n(notes, depth);
    if (depth == 0) {
        throw_number(7);
        return 0;
    }
    return dive(depth - 1, notes) + 1;
}

/// The exit status of a child in which `body` runs; 1,000 + a signal's number.
template <typename F>
int status_of(F body) {
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = 0;
    BOOST_REQUIRE_EQUAL(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

_Unwind_Reason_Code count_frame(_Unwind_Context* frame, void* count) {
    if (_Unwind_GetIP(frame) != 0) ++*static_cast<int*>(count);
    return _URC_NO_REASON;
}

} // namespace

#ifdef __x86_64__
extern "C" [[gnu::used]] void corewire_test_catches() noexcept {
    try {
        clobber_and_throw();
    } catch (int) {
    }
}

// Calls it with known values in the registers that it has to preserve, and stores what they are afterwards.
extern "C" void corewire_test_preserved(std::uint64_t* after);
asm(".text\n.type corewire_test_preserved, @function\ncorewire_test_preserved:\n"
    ".cfi_startproc\n"
    "pushq %rbx\n.cfi_adjust_cfa_offset 8\npushq %rbp\n.cfi_adjust_cfa_offset 8\npushq %r12\n.cfi_adjust_cfa_offset 8\n"
    "pushq %r13\n.cfi_adjust_cfa_offset 8\npushq %r14\n.cfi_adjust_cfa_offset 8\npushq %r15\n.cfi_adjust_cfa_offset 8\n"
    "pushq %rdi\n.cfi_adjust_cfa_offset 8\n"
    "movl $1, %ebx\nmovl $2, %ebp\nmovl $3, %r12d\nmovl $4, %r13d\nmovl $5, %r14d\nmovl $6, %r15d\n"
    "call corewire_test_catches\n"
    "popq %rdi\n.cfi_adjust_cfa_offset -8\n"
    "movq %rbx, (%rdi)\nmovq %rbp, 8(%rdi)\nmovq %r12, 16(%rdi)\nmovq %r13, 24(%rdi)\nmovq %r14, 32(%rdi)\nmovq %r15, 40(%rdi)\n"
    "popq %r15\n.cfi_adjust_cfa_offset -8\npopq %r14\n.cfi_adjust_cfa_offset -8\npopq %r13\n.cfi_adjust_cfa_offset -8\n"
    "popq %r12\n.cfi_adjust_cfa_offset -8\npopq %rbp\n.cfi_adjust_cfa_offset -8\npopq %rbx\n.cfi_adjust_cfa_offset -8\n"
    "ret\n.cfi_endproc\n.size corewire_test_preserved, .-corewire_test_preserved\n");

// A stack that somebody has made by hand, and that ends with a return address of 0.
extern "C" [[noreturn]] void corewire_test_on_a_stack(void* end, void (*body)());
asm(".text\n.type corewire_test_on_a_stack, @function\ncorewire_test_on_a_stack:\n"
    ".cfi_startproc\n"
    "movq %rdi, %rsp\npushq $0\njmp *%rsi\n"
    ".cfi_endproc\n.size corewire_test_on_a_stack, .-corewire_test_on_a_stack\n");
#endif

namespace {
const bool caught_before_main = [] {
    try {
        throw_number(1);
    } catch (int) {
        return true;
    }
    return false;
}();
} // namespace

BOOST_AUTO_TEST_SUITE(throws)

BOOST_AUTO_TEST_CASE(a_program_with_the_reactor_has_it) {
#ifdef CW_SHORT_UNWIND
    BOOST_TEST(corewire::unwind::active());
#else
    BOOST_TEST(!corewire::unwind::active());
#endif
}

#ifdef __x86_64__
BOOST_AUTO_TEST_CASE(the_registers_that_a_call_preserves_are_as_they_were) {
    for (int round = 0; round < 3; ++round) { // what was read is used again
        std::uint64_t after[6] = {};
        corewire_test_preserved(after);
        for (std::uint64_t i = 0; i < 6; ++i) BOOST_TEST(after[i] == i + 1);
    }
}
#endif

BOOST_AUTO_TEST_CASE(arguments_on_the_stack_are_given_back) {
    int sum = 0;
    std::uintptr_t first = 0; // where the stack ends, the first time and now
    std::uintptr_t now = 0;
    for (int i = 1; i <= 100; ++i) {
#ifdef __x86_64__
        asm volatile("movq %%rsp, %0" : "=r"(now));
#endif
        if (i == 1) first = now;
        try {
            sum += many_arguments(i, 2, 3, 4, 5, 6, 7, 8, 9, "ten");
        } catch (int number) {
            sum += number - i;
        }
    }
    BOOST_TEST(now == first);
    BOOST_TEST(sum == 100 * (2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 3));
}

BOOST_AUTO_TEST_CASE(each_frame_cleans_up_from_the_innermost_on) {
    std::vector<int> notes;
    BOOST_CHECK_THROW(dive(20, notes), int);
    BOOST_REQUIRE(notes.size() == 21u);
    for (int i = 0; i <= 20; ++i) BOOST_TEST(notes[static_cast<std::size_t>(i)] == i);
}

BOOST_AUTO_TEST_CASE(more_frames_than_are_kept) {
    for (int round = 0; round < 2; ++round) {
        std::vector<int> notes;
        notes.reserve(2001);
        try {
            dive(2000, notes);
        } catch (int) {
            notes.push_back(-1);
        }
        BOOST_TEST(notes.size() == 2002u);
    }
}

BOOST_AUTO_TEST_CASE(what_is_thrown_and_caught_while_another_passes) {
    struct throws_within {
        int& count;
        ~throws_within() {
            try {
                throw_number(3);
            } catch (int number) {
                count += number;
            }
        }
    };
    int count = 0;
    try {
        const throws_within outer{count};
        const throws_within inner{count};
        throw std::runtime_error("the first");
    } catch (const std::exception& e) {
        BOOST_TEST(e.what() == std::string("the first"));
    }
    BOOST_TEST(count == 6);
}

BOOST_AUTO_TEST_CASE(thrown_again_where_it_was_caught_and_in_another_thread) {
    std::vector<int> notes;
    try {
        const note outer(notes, 2);
        try {
            const note inner(notes, 1);
            throw std::runtime_error("again");
        } catch (const std::logic_error&) {
            notes.push_back(-1);
        } catch (...) {
            throw;
        }
    } catch (const std::runtime_error& e) {
        BOOST_TEST(e.what() == std::string("again"));
    }
    BOOST_TEST(notes == (std::vector<int>{1, 2}), boost::test_tools::per_element());

    std::exception_ptr carried;
    std::thread([&] {
        try {
            throw std::out_of_range("carried");
        } catch (...) {
            carried = std::current_exception();
        }
    }).join();
    for (int i = 0; i < 3; ++i) BOOST_CHECK_THROW(std::rethrow_exception(carried), std::out_of_range);
}

BOOST_AUTO_TEST_CASE(many_threads_at_once) {
    std::vector<std::thread> threads;
    std::vector<int> sums(4);
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([t, &sums] {
            for (int i = 0; i < 500; ++i) {
                std::vector<int> notes;
                try {
                    dive(5, notes);
                } catch (int number) {
                    sums[static_cast<std::size_t>(t)] += number;
                }
            }
        });
    for (auto& t : threads) t.join();
    for (const int sum : sums) BOOST_TEST(sum == 3500);
}

BOOST_AUTO_TEST_CASE(through_functions_of_another_library) {
    for (int round = 0; round < 3; ++round) {
        int numbers[] = {3, 1, 2};
        const auto compare = [](const void*, const void*) -> int {
            throw_number(5);
            return 0;
        };
        BOOST_CHECK_THROW(std::qsort(numbers, 3, sizeof numbers[0], compare), int);
    }
}

BOOST_AUTO_TEST_CASE(through_functions_with_a_personality_of_another_library) {
    for (int round = 0; round < 3; ++round) {
        const auto visit = [](dl_phdr_info*, std::size_t, void*) -> int {
            throw_number(6);
            return 0;
        };
        BOOST_CHECK_THROW(dl_iterate_phdr(visit, nullptr), int); // it lets go of a lock
        std::once_flag once;
        BOOST_CHECK_THROW(std::call_once(once, throw_number, 7), int);
        bool called = false;
        std::call_once(once, [&] { called = true; });
        BOOST_TEST(called);
    }
}

BOOST_AUTO_TEST_CASE(before_main_and_behind_a_fork) {
    BOOST_TEST(caught_before_main);
    BOOST_TEST(status_of([] {
        std::vector<int> notes;
        try {
            dive(3, notes);
        } catch (int number) {
            _exit(number);
        }
    }) == 7);
}

BOOST_AUTO_TEST_CASE(through_a_frame_whose_tables_use_expressions) {
    // A stack that is aligned anew, and on which arguments are pushed: g++ finds the CFA through a word in memory.
    const auto aligned = [](int a, auto... more) __attribute__((noinline)) {
        alignas(128) char room[256] = {};
        asm volatile("" : : "r"(room) : "memory");
        return many_arguments(a, more..., "") + room[0];
    };
    for (int round = 0; round < 3; ++round) {
        std::vector<int> notes;
        try {
            const note n(notes, 1);
            aligned(1, 2, 3, 4, 5, 6, 7, 8, 9);
        } catch (int number) {
            BOOST_TEST(number == 45);
        }
        BOOST_TEST(notes.size() == 1u);
    }
    // And one that catches what has been cleaned up after on the way.
    const auto catches = [](std::vector<int>& notes, auto... more) __attribute__((noinline)) {
        alignas(128) char room[256] = {};
        asm volatile("" : : "r"(room) : "memory");
        try {
            return many_arguments(0, 0, 0, 0, 0, 0, 0, 0, 0, "") + dive(5, notes) + room[0];
        } catch (int number) {
            return number + (more + ...);
        }
    };
    for (int round = 0; round < 3; ++round) {
        std::vector<int> notes;
        BOOST_TEST(catches(notes, 1, 2, 3, 4, 5, 6, 7, 8, 9) == 7 + 45);
        BOOST_TEST(notes.size() == 6u);
    }
}

BOOST_AUTO_TEST_CASE(out_of_a_signal_handler) {
    const auto before = std::signal(SIGUSR1, [](int) { throw std::runtime_error("signal"); });
    int (*volatile send)(int) = std::raise; // not known not to throw
    for (int round = 0; round < 2; ++round) {
        bool caught = false;
        try {
            send(SIGUSR1);
        } catch (const std::runtime_error&) {
            caught = true;
        }
        BOOST_TEST(caught);
        sigset_t blocked; // the handler has not returned
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGUSR1);
        pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
    }
    std::signal(SIGUSR1, before);
}

BOOST_AUTO_TEST_CASE(where_nobody_catches_it_the_program_is_terminated) {
    const auto terminates = [](auto thrower) {
        return status_of([&] {
            std::set_terminate([] { _exit(42); });
            std::thread(thrower).join();
        });
    };
    BOOST_TEST(terminates([] { throw_number(1); }) == 42);
    BOOST_TEST(terminates([]() noexcept { throw_number(1); }) == 42);
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
    BOOST_TEST(terminates([] {
        alignas(16) static char stack[1 << 16];
        corewire_test_on_a_stack(stack + sizeof stack, [] { throw_number(1); });
    }) == 42);
#endif
    BOOST_TEST(terminates([] {
        struct bad {
            ~bad() { throw_number(1); } // noexcept by itself
        };
        try {
            const bad b;
            throw_number(2);
        } catch (int) {
        }
    }) == 42);
}

BOOST_AUTO_TEST_CASE(a_thread_that_ends_itself_cleans_up) {
    std::vector<int> notes;
    bool swallowed = false;
    std::thread([&] {
        const note outer(notes, 2);
        try {
            const note inner(notes, 1);
            try {
                const note innermost(notes, 0);
                pthread_exit(nullptr);
            } catch (...) {
                throw; // as it has to
            }
        } catch (const std::exception&) {
            swallowed = true;
        } catch (...) {
            throw;
        }
    }).join();
    BOOST_TEST(notes == (std::vector<int>{0, 1, 2}), boost::test_tools::per_element());
    BOOST_TEST(!swallowed);
}

BOOST_AUTO_TEST_CASE(the_stack_can_be_listed_while_an_exception_passes) {
    struct lister {
        int& frames;
        ~lister() { _Unwind_Backtrace(count_frame, &frames); }
    };
    int frames = 0;
    try {
        const lister l{frames};
        throw_number(1);
    } catch (int) {
    }
    BOOST_TEST(frames > 3);
}

BOOST_AUTO_TEST_SUITE_END()
