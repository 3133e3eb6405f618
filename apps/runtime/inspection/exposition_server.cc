#include <corewire/apps/runtime/inspection/exposition_server.hh>

#include <corewire/net/socket/accept_each.hh>
#include <corewire/reactor/shard/remote_call.hh>
#include <corewire/reactor/task/for_each.hh>
#include <corewire/reactor/task/sleep.hh>

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <ranges>

namespace corewire {

namespace {

constexpr std::size_t write_slice = 16'384;
constexpr std::size_t most_discarded = 65'536; ///< bytes of a refused peer
constexpr metric_registry::series_id catalog_slice = 64;

std::uint64_t published_generation(const metrics_page& page, unsigned shard) noexcept {
    const auto* head = reinterpret_cast<const page::section_header*>(page.section(shard));
    return __atomic_load_n(&head->generation, __ATOMIC_ACQUIRE);
}

/// One more for as long as it lives.
struct counted {
    std::uint64_t& open;
    explicit counted(std::uint64_t& n) noexcept : open(++n) {}
    ~counted() { --open; }
};

/// A part of another shard's catalogue. `next` 0: that was all.
struct catalog_part {
    std::vector<catalog_entry> entries;
    metric_registry::series_id next = 0;
    std::uint64_t generation = 0;
};

} // namespace

exposition_server::exposition_server(const metrics_page& page, publishers_of_shards publishers, exposition_options options)
    : page_(page), who_publishes_(std::move(publishers)), options_(options) {}

exposition_server::~exposition_server() { tasks_.destroy_all(); }

void exposition_server::start(tcp_listener listener) {
    listener_ = std::move(listener);
    const auto each = [this](tcp_stream peer) { take(std::move(peer)); };
    tasks_.spawn(accept_each(listener_, tasks_.token(), each, &statistics_.accepts_failed));
}

void exposition_server::stop() noexcept {
    listener_.close();
    tasks_.request_stop();
}

void exposition_server::register_metrics(metric_group& group) {
    group.counter("corewire_scrapes_total", "Pages of metrics served.", statistics_.scrapes);
    group.counter("corewire_scrape_stale_total", "Times a shard did not publish in time for a scrape.", statistics_.stale);
    group.counter("corewire_scrape_requests_refused_total", "Requests answered with an error.", statistics_.refused);
    group.counter("corewire_scrape_connections_turned_away_total", "Connections beyond the limit.", statistics_.turned_away);
    group.counter("corewire_scrape_connections_timed_out_total", "Connections closed at a deadline.", statistics_.timed_out);
    group.counter("corewire_scrape_accepts_failed_total", "Connections that waited: no descriptor or no memory to accept them with.",
                  statistics_.accepts_failed);
    group.gauge("corewire_scrape_connections", "Connections of the metrics endpoint.", statistics_.connections);
    group.histogram("corewire_scrape_duration_seconds", "From a request to its rendered page.", durations_, duration_bounds());
}

/// To turn a peer away with words takes a descriptor for as long as it pleases: there is a limit to that, too.
void exposition_server::take(tcp_stream peer) noexcept {
    try {
        if (statistics_.connections < 2 * options_.max_connections) return tasks_.spawn(serve(std::move(peer)));
    } catch (const std::bad_alloc&) { // of the task
    }
    ++statistics_.turned_away;
    peer.abort();
}

task<> exposition_server::serve(tcp_stream peer) {
    const counted here(statistics_.connections);
    try {
        if (statistics_.connections > options_.max_connections) {
            ++statistics_.turned_away;
            co_await send(peer, http_status::service_unavailable, "text/plain", "too many connections\n", true, false);
            co_return;
        }
        co_await converse(peer);
    } catch (const std::system_error& e) { // what the peer does to its connection is no failure of ours
        if (e.code() == std::errc::timed_out) {
            ++statistics_.timed_out;
            peer.abort();
        }
    }
}

task<> exposition_server::converse(tcp_stream& peer) {
    http_request_reader reader;
    http_request request;
    for (;;) {
        const bool taken = co_await read_request(peer, reader, request);
        if (reader.status() != http_status::none) {
            ++statistics_.refused;
            const std::string text = fmt::format("{}\n", reason_of(reader.status()));
            co_await send(peer, reader.status(), "text/plain", text, true, false);
            co_return;
        }
        if (!taken) co_return;
        co_await answer(peer, request);
        if (!request.keep_alive || tasks_.stop_requested()) co_return;
    }
}

/// False: the peer closed, or the request is refused (reader.status()).
task<bool> exposition_server::read_request(tcp_stream& peer, http_request_reader& reader, http_request& request) {
    const stop_token stop = tasks_.token();
    time_point deadline = reactor::current().now() + (reader.empty() ? options_.idle_timeout : options_.head_timeout);
    for (;;) {
        const auto verdict = reader.parse(request);
        if (verdict != http_request_reader::verdict::more) co_return verdict == http_request_reader::verdict::done;
        const bool first = reader.empty();
        buffer data = co_await peer.read({.deadline = deadline, .stop = stop});
        if (!data) co_return false;
        reader.append(data.text());
        if (first) deadline = reactor::current().now() + options_.head_timeout;
    }
}

task<> exposition_server::answer(tcp_stream& peer, const http_request& request) {
    const counted here(statistics_.answering);
    const bool with_body = request.method != http_method::head;
    if (request.method == http_method::other) {
        ++statistics_.refused;
        co_await send(peer, http_status::method_not_allowed, "text/plain", "GET or HEAD\n", true, request.keep_alive);
    } else if (request.path == "/metrics") {
        const time_point begun = reactor::current().read_clock();
        std::string body;
        co_await render(body);
        ++statistics_.scrapes;
        durations_.record(static_cast<std::uint64_t>((reactor::current().read_clock() - begun).count()));
        co_await send(peer, http_status::ok, text_exposition::content_type, body, with_body, request.keep_alive);
    } else if (request.path == "/") {
        co_await send(peer, http_status::ok, "text/plain", "Corewire: /metrics\n", with_body, request.keep_alive);
    } else {
        ++statistics_.refused;
        co_await send(peer, http_status::not_found, "text/plain", "there is /metrics\n", with_body, request.keep_alive);
    }
}

task<> exposition_server::send(tcp_stream& peer, http_status status, std::string_view type, std::string_view body, bool with_body,
                               bool keep_alive) {
    const wait_limits limits{.deadline = reactor::current().now() + options_.answer_timeout, .stop = tasks_.token()};
    const std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n",
                                         static_cast<unsigned>(status), reason_of(status), type, body.size(),
                                         status == http_status::method_not_allowed ? "Allow: GET, HEAD\r\n" : "",
                                         keep_alive ? "" : "Connection: close\r\n");
    co_await peer.write(head, limits);
    if (with_body) {
        for (; !body.empty(); body.remove_prefix(std::min(write_slice, body.size()))) {
            co_await peer.write(body.substr(0, write_slice), limits);
            co_await yield();
        }
    }
    if (keep_alive) co_return;
    peer.shutdown();
    co_await end_politely(peer);
}

