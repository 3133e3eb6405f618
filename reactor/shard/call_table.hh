// The calls one shard has in flight to others. Grows a chunk at a time up to its limit and keeps what it has; one shard's.
#pragma once

#include <corewire/reactor/shard/message.hh>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace corewire {

class call_table {
public:
    explicit call_table(std::size_t limit) noexcept : limit_(limit) {}

    /// Null when `limit` calls are in flight.
    call_record* allocate() {
        if (free_ == nullptr && !grow()) [[unlikely]] {
            ++exhausted_;
            return nullptr;
        }
        call_record* record = free_;
        free_ = record->next_free;
        ++in_flight_;
        return record;
    }
    void release(call_record& record) noexcept {
        record.caller = nullptr;
        record.next_free = free_;
        free_ = &record;
        --in_flight_;
    }
    std::size_t in_flight() const noexcept { return in_flight_; }
    /// How often allocate() found nothing.
    std::uint64_t exhausted() const noexcept { return exhausted_; }

private:
    static constexpr std::size_t chunk_size = 64;
    [[gnu::noinline]] bool grow() {
        const std::size_t held = chunks_.size() * chunk_size;
        if (held >= limit_) return false;
        chunks_.push_back(std::make_unique<call_record[]>(chunk_size));
        for (std::size_t i = 0; i < chunk_size && held + i < limit_; ++i) {
            chunks_.back()[i].next_free = free_;
            free_ = &chunks_.back()[i];
        }
        return true;
    }

    std::size_t limit_;
    std::size_t in_flight_ = 0;
    std::uint64_t exhausted_ = 0;
    call_record* free_ = nullptr;
    std::vector<std::unique_ptr<call_record[]>> chunks_;
};

} // namespace corewire
