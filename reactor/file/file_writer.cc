#include <corewire/reactor/file/file_writer.hh>

#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/task/as_result.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace corewire {

namespace {

constexpr log_event<log_text<>, std::uint64_t> given_up{"file", "given_up", log_level::error,
                                                        "'{}' was given up with {} accepted bytes not written: it was not closed"};

} // namespace

file_writer::file_writer(file to, file_writer_options options)
    : to_(std::move(to)), position_(options.offset), buffer_size_(options.buffer_size),
      memory_(options.buffer_size * std::max(options.buffers, 1u)) {
    if (to_.direct() && (options.offset % to_.alignment() != 0 || buffer_size_ % to_.alignment() != 0))
        throw std::system_error(EINVAL, std::generic_category(), "writing '" + to_.name() + "': not aligned for O_DIRECT");
    for (unsigned i = 0; i < std::max(options.buffers, 1u); ++i)
        slots_.push_back(std::make_unique<slot>(*this, memory_.piece(i * buffer_size_, buffer_size_)));
    begin(current(), position_);
}

file_writer::~file_writer() {
    for (auto& each : slots_) reactor::current().files().abandon(*each);
    reactor::current().files().abandon(sync_);
    if (to_ && written() < position_)
        log_message(given_up, to_.name(), position_ - written());
}

std::uint64_t file_writer::written() const noexcept {
    std::uint64_t first = position_;
    for (const auto& each : slots_)
        if (each->sent < each->filled) first = std::min(first, each->offset + each->sent);
    return first;
}

void file_writer::check() const {
    if (!to_) throw std::system_error(EBADF, std::generic_category(), "a file_writer that is closed");
    if (failure_ != 0)
        throw std::system_error(failure_, std::generic_category(),
                                sync_failed_ ? "sync of '" + to_.name() + "'"
                                             : "writing '" + to_.name() + "' at " + std::to_string(written()));
}

void file_writer::note(int error) noexcept {
    if (failure_ == 0) failure_ = error;
}

void file_writer::begin(slot& s, std::uint64_t offset) noexcept {
    s.offset = offset;
    s.filled = s.sent = s.length = 0;
    s.failed = false;
}

// ---- a slot's way into the file --------------------------------------------------------------------------------------

void file_writer::send(slot& s) noexcept {
    s.length = s.filled;
    if (to_.direct()) {
        const std::size_t whole = (s.filled + to_.alignment() - 1) / to_.alignment() * to_.alignment();
        std::memset(s.memory.bytes.data() + s.filled, 0, whole - s.filled);
        cut_ |= whole != s.filled;
        s.length = whole;
        s.sent = s.sent / to_.alignment() * to_.alignment();
    }
    s.failed = false;
    s.done.reset();
    go_on(s);
}

void file_writer::go_on(slot& s) noexcept {
    s.arguments = to_.bytes_at(io_opcode::write, s.memory.bytes.data() + s.sent, s.length - s.sent, s.offset + s.sent,
                               s.memory.memory_index);
    reactor::current().files().submit(s);
}

void file_writer::slot::on_complete(io_request& r, int result) noexcept {
    auto& s = static_cast<slot&>(r);
    if (result > 0) {
        s.sent += static_cast<std::size_t>(result);
        if (s.sent < s.length) return s.owner.go_on(s); // a short write
    } else {
        s.failed = true;
        s.owner.note(result < 0 ? -result : EIO); // a write of nothing would go on for ever
    }
    s.sent = std::min(s.sent, s.filled); // padding is nobody's
    s.done.set();
}

/// The current slot is full and on its way: the next one's turn, when it has come back.
task<> file_writer::next_slot(wait_limits limits) {
    slot& next = *slots_[(current_ + 1) % slots_.size()];
    if (!next.done.is_set()) co_await next.done.wait(limits);
    check(); // it may have come back with a failure: its bytes stay
    current_ = (current_ + 1) % slots_.size();
    begin(next, position_);
}

/// Until nothing is on its way.
task<> file_writer::settle(wait_limits limits) {
    for (auto& each : slots_)
        if (!each->done.is_set()) co_await each->done.wait(limits);
    check();
}

