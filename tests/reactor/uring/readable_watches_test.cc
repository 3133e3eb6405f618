// A watched descriptor: its owner hears of what comes, and an error that lasts costs a look now and then.
#include "ring_world.hh"

#include <corewire/reactor/file/readable_watch.hh>
#include <tests/support/virtual_clock.hh>

#include <fcntl.h>
#include <optional>
#include <unistd.h>

namespace corewire {

namespace {

struct owner {
    explicit owner(reactor& loop, int descriptor) : fd(descriptor) { watch->begin(loop, fd); }
    void on_news() noexcept {
        ++told;
        char byte;
        static_cast<void>(!::read(fd, &byte, 1));
    }
    int fd;
    int told = 0;
    std::optional<readable_watch<owner, &owner::on_news>> watch{std::in_place, *this};
};

} // namespace

BOOST_AUTO_TEST_SUITE(readable_watches)

BOOST_AUTO_TEST_CASE_TEMPLATE(the_owner_is_told_until_nothing_is_left, Backend, both_backends) {
    virtual_clock clock; // stands still: nothing waits for a pause
    ring_world w(Backend::options(), &clock);
    socket_pair pair;
    owner o(w.loop, pair.ours.get());
    w.some_turns();
    BOOST_TEST(o.told == 0);
    pair.say("three");
    w.turn_until([&] { return o.told == 5; });
    w.some_turns();
    BOOST_TEST(o.told == 5);
    o.watch.reset();
    pair.say("more");
    w.some_turns();
    BOOST_TEST(o.told == 5);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_error_that_lasts_is_told_now_and_then_and_ends, Backend, both_backends) {
    virtual_clock clock;
    ring_world w(Backend::options(), &clock);
    socket_pair pair;
    pair.say("x");
    unique_fd gone{::fcntl(pair.ours.get(), F_DUPFD_CLOEXEC, 500)};
    const int number = gone.get();
    gone.reset();
    owner o(w.loop, number);
    for (int looks = 1; looks < 4; ++looks) {
        w.turn_until([&] { return o.told == looks; });
        w.some_turns();
        BOOST_TEST(o.told == looks);
        clock.advance(readable_watch<owner, &owner::on_news>::pause);
    }
    w.turn_until([&] { return o.told == 4; });
    gone = unique_fd{::fcntl(pair.ours.get(), F_DUPFD_CLOEXEC, number)};
    BOOST_REQUIRE(gone.get() == number);
    w.some_turns();
    BOOST_TEST(o.told == 4);
    clock.advance(readable_watch<owner, &owner::on_news>::pause);
    w.turn_until([&] { return o.told == 5; });
    pair.say("y"); // and no pause any more
    w.turn_until([&] { return o.told == 6; });
    o.watch.reset();
}

BOOST_AUTO_TEST_SUITE_END()

} // namespace corewire
