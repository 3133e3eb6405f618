// Waits that are cut short: by a stop token, by a deadline, by the end of the coroutine that waits.
#include <tests/support/socket_suite.hh>

namespace corewire::socket_suite {

namespace {

/// How a wait is cut short.
class cut {
public:
    explicit cut(bool by_deadline) : by_deadline_(by_deadline) {}
    wait_limits limits() {
        if (by_deadline_) return soon();
        return {.stop = source_.token()};
    }
    std::errc expected() const { return by_deadline_ ? std::errc::timed_out : std::errc::operation_canceled; }
    /// Lets the wait begin, then cuts it.
    task<> apply() {
        co_await some_turns();
        if (!by_deadline_) source_.request_stop();
    }

private:
    bool by_deadline_;
    stop_source source_;
};

/// Awaits `make(limits)` and checks that it waits, and ends as it was cut.
template <typename Make>
task<> check_cut(cut& how, Make make) {
    std::optional<std::errc> outcome;
    task_group waiting{"waiting"};
    waiting.spawn(note_error(outcome, [&] { return make(how.limits()); }));
    BOOST_TEST(!outcome.has_value());
    co_await how.apply();
    co_await waiting.join();
    BOOST_TEST(outcome == how.expected());
}

task<> cut_read(world& w, bool by_deadline) {
    ends both = co_await connected(w);
    cut how(by_deadline);
    co_await check_cut(how, [&](wait_limits limits) { return both.server.read(limits); });
    co_await both.client.write(std::string_view{"after"});
    buffer data = co_await both.server.read();
    BOOST_TEST(data.text() == "after");
}

task<> cut_write(world& w, bool by_deadline) {
    ends both = co_await connected(w);
    co_await fill(both.client);
    cut how(by_deadline);
    static const std::vector<std::byte> block(16 << 20); // more than all buffers on the way could take
    co_await check_cut(how, [&](wait_limits limits) { return both.client.write(byte_span{block}, limits); });
    buffer data = co_await both.server.read();
    BOOST_TEST(!data.empty());
    both.client.abort();
}

task<> cut_accept(world& w, bool by_deadline) {
    tcp_listener listener = listen(w);
    cut how(by_deadline);
    co_await check_cut(how, [&](wait_limits limits) { return listener.accept(limits); });
    tcp_stream client = co_await dial(w, listener.local_address());
    tcp_stream server = co_await listener.accept();
    BOOST_TEST(static_cast<bool>(server));
}

task<> cut_connect(world& w, bool by_deadline) {
    const socket_address nowhere = w.silent_address();
    cut how(by_deadline);
    co_await check_cut(how, [&](wait_limits limits) { return dial(w, nowhere, limits); });
}

task<> cut_close(world& w, bool by_deadline) {
    ends both = co_await connected(w);
    co_await fill(both.client);
    cut how(by_deadline);
    co_await check_cut(how, [&](wait_limits limits) { return both.client.close(limits); });
    both.client.abort();
}

task<> cut_readiness(world& w, bool by_deadline) {
    ends both = co_await connected(w);
    cut readable(by_deadline);
    co_await check_cut(readable, [&](wait_limits limits) { return both.server.wait_readable(limits); });
    co_await fill(both.client);
    cut writable(by_deadline);
    co_await check_cut(writable, [&](wait_limits limits) { return both.client.wait_writable(limits); });
    both.client.abort();
}

} // namespace

task<> a_cancelled_read_leaves_the_stream_usable(world& w) { return cut_read(w, false); }
task<> an_expired_read_leaves_the_stream_usable(world& w) { return cut_read(w, true); }
task<> a_cancelled_write_leaves(world& w) { return cut_write(w, false); }
task<> an_expired_write_leaves(world& w) { return cut_write(w, true); }
task<> a_cancelled_accept_leaves_the_listener_usable(world& w) { return cut_accept(w, false); }
task<> an_expired_accept_leaves(world& w) { return cut_accept(w, true); }
task<> a_cancelled_connect_leaves(world& w) { return cut_connect(w, false); }
task<> an_expired_connect_leaves(world& w) { return cut_connect(w, true); }
task<> a_cancelled_close_leaves(world& w) { return cut_close(w, false); }
task<> an_expired_close_leaves(world& w) { return cut_close(w, true); }
task<> cancelled_waits_for_readiness_leave(world& w) { return cut_readiness(w, false); }
task<> expired_waits_for_readiness_leave(world& w) { return cut_readiness(w, true); }

task<> readable_and_writable_tell_the_truth(world& w) {
    ends both = co_await connected(w);
    BOOST_TEST(!both.server.readable());
    BOOST_TEST(both.client.writable());
    co_await both.client.wait_writable();
    co_await both.client.write(std::string_view{"something"});
    co_await both.server.wait_readable();
    BOOST_TEST(both.server.readable());
    buffer data = co_await both.server.read();
    BOOST_TEST(data.text() == "something");
    BOOST_TEST(!both.server.readable());
    co_await fill(both.client);
    BOOST_TEST(!both.client.writable());
    both.client.abort();
}

namespace {

task<> read_for_ever(tcp_stream stream) {
    for (;;) {
        buffer data = co_await stream.read();
        if (!data) co_return;
    }
}

} // namespace

task<> a_reader_destroyed_while_it_waits_leaves(world& w) {
    ends both = co_await connected(w);
    {
        task_group readers{"readers"};
        readers.spawn(read_for_ever(std::move(both.server)));
        co_await some_turns();
        BOOST_TEST(readers.size() == 1u);
        readers.destroy_all(); // the stream goes with its coroutine
    }
    buffer end = co_await both.client.read(soon(std::chrono::seconds{10}));
    BOOST_TEST(end.empty());
}

} // namespace corewire::socket_suite
