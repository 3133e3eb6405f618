// A log whose lines are kept, written by hand, and reactors on a clock that the test moves.
#pragma once

#include <corewire/reactor/log/log_writer.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/reactor.hh>

#include "tests/support/virtual_clock.hh"

#include <memory>
#include <string>
#include <vector>

namespace corewire {

struct kept_log {
    explicit kept_log(unsigned shards = 1, std::size_t records = 64, std::string levels = "info")
        : writer({.shards = shards,
                  .levels = std::move(levels),
                  .records = records,
                  .own_thread = false,
                  .write = [this](std::string_view line) { return lines.emplace_back(line), !refuses; },
                  .time_of_day = [](time_point at) {
                      return std::chrono::system_clock::from_time_t(1'700'000'000) +
                             std::chrono::duration_cast<std::chrono::system_clock::duration>(at - time_point{});
                  }}) {
        for (unsigned shard = 0; shard < shards; ++shard) {
            loops.push_back(std::make_unique<reactor>(reactor_options{.clock = &clock, .shard = shard}));
            logs.push_back(std::make_unique<shard_log>(writer, writer.ring(shard), *loops.back()));
        }
    }

    /// Lets the shards see `later`.
    void pass(duration later) {
        clock.advance(later);
        for (auto& each : loops) each->read_clock();
    }
    /// What stands behind the time and the level.
    std::vector<std::string> messages() {
        writer.drain();
        std::vector<std::string> all;
        for (const std::string& line : lines) all.push_back(line.substr(line.find(' ') + 1, line.size() - line.find(' ') - 2));
        lines.clear();
        return all;
    }

    virtual_clock clock{time_point{std::chrono::seconds{1}}};
    std::vector<std::string> lines;
    bool refuses = false;
    log_writer writer;
    std::vector<std::unique_ptr<reactor>> loops;
    std::vector<std::unique_ptr<shard_log>> logs;
};

} // namespace corewire
