#include <corewire/reactor/loop/tsc_clock.hh>

#include <cpuid.h>
#include <ctime>
#include <x86intrin.h>

namespace corewire {

namespace {

std::int64_t kernel_now() noexcept {
    timespec t;
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

/// CPUID 0x80000007 EDX bit 8: the counter runs at a constant rate in all power states.
bool tsc_is_invariant() noexcept {
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & (1u << 8)) != 0;
}

class kernel_clock final : public clock_source {
public:
    time_point now() noexcept override { return from_ns(kernel_now()); }
};

class tsc_clock final : public clock_source {
public:
    tsc_clock() noexcept {
        sample first = take();
        sample last = first;
        while (last.ns - first.ns < 2'000'000) last = take();
        // ns per tick as a 32.32 fixed-point number.
        ratio_ = static_cast<std::uint64_t>((static_cast<wide>(static_cast<std::uint64_t>(last.ns - first.ns)) << 32) /
                                            (last.ticks - first.ticks));
        base_ = last.ns - scaled(last.ticks);
    }
    time_point now() noexcept override {
        return from_ns(base_ + scaled(__rdtsc()));
    }

private:
    __extension__ using wide = unsigned __int128;
    struct sample {
        std::uint64_t ticks;
        std::int64_t ns;
    };
    /// The tightest of a few readings: an interrupt between the two clocks would spoil one.
    static sample take() noexcept {
        sample best{};
        std::uint64_t best_gap = ~std::uint64_t{0};
        for (int i = 0; i < 5; ++i) {
            const std::uint64_t before = __rdtsc();
            const std::int64_t ns = kernel_now();
            const std::uint64_t after = __rdtsc();
            if (after - before < best_gap) {
                best_gap = after - before;
                best = {before + (after - before) / 2, ns};
            }
        }
        return best;
    }
    std::int64_t scaled(std::uint64_t ticks) const noexcept {
        return static_cast<std::int64_t>((static_cast<wide>(ticks) * ratio_) >> 32);
    }
    std::uint64_t ratio_ = 0;
    std::int64_t base_ = 0; ///< the kernel's clock when the counter stood at zero, at this rate
};

} // namespace

clock_source& real_clock() noexcept {
    static clock_source& chosen = []() -> clock_source& {
        if (tsc_is_invariant()) {
            static tsc_clock clock;
            return clock;
        }
        static kernel_clock clock;
        return clock;
    }();
    return chosen;
}

} // namespace corewire
