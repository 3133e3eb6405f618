#include <corewire/reactor/file/file_reader.hh>

#include <algorithm>
#include <cstring>
#include <system_error>

namespace corewire {

file_reader::file_reader(const file& from, file_reader_options options)
    : from_(from), next_(options.offset),
      end_(options.length > ~std::uint64_t{0} - options.offset ? ~std::uint64_t{0} : options.offset + options.length),
      position_(options.offset), buffer_size_(options.buffer_size), memory_(options.buffer_size * std::max(options.buffers, 1u)) {
    if (from.direct() && (options.offset % from.alignment() != 0 || buffer_size_ % from.alignment() != 0))
        throw std::system_error(EINVAL, std::generic_category(), "reading '" + from.name() + "': not aligned for O_DIRECT");
    for (unsigned i = 0; i < std::max(options.buffers, 1u); ++i)
        slots_.push_back(std::make_unique<slot>(*this, memory_.piece(i * buffer_size_, buffer_size_)));
    for (auto& each : slots_) ask(*each);
}

file_reader::~file_reader() {
    for (auto& each : slots_) reactor::current().files().abandon(*each);
}

/// Asks for the next bytes of the file, into a slot that has been used.
void file_reader::ask(slot& s) noexcept {
    s.offset = next_;
    s.filled = s.used = 0;
    s.failure = 0;
    s.wanted = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_size_, next_ < end_ ? end_ - next_ : 0));
    next_ += s.wanted;
    s.done.reset();
    if (s.wanted == 0) {
        s.done.set();
    } else {
        go_on(s);
    }
}

void file_reader::go_on(slot& s) noexcept {
    // With O_DIRECT a whole number of blocks is asked for, also where the wish ends inside one.
    const std::size_t length = from_.direct() ? s.memory.bytes.size() - s.filled : s.wanted - s.filled;
    s.arguments = from_.bytes_at(io_opcode::read, s.memory.bytes.data() + s.filled, length, s.offset + s.filled, s.memory.memory_index);
    reactor::current().files().submit(s);
}

void file_reader::slot::on_complete(io_request& r, int result) noexcept {
    auto& s = static_cast<slot&>(r);
    if (result > 0) {
        s.filled += static_cast<std::size_t>(result);
        const bool odd = s.owner.from_.direct() && s.filled % s.owner.from_.alignment() != 0; // the file's end
        if (s.filled < s.wanted && !odd) return s.owner.go_on(s);
    }
    s.filled = std::min(s.filled, s.wanted);
    if (result < 0) s.failure = result;
    if (result >= 0 && s.filled < s.wanted) s.owner.end_ = std::min(s.owner.end_, s.offset + s.filled);
    s.done.set();
}

task<byte_span> file_reader::view(std::size_t at_most, wait_limits limits) {
    slot* s = slots_[current_].get();
    if (s->done.is_set() && s->used == s->filled && s->failure == 0 && s->filled != 0 && s->filled == s->wanted) {
        ask(*s); // used up: it goes on further ahead, and the next one's turn has come
        current_ = (current_ + 1) % slots_.size();
        s = slots_[current_].get();
    }
    if (!s->done.is_set()) co_await s->done.wait(limits);
    if (s->used == s->filled && s->failure != 0) { // what failed ahead may be well by now: asked once more at its place
        s->failure = 0;
        s->done.reset();
        go_on(*s);
        co_await s->done.wait(limits);
    }
    if (s->used == s->filled && s->failure != 0)
        throw std::system_error(-s->failure, std::generic_category(),
                                "reading '" + from_.name() + "' at " + std::to_string(s->offset + s->filled));
    const byte_span part = byte_span{s->memory.bytes}.subspan(s->used, std::min(at_most, s->filled - s->used));
    s->used += part.size();
    position_ += part.size();
    co_return part;
}

task<byte_span> file_reader::read(wait_limits limits) { return view(~std::size_t{0}, limits); }

task<std::size_t> file_reader::read_exactly(mutable_byte_span into, wait_limits limits) {
    std::size_t done = 0;
    while (done < into.size()) {
        const byte_span part = co_await view(into.size() - done, limits);
        if (part.empty()) break;
        std::memcpy(into.data() + done, part.data(), part.size());
        done += part.size();
    }
    co_return done;
}

} // namespace corewire
