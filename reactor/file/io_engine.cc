#include <corewire/reactor/file/io_engine.hh>

#include <corewire/reactor/file/io_execute.hh>
#include <corewire/reactor/file/io_metrics.hh>
#include <corewire/reactor/file/io_prepare.hh>
#include <corewire/reactor/file/uring.hh>
#include <corewire/reactor/log/shard_log.hh>
#include <corewire/reactor/loop/run_queue.hh>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace corewire {

namespace {

constexpr log_event<log_text<200>> ring_made{"file", "ring_made", log_level::debug, "files and pipes go through {}"};

thread_local io_engine* latest = nullptr; ///< of this thread's, for those who only count

template <std::uint64_t io_statistics::*Counter>
std::uint64_t of_engine(const void* of) noexcept {
    const reactor* const loop = static_cast<const reactor*>(of);
    return latest == nullptr || &latest->loop() != loop ? 0 : latest->statistics().*Counter;
}

/// One that a helper does and one at hand, so that none idles until the next turn. More would be a queue that knows no groups.
unsigned most_helped(const io_options& options) noexcept {
    return std::clamp(options.in_flight, 1u, 2 * std::max(options.helpers, 1u));
}

} // namespace

io_engine& reactor::files() {
    if (files_ == nullptr) {
        files_ = {new io_engine(*this), [](io_engine* made) {
                      if (latest == made) latest = nullptr;
                      delete made;
                  }};
        latest = files_.get();
        add_poller(*files_);
    }
    return *files_;
}

io_engine::io_engine(reactor& loop)
    : loop_(loop), operations_(std::max(loop.options().io.in_flight, 1u)), helped_(most_helped(loop.options().io)),
      waits_(std::max(loop.options().io.waits, 1u)), helpers_(loop, *this, std::max(loop.options().io.helpers, 1u)) {
    uring& ring = loop.io();
    if (!ring.by_epoll().empty()) {
        why_no_ring_ = ring.by_epoll();
        readiness_ = std::make_unique<readiness>(*this);
        return;
    }
    ring_ = &ring;
    for (std::size_t i = 0; i < by_ring_.size(); ++i) by_ring_[i] = ring_->supports(uring_opcode(static_cast<io_opcode>(i)));
    log_message(ring_made, ring_->description());
}

void register_file_metrics(metric_group& group, const reactor& loop) {
    using s = io_statistics;
    group.counter("corewire_file_requests_total", "Requests for files, pipes, timers and children.", of_engine<&s::submitted>, &loop);
    group.counter("corewire_file_completed_total", "Of these, completed.", of_engine<&s::completed>, &loop);
    group.counter("corewire_file_failed_total", "Of these, with an error other than a cancellation.", of_engine<&s::failed>, &loop);
    group.counter("corewire_file_cancelled_total", "Of these, cancelled.", of_engine<&s::cancelled>, &loop);
    group.counter("corewire_file_waited_total", "Requests that waited because the limit was reached.", of_engine<&s::waited_in_line>,
                  &loop);
    group.counter("corewire_file_ring_full_total", "Requests put off by a turn because the ring was full.", of_engine<&s::refused>,
                  &loop);
    group.counter("corewire_file_interrupted_total", "Requests that were interrupted and done again.", of_engine<&s::interrupted>, &loop);
    group.counter("corewire_file_by_helpers_total", "Requests that went to a helper thread.", of_engine<&s::by_helpers>, &loop);
    group.counter("corewire_file_unregistered_total", "Wishes to register memory or a file that found no room.",
                  of_engine<&s::unregistered>, &loop);
}

io_engine::~io_engine() {
    for (const io_line* line : {&operations_, &helped_, &waits_})
        CW_ASSERT(line->in_flight() == 0 && line->waiting() == 0, "an io_engine ended before the requests to it");
    if (memory_table_) io_uring_unregister_buffers(&ring_->native());
    if (file_table_) io_uring_unregister_files(&ring_->native());
}

std::string io_engine::description() const {
    if (ring_ != nullptr) return ring_->description();
    return "at most " + std::to_string(loop_.options().io.helpers) + " helper threads: " + why_no_ring_;
}

// ---- on the way to the kernel ----------------------------------------------------------------------------------------

io_line& io_engine::line_for(const io_arguments& a) noexcept {
    if (a.waits) return waits_;
    return by_ring_[static_cast<std::size_t>(a.opcode)] ? operations_ : helped_;
}

void io_engine::submit(io_request& r) noexcept {
    CW_ASSERT(!r.active(), "an I/O request was submitted twice");
    ++statistics_.submitted;
    r.engine_ = this;
    r.cancelled_ = false;
    r.report_ = 0;
    r.place_ = io_request::place::in_line;
    const unsigned group = r.queue_ != nullptr ? r.queue_->number : 0;
    const unsigned shares = r.queue_ != nullptr ? r.queue_->shares : 1;
    r.line_ = &line_for(r.arguments);
    if (r.line_->enter(r, group, shares)) [[likely]]
        return dispatch(r);
    ++statistics_.waited_in_line;
}