/// To close with unread bytes is to reset, which would take the answer from the peer (RFC 9112 9.6): reads on for a while.
task<> exposition_server::end_politely(tcp_stream& peer) {
    const wait_limits limits{.deadline = reactor::current().now() + options_.linger_timeout, .stop = tasks_.token()};
    std::size_t discarded = 0;
    try {
        while (discarded < most_discarded) {
            const buffer data = co_await peer.read(limits);
            if (!data) co_return;
            discarded += data.size();
        }
    } catch (const std::system_error&) { // it had its time
    }
}

// ---- the page ----

task<> exposition_server::render(std::string& out) {
    if (publishers_.empty()) publishers_ = who_publishes_();
    std::vector<bool> silent = co_await publish_everywhere();
    const index text = co_await current_index(std::move(silent));
    out.reserve(last_size_ + last_size_ / 8);
    text_exposition::position at;
    while (text->render(at, options_.lines_a_slice, out)) co_await yield();
    last_size_ = out.size();
}

/// All at once: one that hangs takes no time from the others. Which did not answer.
task<std::vector<bool>> exposition_server::publish_everywhere() {
    const wait_limits limits{.deadline = reactor::current().now() + options_.publish_timeout, .stop = tasks_.token()};
    std::vector<bool> silent(publishers_.size());
    const auto one = [this, &limits, &silent](unsigned shard) -> task<> {
        metric_publisher* const publisher = publishers_[shard];
        if (publisher == nullptr) co_return;
        if (&publisher->registry() == metric_registry::current_or_null()) co_return co_await publisher->publish_now();
        const auto publish = [publisher] { return publisher->publish_now(); };
        auto call = submit_to(shard, publish, limits);
        try {
            co_await call;
        } catch (const std::system_error& e) {
            if (e.code() != std::errc::timed_out) throw;
            ++statistics_.stale; // it hangs: its section says what was last known
            silent[shard] = true;
        }
    };
    co_await parallel_for_each(std::views::iota(0u, static_cast<unsigned>(publishers_.size())), one);
    co_return silent;
}

