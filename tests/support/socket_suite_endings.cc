// How streams and listeners end: half-close, end of stream, reset, abort, refusal, and operations that come too late.
#include <tests/support/socket_suite.hh>

namespace corewire::socket_suite {

task<> half_close_lets_the_other_side_finish(world& w) {
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"question"});
    both.client.shutdown();
    std::string heard;
    for (;;) {
        buffer data = co_await both.server.read();
        if (!data) break;
        heard += data.text();
    }
    BOOST_TEST(heard == "question");
    co_await both.server.write(std::string_view{"answer"});
    buffer answer = co_await both.client.read();
    BOOST_TEST(answer.text() == "answer");
    co_await both.server.close(soon(std::chrono::seconds{10}));
    buffer end = co_await both.client.read();
    BOOST_TEST(end.empty());
}

task<> end_of_stream_stays(world& w) {
    ends both = co_await connected(w);
    both.client.shutdown();
    for (int i = 0; i < 3; ++i) {
        buffer end = co_await both.server.read();
        BOOST_TEST(end.empty());
    }
    BOOST_TEST(both.server.readable());
}

task<> close_waits_for_the_acknowledgement(world& w) {
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"last words"});
    co_await both.client.close(soon(std::chrono::seconds{10}));
    BOOST_TEST(!both.client);
    buffer data = co_await both.server.read();
    BOOST_TEST(data.text() == "last words");
    buffer end = co_await both.server.read();
    BOOST_TEST(end.empty());
}

task<> bytes_before_end_of_stream_are_read_first(world& w) {
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"kept"});
    both.client = {};
    co_await some_turns();
    buffer data = co_await both.server.read();
    BOOST_TEST(data.text() == "kept");
    buffer end = co_await both.server.read();
    BOOST_TEST(end.empty());
}

task<> a_read_after_a_reset_fails(world& w) {
    ends both = co_await connected(w);
    std::optional<std::errc> waiting;
    task_group readers{"reader"};
    readers.spawn(note_error(waiting, [&] { return both.server.read(); }));
    co_await some_turns();
    both.client.abort();
    co_await readers.join();
    BOOST_TEST(waiting == std::errc::connection_reset); // the one that waited
    for (int i = 0; i < 2; ++i) {
        const std::errc later = co_await error_of([&] { return both.server.read(); });
        BOOST_TEST(later == std::errc::connection_reset); // and whoever comes later
    }
}

task<> a_write_after_a_reset_fails(world& w) {
    ends both = co_await connected(w);
    both.client.abort();
    co_await some_turns();
    std::errc why{};
    // The first write may still be taken if the RST is on its way.
    for (int i = 0; i < 100 && why == std::errc{}; ++i) {
        why = co_await error_of([&] { return both.server.write(std::string_view{"anybody there?"}); });
        co_await yield();
    }
    BOOST_TEST(why == std::errc::connection_reset);
}

task<> what_came_before_a_reset_is_read_though_a_write_failed(world& w) { // as "413 Content Too Large" does
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"a part of an upload"});
    co_await both.server.wait_readable();
    co_await both.server.write(std::string_view{"too much"});
    co_await some_turns();
    both.server = {}; // which resets, as there is something unread
    co_await some_turns();
    std::errc why{};
    for (int i = 0; i < 100 && why == std::errc{}; ++i) {
        why = co_await error_of([&] { return both.client.write(std::string_view{"more of it"}); });
        co_await yield();
    }
    BOOST_TEST(why == std::errc::connection_reset);
    const buffer answer = co_await both.client.read();
    BOOST_TEST(answer.text() == "too much");
    const std::errc later = co_await error_of([&] { return both.client.read(); });
    BOOST_TEST(later == std::errc::connection_reset);
}

task<> a_close_after_a_reset_fails(world& w) { // or who closes would think that all was acknowledged
    ends both = co_await connected(w);
    co_await both.server.write(std::string_view{"nobody reads this"});
    both.client.abort();
    co_await some_turns();
    const std::errc why = co_await error_of([&] { return both.server.close(soon(std::chrono::seconds{10})); });
    BOOST_TEST(why == std::errc::connection_reset);
}

task<> unread_bytes_at_close_reset_the_peer(world& w) {
    ends both = co_await connected(w);
    co_await both.client.write(std::string_view{"nobody reads this"});
    co_await both.server.wait_readable();
    both.server = {};
    const std::errc why = co_await error_of([&] { return both.client.read(soon(std::chrono::seconds{10})); });
    BOOST_TEST(why == std::errc::connection_reset);
}

task<> a_stream_that_resets_on_close_does(world& w) {
    ends both = co_await connected(w, {.reset_on_close = true});
    BOOST_TEST(both.client.options().reset_on_close);
    both.client = {};
    const std::errc why = co_await error_of([&] { return both.server.read(soon(std::chrono::seconds{10})); });
    BOOST_TEST(why == std::errc::connection_reset);
}

task<> abort_fails_who_waits(world& w) {
    ends both = co_await connected(w);
    std::optional<std::errc> reader;
    task_group readers{"reader"};
    readers.spawn(note_error(reader, [&] { return both.client.read(); }));
    co_await some_turns();
    BOOST_TEST(!reader.has_value());
    both.client.abort();
    co_await readers.join();
    BOOST_TEST(reader == std::errc::connection_aborted);
    const std::errc peer = co_await error_of([&] { return both.server.read(); });
    BOOST_TEST(peer == std::errc::connection_reset);
}