void io_engine::dispatch(io_request& r) noexcept {
    if (faults_ != nullptr && disturb(r)) [[unlikely]]
        return;
    issue(r);
}

/// Does what the fault source wants. True: the request goes no further.
bool io_engine::disturb(io_request& r) noexcept {
    const io_fault fault = faults_->next(r.arguments);
    io_arguments& a = r.arguments;
    if (a.moves_bytes() && fault.at_most != ~std::uint64_t{0}) {
        if (a.opcode == io_opcode::read_vectored || a.opcode == io_opcode::write_vectored) {
            const iovec first = *static_cast<const iovec*>(a.address);
            a.opcode = a.opcode == io_opcode::read_vectored ? io_opcode::read : io_opcode::write;
            a.address = first.iov_base;
            a.length = first.iov_len;
        }
        a.length = std::min(a.length, fault.at_most);
    }
    r.report_ = fault.report;
    if (fault.fail_with != 0) {
        answer_soon(r, -fault.fail_with);
    } else if (fault.hold) {
        r.place_ = io_request::place::held;
        held_.push_back(r);
    } else {
        return false;
    }
    return true;
}

bool io_engine::release_held() noexcept {
    intrusive_list<io_request> all;
    all.splice_back(held_);
    const bool any = !all.empty();
    while (!all.empty()) issue(all.pop_front());
    return any;
}

void io_engine::issue(io_request& r) noexcept {
    if (by_ring_[static_cast<std::size_t>(r.arguments.opcode)]) [[likely]] {
        to_ring(r);
    } else if (r.arguments.waits) {
        to_readiness(r);
    } else {
        to_helpers(r);
    }
}

void io_engine::to_ring(io_request& r) noexcept {
    if (refused_.empty() && ring_->make_room()) [[likely]]
        return start_in_ring(r);
    ++statistics_.refused;
    r.place_ = io_request::place::refused;
    refused_.push_back(r);
}

void io_engine::start_in_ring(io_request& r) noexcept {
    r.place_ = io_request::place::ring;
    ring_->start(r.operation_, [&r](io_uring_sqe& entry) { prepare(entry, r.arguments); });
}

void io_engine::to_helpers(io_request& r) noexcept {
    ++statistics_.by_helpers;
    r.place_ = io_request::place::helpers;
    if (!helpers_.start(r)) answer_soon(r, -EAGAIN);
}

void io_engine::to_readiness(io_request& r) noexcept {
    r.place_ = io_request::place::readiness;
    int failure = -ENOSYS; // a ring whose kernel cannot wait for this: none is known
    if (readiness_) failure = readiness_->start(r);
    if (failure == -EPERM) return to_always_ready(r);
    if (failure != 0) answer_soon(r, failure);
}

/// A regular file is ready as poll(2) sees it, and still its disk may be slow: a helper's work, in the line of waits.
void io_engine::to_always_ready(io_request& r) noexcept {
    if (r.arguments.opcode == io_opcode::poll) return answer_soon(r, execute_ready(r.arguments));
    r.place_ = io_request::place::helpers;
    ++statistics_.by_helpers;
    if (!helpers_.start(r)) answer_soon(r, -ENOMEM); // EAGAIN would mean that it is not ready
}

void io_engine::answer_soon(io_request& r, int result) noexcept {
    r.place_ = io_request::place::refused;
    r.result_ = result;
    answered_.push_back(r);
}

// ---- and back --------------------------------------------------------------------------------------------------------

void io_request::on_ring(int result, unsigned) noexcept { engine_->finished(*this, result); }

void io_engine::finished(io_request& r, int result) noexcept {
    if (result == -EINTR && r.arguments.opcode != io_opcode::close) [[unlikely]] { // a close has closed (close(2))
        if (!r.cancelled_) {
            ++statistics_.interrupted;
            return dispatch(r);
        }
        result = -ECANCELED;
    }
    if (r.report_ != 0) [[unlikely]]
        result = -r.report_;
    io_line& line = *r.line_;
    line.leave();
    end(r, result);
    admit(line);
}

void io_engine::end(io_request& r, int result) noexcept {
    ++statistics_.completed;
    if (result < 0) ++(result == -ECANCELED ? statistics_.cancelled : statistics_.failed);
    r.place_ = io_request::place::nowhere;
    r.on_complete_(r, result);
}

void io_engine::admit(io_line& line) noexcept {
    while (io_request* r = line.next()) dispatch(*r);
}

// ---- taking back -----------------------------------------------------------------------------------------------------

/// From wherever it can be had at once. True: it is nowhere, and has not completed.
bool io_engine::take_back(io_request& r) noexcept {
    switch (r.place_) {
    case io_request::place::in_line:
        r.line_->withdraw(r);
        r.place_ = io_request::place::nowhere;
        return true;
    case io_request::place::held:
    case io_request::place::refused: r.unlink(); break;
    case io_request::place::readiness: readiness_->withdraw(r); break;
    case io_request::place::helpers:
        if (!helpers_.withdraw(r)) return false;
        break;
    case io_request::place::ring: return false;
    case io_request::place::nowhere: return true;
    }
    r.line_->leave();
    r.place_ = io_request::place::nowhere;
    return true;
}

