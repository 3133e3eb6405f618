// Brings a shard's counts into its section of the page: a few times a second by a timer, and at once for a scrape.
//
//     timer --slice--> collectors (what has to be summed up first) --slices--> registry.publish() --> end_round()
//
// One shard's, and runs on it between packets: a slice is some microseconds, and other work has its turn between two
// slices. An idle shard is woken less and less often, down to once a second.
#pragma once

#include <corewire/reactor/base/intrusive_list.hh>
#include <corewire/reactor/loop/reactor.hh>
#include <corewire/reactor/metrics/registry.hh>
#include <corewire/reactor/task/task.hh>

namespace corewire {

/// Works out what no counter holds, e.g. how many connections are in which state, and fills in the table's rows.
class metric_collector : public list_hook {
public:
    /// A slice of at most some microseconds. True: there is more of this round. `first`: the round begins.
    virtual bool collect(metric_registry& registry, bool first) noexcept = 0;

protected:
    ~metric_collector() = default;
};

struct publisher_options {
    duration interval = std::chrono::milliseconds{250};
    duration idle_interval = std::chrono::seconds{1}; ///< when the shard has slept through the last one
    std::uint32_t slice = 256;                        ///< series; a tenth of a microsecond each at most
};

class metric_publisher {
public:
    /// Starts at once. All three outlive it.
    metric_publisher(reactor& loop, metric_registry& registry, publisher_options options = {});
    ~metric_publisher() = default;
    metric_publisher(const metric_publisher&) = delete;
    metric_publisher& operator=(const metric_publisher&) = delete;

    void add(metric_collector& collector) noexcept { collectors_.push_back(collector); }
    /// A whole round, giving way between slices: afterwards the section holds what was true after the call.
    task<> publish_now();
    metric_registry& registry() noexcept { return registry_; }

private:
    struct round_timer : timer {
        metric_publisher* owner;
        explicit round_timer(metric_publisher* p) noexcept;
    };
    bool slice() noexcept;
    void begin() noexcept;
    void on_timer() noexcept;
    duration next_interval() noexcept;

    reactor& reactor_;
    metric_registry& registry_;
    publisher_options options_;
    intrusive_list<metric_collector> collectors_;
    unsigned collector_ = 0;      ///< whose turn it is in this round
    bool collector_begins_ = true;
    bool in_round_ = false;
    metric_registry::series_id next_ = 0;
    std::uint64_t sleeps_before_ = 0;
    duration interval_;
    round_timer timer_{this};
};

} // namespace corewire
