// The page that Prometheus scrapes: GET /metrics over HTTP/1.1, served by coroutines on shard 0.
//
//     accept --> connection: read a head --> every shard publishes now --> render in slices --> write in slices
//
// Over the kernel's sockets, whatever --net is: who watches must get through when the stack that is watched does not, and a
// Prometheus on this host can't reach an address of a user-space stack. Listens on 127.0.0.1 unless told otherwise.
//
// Bounds: max_connections (as many more are answered 503 and closed, further ones reset), the request reader's, deadlines for a head
// and for an answer, and an idle deadline between two requests. A slice is 64 lines or 16 KiB; every poller has its turn between two.
#pragma once

#include <corewire/apps/runtime/inspection/http_request.hh>
#include <corewire/net/socket/tcp_listener.hh>
#include <corewire/reactor/metrics/histogram.hh>
#include <corewire/reactor/metrics/publisher.hh>
#include <corewire/reactor/metrics/text_exposition.hh>
#include <corewire/reactor/task/task_group.hh>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace corewire {

struct exposition_options {
    std::size_t max_connections = 16;
    duration head_timeout = std::chrono::seconds{5};   ///< from the first byte to the last of a head
    duration idle_timeout = std::chrono::seconds{90};  ///< for the first byte of the next
    duration answer_timeout = std::chrono::seconds{10};
    duration linger_timeout = std::chrono::seconds{1};  ///< for what a refused peer is still sending
    duration publish_timeout = std::chrono::seconds{1}; ///< a shard that hangs is shown as it was
    std::size_t lines_a_slice = 64;
};

struct exposition_statistics {
    std::uint64_t scrapes = 0;
    std::uint64_t stale = 0;         ///< times a shard did not publish in time
    std::uint64_t refused = 0;       ///< requests answered with an error
    std::uint64_t turned_away = 0;   ///< connections beyond the limit
    std::uint64_t timed_out = 0;     ///< connections closed at a deadline
    std::uint64_t accepts_failed = 0; ///< for want of descriptors or memory: tried again
    std::uint64_t connections = 0;   ///< open now
    std::uint64_t answering = 0;     ///< of these: requests being answered
};

class exposition_server {
public:
    /// `publishers`: of every shard, by number, asked for at the first request; they and the page outlive the server.
    using publishers_of_shards = std::function<std::vector<metric_publisher*>()>;
    exposition_server(const metrics_page& page, publishers_of_shards publishers, exposition_options options = {});
    /// Ends every connection where it stands.
    ~exposition_server();
    exposition_server(const exposition_server&) = delete;
    exposition_server& operator=(const exposition_server&) = delete;

    /// Serves from now on, until stop().
    void start(tcp_listener listener);
    void stop() noexcept;
    void register_metrics(metric_group& group);
    const exposition_statistics& statistics() const noexcept { return statistics_; }

    /// What a scrape does but the network: every shard publishes, then the text is rendered into `out`, in slices.
    task<> render(std::string& out);

private:
    using index = std::shared_ptr<const text_exposition>;
    struct shard_catalogue {
        std::vector<catalog_entry> entries;
        std::uint64_t generation = 0;
    };
    using catalogue = std::shared_ptr<const shard_catalogue>;
    void take(tcp_stream peer) noexcept;
    task<> serve(tcp_stream peer);
    task<> converse(tcp_stream& peer);
    task<bool> read_request(tcp_stream& peer, http_request_reader& reader, http_request& request);
    task<> answer(tcp_stream& peer, const http_request& request);
    task<> send(tcp_stream& peer, http_status status, std::string_view type, std::string_view body, bool with_body, bool keep_alive);
    task<> end_politely(tcp_stream& peer);
    task<std::vector<bool>> publish_everywhere();
    task<catalogue> ask_for_catalogue(unsigned shard, wait_limits limits);
    task<index> current_index(std::vector<bool> silent);
    bool catalogue_is_current(unsigned shard) const noexcept;

    const metrics_page& page_;
    publishers_of_shards who_publishes_;
    std::vector<metric_publisher*> publishers_; ///< once the first request is here
    exposition_options options_;
    exposition_statistics statistics_;
    histogram durations_;
    tcp_listener listener_;
    index index_;
    std::vector<catalogue> told_; ///< by shard, last
    std::vector<catalogue> index_of_; ///< what index_ was made of
    std::size_t last_size_ = 16'384;
    task_group tasks_{"metrics endpoint"};
};

} // namespace corewire