// ---- what a user calls -----------------------------------------------------------------------------------------------

task<> file_writer::write(byte_span from, wait_limits limits) {
    check();
    while (!from.empty()) {
        if (current().filled == buffer_size_) co_await next_slot(limits);
        // After a flush was cut short the slot may be on its way still.
        if (!current().done.is_set()) co_await current().done.wait(limits);
        check();
        slot& s = current();
        const std::size_t n = std::min(from.size(), buffer_size_ - s.filled);
        std::memcpy(s.memory.bytes.data() + s.filled, from.data(), n);
        s.filled += n;
        position_ += n;
        from = from.subspan(n);
        if (s.filled == buffer_size_) send(s);
    }
}

task<> file_writer::write(std::string_view text, wait_limits limits) { return write(std::as_bytes(std::span{text}), limits); }

/// The slot that is not full goes out as it is, and is filled further afterwards.
task<> file_writer::send_rest(wait_limits limits) {
    slot& s = current();
    if (s.done.is_set() && s.sent < s.filled && !s.failed) send(s);
    co_await settle(limits);
    if (!cut_) co_return;
    io_attempt cutting(to_.bytes_at(io_opcode::truncate, nullptr, position_, 0, -1), limits, &to_.name());
    const int rc = co_await cutting;
    if (cutting.cut_short())
        throw std::system_error(-rc, std::generic_category(), "cutting '" + to_.name() + "' to its size");
    cut_ = rc < 0;
    if (cut_) note(-rc); // the zeros behind the end are still there: retry() tries again
    check();
}

task<> file_writer::flush(wait_limits limits) {
    check();
    co_await send_rest(limits);
}

void file_writer::sync_request::on_complete(io_request& r, int result) noexcept {
    auto& s = static_cast<sync_request&>(r);
    if (result < 0) {
        s.owner.note(-result);
        s.owner.sync_failed_ = true;
    }
    s.done.set();
}

/// Until no fsync is under way.
task<> file_writer::synced(wait_limits limits) {
    if (sync_.done.is_set()) co_return;
    const auto came = co_await as_result(sync_.done.wait(limits));
    if (!came) throw std::system_error(came.error(), "sync of '" + to_.name() + "'");
}

task<> file_writer::sync(wait_limits limits) {
    co_await flush(limits);
    if (sync_.covers != position_) co_await synced(limits); // one that nobody waited for: it began before the last bytes went out
    check();
    if (sync_.done.is_set()) {
        sync_.arguments = to_.bytes_at(io_opcode::sync, nullptr, 0, 0, -1);
        sync_.covers = position_;
        sync_.done.reset();
        reactor::current().files().submit(sync_);
    }
    co_await synced(limits);
    check();
}

task<> file_writer::retry(wait_limits limits) {
    if (!sync_failed_) failure_ = 0;
    check();
    for (auto& each : slots_)
        if (each->failed) send(*each);
    co_await flush(limits);
}

task<> file_writer::close(wait_limits limits) {
    if (!to_) check();
    int ended_by = 0; // a limit, or the failure
    try {
        co_await synced(limits);
        if (failure_ == 0) co_await send_rest(limits);
        else co_await settle(limits); // nothing more is sent, but what is on its way comes back
    } catch (const std::system_error& e) {
        ended_by = e.code().value();
    }
    const bool under_way =
        !sync_.done.is_set() || std::ranges::any_of(slots_, [](const auto& each) { return !each->done.is_set(); });
    if (under_way || (failure_ == 0 && ended_by != 0)) // a limit
        throw std::system_error(ended_by, std::generic_category(), "closing '" + to_.name() + "'");
    const std::string name = to_.name();
    const std::uint64_t in_file = written();
    int closing = 0;
    try {
        co_await to_.close(limits);
    } catch (const std::system_error& e) {
        closing = e.code().value();
    }
    if (failure_ != 0)
        throw std::system_error(failure_, std::generic_category(), "writing '" + name + "' at " + std::to_string(in_file));
    if (closing != 0) throw std::system_error(closing, std::generic_category(), "closing '" + name + "'");
}

} // namespace corewire