void io_engine::cancel(io_request& r) noexcept {
    if (!r.active() || r.cancelled_) return;
    r.cancelled_ = true;
    if (r.place_ == io_request::place::ring) {
        ring_->cancel(r.operation_);
        return;
    }
    io_line& line = *r.line_;
    if (!take_back(r)) return;
    end(r, -ECANCELED);
    admit(line);
}

int io_engine::abandon(io_request& r) noexcept {
    if (!r.active()) return -ECANCELED;
    io_line& line = *r.line_;
    r.on_complete_ = [](io_request& it, int result) noexcept { it.result_ = result; };
    r.cancelled_ = true;
    if (take_back(r)) {
        ++statistics_.completed;
        ++statistics_.cancelled;
        admit(line);
        return -ECANCELED;
    }
    if (r.place_ == io_request::place::ring) {
        ring_->cancel(r.operation_);
        ring_->wait(r.operation_);
    }
    while (r.active()) helpers_.wait();
    return r.result_;
}

// ---- the turn --------------------------------------------------------------------------------------------------------

bool io_engine::poll(time_point now) {
    bool worked = helpers_.poll();
    if (readiness_) worked |= readiness_->poll(now);
    if (!answered_.empty()) [[unlikely]]
        worked |= tell_answered();
    return worked;
}

bool io_engine::tell_answered() noexcept {
    if (answered_.empty()) return false;
    intrusive_list<io_request> all;
    all.splice_back(answered_);
    while (!all.empty()) {
        io_request& r = all.pop_front();
        finished(r, r.result_);
    }
    return true;
}

/// Somebody in this line has entered whom no fault source holds.
bool io_engine::is_moving(const io_line& line) noexcept {
    unsigned held = 0;
    held_.for_each([&](const io_request& r) { held += r.line_ == &line; });
    return line.in_flight() > held;
}

bool io_engine::settle() noexcept {
    bool any = false;
    for (; is_moving(operations_); any = true) {
        if (tell_answered()) continue;
        flush({});
        ring_->wait_any();
    }
    for (; is_moving(helped_); any = true)
        if (!tell_answered()) helpers_.wait();
    return any;
}

bool io_engine::flush(time_point) {
    if (refused_.empty()) [[likely]]
        return false;
    while (!refused_.empty() && ring_->make_room()) start_in_ring(refused_.pop_front());
    return true;
}

bool io_engine::prepare_sleep() { return refused_.empty() && answered_.empty() && helpers_.quiet(); }

void io_engine::finish_sleep() {
    if (readiness_) readiness_->look_now();
}

// ---- registered memory and files -------------------------------------------------------------------------------------

namespace {

template <std::size_t N>
int first_free(const std::bitset<N>& taken) noexcept {
    for (std::size_t i = 0; i < N; ++i)
        if (!taken[i]) return static_cast<int>(i);
    return -1;
}

} // namespace

int io_engine::register_memory(mutable_byte_span memory) noexcept {
    if (ring_ == nullptr) return -1;
    if (!memory_table_) memory_table_ = io_uring_register_buffers_sparse(&ring_->native(), most_memories) == 0;
    const int index = memory_table_ ? first_free(memories_) : -1;
    const iovec whole{memory.data(), memory.size()};
    const __u64 tag = 0;
    if (index < 0 ||
        io_uring_register_buffers_update_tag(&ring_->native(), static_cast<unsigned>(index), &whole, &tag, 1) != 1) {
        ++statistics_.unregistered;
        return -1;
    }
    memories_.set(static_cast<std::size_t>(index));
    return index;
}

void io_engine::unregister_memory(int index) noexcept {
    if (index < 0) return;
    const iovec none{nullptr, 0};
    const __u64 tag = 0;
    io_uring_register_buffers_update_tag(&ring_->native(), static_cast<unsigned>(index), &none, &tag, 1);
    memories_.reset(static_cast<std::size_t>(index));
}

int io_engine::register_file(int fd) noexcept {
    if (ring_ == nullptr) return -1;
    if (!file_table_) file_table_ = io_uring_register_files_sparse(&ring_->native(), most_files) == 0;
    const int index = file_table_ ? first_free(files_) : -1;
    if (index < 0 || io_uring_register_files_update(&ring_->native(), static_cast<unsigned>(index), &fd, 1) != 1) {
        ++statistics_.unregistered;
        return -1;
    }
    files_.set(static_cast<std::size_t>(index));
    return index;
}

void io_engine::unregister_file(int index) noexcept {
    if (index < 0) return;
    const int none = -1;
    io_uring_register_files_update(&ring_->native(), static_cast<unsigned>(index), &none, 1);
    files_.reset(static_cast<std::size_t>(index));
}

} // namespace corewire
