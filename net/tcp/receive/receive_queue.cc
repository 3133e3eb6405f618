#include <corewire/net/tcp/receive/receive_queue.hh>

namespace corewire::tcp {

bool receive_queue::coalesce(buffer& data) noexcept {
    buffer& last = pieces_.back();
    if (data.size() > coalesce_size || !last.exclusive() || last.tailroom() < data.size()) return false;
    std::memcpy(last.append(data.size()), data.data(), data.size());
    data = buffer{};
    return true;
}

std::uint32_t receive_queue::peek(std::uint32_t offset, mutable_byte_span into) const noexcept {
    std::uint32_t copied = 0;
    for (std::uint32_t i = 0; i < pieces_.size() && copied < into.size(); ++i) {
        const buffer& piece = pieces_[i];
        if (offset >= piece.size()) {
            offset -= piece.size();
            continue;
        }
        const auto size = static_cast<std::uint32_t>(std::min<std::size_t>(piece.size() - offset, into.size() - copied));
        std::memcpy(into.data() + copied, piece.data() + offset, size);
        copied += size;
        offset = 0;
    }
    return copied;
}

std::uint32_t receive_queue::leave_frames(small_blocks& blocks) noexcept {
    std::uint32_t given = 0;
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) given += blocks.take_over(pieces_[i]);
    return given;
}

void receive_queue::check_invariants() const {
    std::uint32_t bytes = 0;
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
        CW_ASSERT(!pieces_[i].empty(), "an empty piece in the receive queue");
        bytes += pieces_[i].size();
    }
    CW_ASSERT(bytes == size_, "the receive queue miscounts its bytes");
    CW_ASSERT(pieces_.size() <= most_, "the receive queue has too many pieces");
}

} // namespace corewire::tcp