task<> a_write_after_shutdown_fails(world& w) {
    ends both = co_await connected(w);
    both.client.shutdown();
    const std::errc why = co_await error_of([&] { return both.client.write(std::string_view{"late"}); });
    BOOST_TEST(why == std::errc::broken_pipe);
    both.client.shutdown(); // the second does nothing
}

namespace {

const std::vector<std::byte> more_than_fits(16 << 20, std::byte{'m'}); // than all buffers on the way could take

task<> write_all(tcp_stream& stream, wait_limits limits, std::optional<std::errc>& came_to) {
    came_to = co_await error_of([&] { return stream.write(byte_span{more_than_fits}, limits); });
}

/// Bytes up to the end of the stream.
task<std::size_t> read_to_the_end(tcp_stream& stream) {
    std::size_t bytes = 0;
    for (;;) {
        buffer data = co_await stream.read();
        if (!data) co_return bytes;
        bytes += data.size();
    }
}

} // namespace

task<> a_shutdown_goes_behind_a_write_that_waits(world& w) {
    ends both = co_await connected(w);
    std::optional<std::errc> came_to;
    task_group writers{"writer"};
    writers.spawn(write_all(both.client, {}, came_to));
    co_await some_turns();
    BOOST_TEST(!came_to.has_value());
    both.client.shutdown();
    const std::size_t got = co_await read_to_the_end(both.server);
    co_await writers.join();
    BOOST_TEST(came_to == std::errc{});
    BOOST_TEST(got == more_than_fits.size());
}

task<> a_shutdown_goes_behind_what_a_cancelled_write_has_written(world& w) {
    ends both = co_await connected(w);
    std::optional<std::errc> came_to;
    stop_source enough;
    task_group writers{"writer"};
    writers.spawn(write_all(both.client, {.stop = enough.token()}, came_to));
    co_await some_turns();
    both.client.shutdown();
    enough.request_stop();
    co_await writers.join();
    BOOST_TEST(came_to == std::errc::operation_canceled);
    const std::size_t got = co_await read_to_the_end(both.server); // there is an end
    BOOST_TEST(got < more_than_fits.size());
}

task<> everything_after_close_fails(world& w) {
    ends both = co_await connected(w);
    co_await both.client.close(soon(std::chrono::seconds{10}));
    const std::errc read = co_await error_of([&] { return both.client.read(); });
    BOOST_TEST(read == std::errc::bad_file_descriptor);
    const std::errc write = co_await error_of([&] { return both.client.write(std::string_view{"late"}); });
    BOOST_TEST(write == std::errc::bad_file_descriptor);
    const std::errc close = co_await error_of([&] { return both.client.close(); });
    BOOST_TEST(close == std::errc::bad_file_descriptor);
    BOOST_CHECK_THROW(both.client.shutdown(), std::system_error);
}

task<> a_closed_port_refuses(world& w) {
    std::uint16_t port = 0;
    {
        tcp_listener listener = listen(w);
        port = listener.local_address().port;
    }
    co_await some_turns();
    const std::errc why = co_await error_of([&] { return dial(w, at_server(w, port)); });
    BOOST_TEST(why == std::errc::connection_refused);
}

task<> a_port_is_bound_once(world& w) {
    tcp_listener listener = listen(w);
    const std::uint16_t port = listener.local_address().port;
    BOOST_TEST(port != 0);
    BOOST_CHECK_EXCEPTION(listen(w, port), std::system_error,
                          [](const std::system_error& e) { return e.code() == std::errc::address_in_use; });
    listener.close();
    co_await some_turns();
    tcp_listener again = listen(w, port);
    BOOST_TEST(again.local_address().port == port);
}

task<> closing_a_listener_cancels_accept(world& w) {
    tcp_listener listener = listen(w);
    std::optional<std::errc> one;
    std::optional<std::errc> two;
    task_group waiting{"accepts"};
    waiting.spawn(note_error(one, [&] { return listener.accept(); }));
    waiting.spawn(note_error(two, [&] { return listener.accept(); }));
    co_await some_turns();
    listener.close();
    co_await waiting.join();
    BOOST_TEST(one == std::errc::operation_canceled);
    BOOST_TEST(two == std::errc::operation_canceled);
    const std::errc later = co_await error_of([&] { return listener.accept(); });
    BOOST_TEST(later == std::errc::operation_canceled);
}

task<> a_connection_nobody_accepted_dies_with_the_listener(world& w) {
    tcp_listener listener = listen(w);
    tcp_stream client = co_await dial(w, listener.local_address());
    co_await some_turns();
    listener.close();
    const std::errc why = co_await error_of([&] { return client.read(soon(std::chrono::seconds{10})); });
    BOOST_TEST(why == std::errc::connection_reset);
}

task<> those_nobody_accepted_are_reset_behind_one_that_was(world& w) { // a provider may have fetched them already
    tcp_listener listener = listen(w);
    tcp_stream first = co_await dial(w, listener.local_address());
    tcp_stream accepted = co_await listener.accept();
    tcp_stream one = co_await dial(w, listener.local_address());
    tcp_stream two = co_await dial(w, listener.local_address());
    co_await some_turns();
    listener.close();
    for (tcp_stream* const client : {&one, &two}) {
        const std::errc why = co_await error_of([&] { return client->read(soon(std::chrono::seconds{10})); });
        BOOST_TEST(why == std::errc::connection_reset);
    }
    co_await accepted.write(std::string_view{"still there"});
    const buffer heard = co_await first.read(soon(std::chrono::seconds{10}));
    BOOST_TEST(heard.text() == "still there");
}

} // namespace corewire::socket_suite