bool exposition_server::catalogue_is_current(unsigned shard) const noexcept {
    return told_[shard] && told_[shard]->generation == published_generation(page_, shard);
}

/// Of one shard, a part at a time.
task<exposition_server::catalogue> exposition_server::ask_for_catalogue(unsigned shard, wait_limits limits) {
    metric_registry* const registry = &publishers_[shard]->registry();
    const auto told = std::make_shared<shard_catalogue>();
    for (metric_registry::series_id next = 0;;) {
        const auto tell = [registry, next] {
            catalog_part part;
            part.next = registry->catalog(next, catalog_slice, part.entries);
            part.generation = registry->generation();
            return part;
        };
        catalog_part part;
        if (registry == metric_registry::current_or_null()) {
            part = tell();
            co_await yield();
        } else {
            auto call = submit_to(shard, tell, limits);
            part = co_await call;
        }
        if (next == 0) told->generation = part.generation;
        std::ranges::move(part.entries, std::back_inserter(told->entries));
        next = part.next;
        if (next == 0) co_return told;
    }
}

/// Made anew when series have come or gone: the shards where they have tell theirs, all at once. Of one that hangs the last known are
/// shown: what a series' values are found by never becomes another one's.
task<exposition_server::index> exposition_server::current_index(std::vector<bool> silent) {
    told_.resize(publishers_.size());
    const wait_limits limits{.deadline = reactor::current().now() + options_.publish_timeout, .stop = tasks_.token()};
    const auto one = [this, &limits, &silent](unsigned shard) -> task<> {
        if (publishers_[shard] == nullptr || silent[shard] || catalogue_is_current(shard)) co_return;
        try {
            catalogue told = co_await ask_for_catalogue(shard, limits);
            told_[shard] = std::move(told);
        } catch (const std::system_error& e) {
            if (e.code() != std::errc::timed_out) throw;
        }
    };
    co_await parallel_for_each(std::views::iota(0u, static_cast<unsigned>(publishers_.size())), one);
    if (index_ && index_of_ == told_) co_return index_;
    std::vector<catalogue> told = told_; // another scrape may go on asking meanwhile
    const auto made = std::make_shared<text_exposition>(page_);
    for (unsigned shard = 0; shard < told.size(); ++shard) {
        if (!told[shard]) continue;
        for (std::size_t i = 0; i < told[shard]->entries.size(); ++i) {
            made->add(shard, told[shard]->entries[i]);
            if (i % catalog_slice == catalog_slice - 1) co_await yield();
        }
    }
    index_ = made;
    index_of_ = std::move(told);
    co_return made;
}

} // namespace corewire
