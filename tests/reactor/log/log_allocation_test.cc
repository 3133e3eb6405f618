// A shard that logs, and one that measures, takes nothing from the heap: formatting is the writer's, on another thread.
#include "log_fixture.hh"
#include "tests/support/counting_new.hh"

#include <corewire/reactor/metrics/histogram.hh>

#include <boost/test/unit_test.hpp>

#include <memory>

using namespace corewire;
using namespace std::chrono_literals;

namespace {

constexpr log_event<unsigned> number{"tcp", "number", log_level::info, "number {}", {.burst = 1'000'000, .each = 1s}};
constexpr log_event<log_text<>, double> mixed{"file", "mixed", log_level::error, "'{}' {}", {.burst = 1'000'000, .each = 1s}};
constexpr log_event<unsigned> limited{"arp", "limited", log_level::warn, "number {}", {.burst = 1, .each = 1h}};
constexpr log_event<unsigned> off{"udp", "off", log_level::debug, "number {}"};

} // namespace

BOOST_AUTO_TEST_SUITE(log_allocation)

BOOST_AUTO_TEST_CASE(a_message_allocates_nothing_be_it_written_limited_off_or_dropped_by_a_full_ring) {
    kept_log log(1, 64);
    const reactor::scope here(*log.loops[0]);
    const auto histogram = std::make_unique<corewire::histogram>();
    const auto say = [&](unsigned i) {
        log_message(number, i);
        log_message(mixed, "a text that is too long to be stored in place", 1.5);
        log_message(limited, i);
        log_message(off, i);
        histogram->record(i * 1000);
    };
    say(0); // each event is made known once
    log.messages();
    const std::uint64_t before = testing::heap_allocations;
    for (unsigned i = 0; i < 1000; ++i) say(i); // the ring has 64 places
    BOOST_CHECK_EQUAL(testing::heap_allocations - before, 0u);
    BOOST_CHECK_GT(log.messages().size(), 10u);
}

BOOST_AUTO_TEST_SUITE_END()
