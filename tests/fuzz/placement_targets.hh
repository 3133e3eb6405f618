// The parser of placement files under any bytes at all: it reads a placement or throws std::invalid_argument with one line;
// what it has read keeps its limits and survives being written and read again. Also played by
// placement_corpus_test.cc.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/topology/placement.hh>

#include <algorithm>
#include <stdexcept>
#include <string_view>

namespace placement_fuzz {

inline void file(std::string_view text) {
    using namespace corewire;
    placement p;
    try {
        p = parse_placement(text);
    } catch (const std::invalid_argument& why) {
        const std::string_view said = why.what();
        CW_ASSERT(!said.empty() && said.size() < 600, "a refusal of another size than a sentence");
        CW_ASSERT(std::ranges::all_of(said, [](unsigned char c) { return c >= 0x20 && c < 0x7f; }), "a refusal that is not text");
        return;
    }
    CW_ASSERT(!p.shards.empty() && p.shards.size() <= placement_limits::most_shards, "shards out of bounds");
    for (const shard_place& shard : p.shards) {
        CW_ASSERT(shard.queues.size() <= placement_limits::most_queues, "too many queues");
        CW_ASSERT(parse_shard(to_string(shard)).cpu == shard.cpu, "a shard that changed");
    }
    CW_ASSERT(p.interface.size() <= placement_limits::most_name, "too long a name");
    // Comments are kept as they are, so a long one may make the written line too long: those are not read again.
    for (const shard_place& shard : p.shards)
        if (shard.why.size() + 2500 > placement_limits::most_line) return;
    const std::string written = to_text(p);
    if (written.size() <= placement_limits::most_bytes) CW_ASSERT(parse_placement(written) == p, "a placement that changed");
}

} // namespace placement_fuzz
