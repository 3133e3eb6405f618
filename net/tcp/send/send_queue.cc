#include <corewire/net/tcp/send/send_queue.hh>

#include <algorithm>

namespace corewire::tcp {

std::uint32_t send_queue::search(seq_number at) const noexcept {
    std::uint32_t low = 0;
    std::uint32_t high = chunks_.size();
    while (high - low > 1) {
        const std::uint32_t middle = (low + high) / 2;
        if (chunks_[middle].start <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

void send_queue::free_acknowledged(seq_number una) noexcept {
    while (!chunks_.empty()) {
        chunk& c = chunks_.front();
        if (c.start + c.data.size() > una) break;
        c.data.clear();
        chunks_.drop_front();
        if (cursor_ != 0) --cursor_;
    }
}

void send_queue::copy(seq_number at, std::uint32_t size, std::byte* destination) const noexcept {
    CW_DEBUG_ASSERT(at >= first_ && at + size <= end_, "these bytes are not queued");
    const std::uint32_t hint = cursor_ < chunks_.size() && holds(cursor_, at) ? cursor_ : search(at);
    std::uint32_t offset = at - chunks_[hint].start;
    for (std::uint32_t i = hint; size != 0; ++i, offset = 0) {
        const buffer& data = chunks_[i].data;
        const std::uint32_t n = std::min(size, data.size() - offset);
        std::memcpy(destination, data.data() + offset, n);
        destination += n;
        size -= n;
    }
}

std::uint32_t send_queue::leave_frames(small_blocks& blocks) noexcept {
    std::uint32_t given = 0;
    for (std::uint32_t i = 0; i < chunks_.size(); ++i) given += blocks.take_over(chunks_[i].data);
    return given;
}

void send_queue::check_invariants() const {
    CW_ASSERT(first_ <= end_, "the send queue ends before it starts");
    if (chunks_.empty()) {
        CW_ASSERT(first_ == end_, "queued bytes without a chunk");
        return;
    }
    CW_ASSERT(chunks_[0].start <= first_, "the first chunk starts behind the first byte");
    CW_ASSERT(chunks_[0].start + chunks_[0].data.size() > first_, "an acknowledged chunk was kept");
    seq_number at = chunks_[0].start;
    for (std::uint32_t i = 0; i < chunks_.size(); ++i) {
        CW_ASSERT(chunks_[i].start == at && chunks_[i].data.size() != 0, "chunks must follow one another");
        at += chunks_[i].data.size();
    }
    CW_ASSERT(at == end_, "the chunks' bytes are not the queue's");
}

} // namespace corewire::tcp
