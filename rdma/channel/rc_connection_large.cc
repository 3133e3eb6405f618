// Large messages: announced by one end, fetched by the other (rendezvous.hh says how).
#include <corewire/rdma/channel/rc_connection.hh>

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace corewire::rdma {

// ---- what both ends can do -----------------------------------------------------------------------------------------

rc_hello rc_connection::hello() const noexcept {
    rc_hello h{options_.receive_depth, options_.message_size};
    if (options_.reads == 0 || options_.largest_message == 0) return h; // the device fetches nothing, or there is no room
    h.large_messages = static_cast<std::uint16_t>(options_.large_messages);
    h.largest_message = options_.largest_message;
    return h;
}

/// The longest message that fits into the pool beside our own buffers and all the copies that may be there: a longer one could wait for
/// ever, with the peer's waiting for ours.
std::size_t rc_connection::room_to_fetch() const noexcept {
    const auto round_up = [](std::size_t n, std::size_t to) { return (n + to - 1) / to * to; };
    const memory_pool& pool = device_->memory();
    const std::size_t ours = round_up(memory_.size(), memory_pool::chunk_size);
    const std::size_t behind = ours - round_up(memory_.size(), mapped_memory::page); // in their own chunk
    const std::size_t beside = pool.limit() - pool.limit(memory_use::copies);
    return std::max(behind, beside > ours ? beside - ours : 0);
}

/// When it is known what the peer has said, and how many READs there may be.
void rc_connection::agree_on_large() noexcept {
    copied_size_ = std::min(peer_.message_size, static_cast<std::uint32_t>(send_stride_));
    const bool fetched = reads_limit_ != 0 && peer_.largest_message != 0;
    large_.out.resize(fetched ? std::min<unsigned>(options_.large_messages, peer_.large_messages) : 0);
    large_.in.resize(reads_limit_ != 0 ? options_.large_messages : 0);
    large_.order.reserve(large_.in.size());
}

// ---- sending -------------------------------------------------------------------------------------------------------

std::errc rc_connection::large_refused(const rc_request& r) const noexcept {
    if (large_.out.empty() || r.size > peer_.largest_message) return std::errc::message_size;
    if (r.what == rc_request::kind::send && !device_->memory().could_copy(r.size)) return std::errc::no_buffer_space;
    return {};
}

/// A copied message gets its memory here; announce() takes it.
bool rc_connection::may_announce(const rc_request& r) noexcept {
    const auto keys = static_cast<unsigned>(std::max<std::size_t>(r.regions.size(), 1));
    if (large_.announced == large_.out.size()) return ++counts_.waits_for_slot, false;
    if (!has_room(control_sends + keys)) return ++counts_.waits_for_room, false;
    if (r.what != rc_request::kind::send) return true;
    staging_ = allocate_or_wait(r.size, memory_use::copies, staging_failed_);
    return staging_ != nullptr || staging_failed_ != std::errc{};
}

/// Null and no error: there is none now, and post_work() hears when there is.
memory_block* rc_connection::allocate_or_wait(std::uint64_t size, memory_use of, std::errc& failed) noexcept {
    failed = {};
    memory_pool& pool = device_->memory();
    try {
        return pool.allocate(size, of);
    } catch (const std::system_error& e) {
        if (e.code().value() != ENOBUFS) failed = static_cast<std::errc>(e.code().value());
    } catch (const std::bad_alloc&) {
        failed = std::errc::not_enough_memory;
    }
    // Connections may have been made since it was taken into the line, and last.
    if (of == memory_use::copies && !pool.could_copy(size)) failed = std::errc::no_buffer_space;
    if (failed == std::errc{}) {
        ++counts_.waits_for_memory;
        pool.wait(of == memory_use::copies ? copy_wait_ : fetch_wait_);
    }
    return nullptr;
}

ibv_mw* rc_connection::make_window() {
    ibv_mw* const made = ::ibv_alloc_mw(pair()->pd, IBV_MW_TYPE_2);
    if (made == nullptr) verbs::fail(verbs::operation::make_window, errno, "make a memory window on " + device_->device().name());
    return made;
}

/// Gets what the key of a stretch is made of; `block` is held already, if there is one. Throws.
void rc_connection::open_key(rendezvous::outgoing& o, std::byte* data, std::uint32_t size, memory_block* block) {
    rendezvous::outgoing::opened& key = o.keys[o.count++];
    key.block = block;
    if (block == nullptr || !device_->memory().has_windows()) { // good on other connections, too, for who guesses it
        key.region = verbs::memory_region(device_->domain(), {data, size}, verbs::access::remote_read);
    } else if (!large_.spare.empty()) {
        key.by = large_.spare.back();
        large_.spare.pop_back();
    } else {
        key.by.handle = make_window();
        key.by.key = key.by.handle->rkey;
    }
}

bool rc_connection::announce(rc_operation& op) noexcept {
    const rc_request& r = op.request;
    const std::uint32_t slot = large_.idle_slot();
    rendezvous::outgoing& o = large_.out[slot];
    const bool copied = r.what == rc_request::kind::send;
    std::array<local_region, most_regions> stretches{};
    std::size_t count = 1;
    if (copied) {
        memory_block* const staging = std::exchange(staging_, nullptr);
        if (staging == nullptr) {
            op.finish(staging_failed_);
            return true;
        }
        if (r.parts.empty()) std::memcpy(staging->data, r.data, r.size);
        std::byte* next = staging->data;
        for (const byte_span part : r.parts) next = std::copy(part.begin(), part.end(), next);
        stretches[0] = {staging->data, r.size, 0, staging};
    } else if (r.regions.empty()) {
        stretches[0] = {const_cast<std::byte*>(r.data), r.size, 0, r.block};
    } else {
        const auto end = std::ranges::copy_if(r.regions, stretches.begin(), [](const local_region& l) { return l.size != 0; }).out;
        count = static_cast<std::size_t>(end - stretches.begin());
    }
    try {
        for (std::size_t i = 0; i < count; ++i) {
            if (stretches[i].block != nullptr && !copied) stretches[i].block->hold();
            open_key(o, stretches[i].data, stretches[i].size, stretches[i].block);
        }
    } catch (const std::system_error& e) {
        close_keys(o);
        op.finish(static_cast<std::errc>(e.code().value()));
        return true;
    } catch (const std::bad_alloc&) {
        close_keys(o);
        op.finish(std::errc::not_enough_memory);
        return true;
    }
    rc_announcement what;
    what.count = o.count;
    for (std::uint32_t i = 0; i < o.count; ++i) {
        rendezvous::outgoing::opened& key = o.keys[i];
        const auto at = reinterpret_cast<std::uintptr_t>(stretches[i].data);
        what.stretches[i] = {at, 0, stretches[i].size};
        if (key.by.handle == nullptr) {
            what.stretches[i].key = key.region.remote_key();
            continue;
        }
        what.stretches[i].key = key.by.key = ::ibv_inc_rkey(key.by.key); // what an older key opened stays shut
        ibv_send_wr& wr = next_send(false);
        wr.opcode = IBV_WR_BIND_MW;
        wr.imm_data = 0; // as in fill()
        wr.bind_mw = {key.by.handle, key.by.key, {key.block->region().get(), at, stretches[i].size, IBV_ACCESS_REMOTE_READ}};
    }
    o.now = rendezvous::outgoing::state::announced;
    o.since = context_.owner().now();
    if (large_.announced++ == 0) got_on(large_.last_fetched);
    post_announcement(slot, what);
    if (copied) {
        op.finish({});
        return true;
    }
    o.op = &op;
    op.announced_at(slot);
    return false;
}

void rc_connection::post_announcement(std::uint32_t slot, const rc_announcement& what) noexcept {
    std::byte* const at = this->slot(posted_);
    ibv_send_wr& wr = next_send(false);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = host_to_be(rc_header{rc_header::kind::announcement, take_owed(), slot}.to_wire());
    wr.sg_list[0] = {reinterpret_cast<std::uintptr_t>(at), what.to_wire(at), memory_.local_key()};
    wr.num_sge = 1;
    if (wr.sg_list[0].length <= pair_->capacity().max_inline_data) wr.send_flags |= IBV_SEND_INLINE, ++counts_.inline_sends;
    --credits_;
    ++counts_.messages_sent;
    ++counts_.large_sent;
}

/// The peer has it all, and by that we are through with its slot as soon as its keys open nothing any more.
void rc_connection::heard_fetched(const rc_header& header) noexcept {
    if (header.slot >= large_.out.size() || large_.out[header.slot].now != rendezvous::outgoing::state::announced) return violated();
    // In their order: who confirms later ones, and never this, does not get on.
    const auto older = [since = large_.out[header.slot].since](const rendezvous::outgoing& o) {
        return o.now == rendezvous::outgoing::state::announced && o.since < since;
    };
    if (std::ranges::none_of(large_.out, older)) got_on(large_.last_fetched);
    withdraw(header.slot, {});
}

void rc_connection::withdraw(std::uint32_t slot, std::errc result) noexcept {
    rendezvous::outgoing& o = large_.out[slot];
    o.now = rendezvous::outgoing::state::to_withdraw;
    o.result = result;
    ++large_.to_withdraw;
    device_->has_work(*this);
}

void rc_connection::post_withdrawals() noexcept {
    for (std::uint32_t slot = 0; slot < large_.out.size() && large_.to_withdraw != 0; ++slot) {
        rendezvous::outgoing& o = large_.out[slot];
        if (o.now != rendezvous::outgoing::state::to_withdraw) continue;
        for (; o.posted < o.count; ++o.posted) {
            rendezvous::outgoing::opened& key = o.keys[o.posted];
            if (key.by.handle == nullptr) {
                key.region = {};
                continue;
            }
            if (!has_room(1)) return;
            const std::uint32_t sequence = posted_;
            ibv_send_wr& wr = next_send(true);
            wr.opcode = IBV_WR_LOCAL_INV;
            wr.invalidate_rkey = key.by.key;
            sends_[sequence % options_.send_depth].withdraws = static_cast<std::uint8_t>(slot + 1);
            ++o.under_way;
        }
        --large_.to_withdraw;
        o.now = rendezvous::outgoing::state::withdrawing;
        if (o.under_way == 0) withdrawal_done(o);
    }
}

void rc_connection::withdrawn(std::uint32_t slot) noexcept {
    rendezvous::outgoing& o = large_.out[slot];
    if (--o.under_way == 0 && o.now == rendezvous::outgoing::state::withdrawing) withdrawal_done(o);
}

void rc_connection::withdrawal_done(rendezvous::outgoing& o) noexcept {
    close_keys(o);
    o.now = rendezvous::outgoing::state::idle;
    --large_.announced;
    if (rc_operation* const op = std::exchange(o.op, nullptr); op != nullptr) op->finish(o.result);
}

/// What they open is shut, or was never open.
void rc_connection::close_keys(rendezvous::outgoing& o) noexcept {
    while (o.count != 0) {
        rendezvous::outgoing::opened& key = o.keys[--o.count];
        key.region = {};
        if (key.by.handle != nullptr) {
            key.by.handle->rkey = key.by.key; // the driver takes the next binding's old key from there (rdma_rxe)
            large_.spare.push_back(std::exchange(key.by, {}));
        }
        if (memory_block* const block = std::exchange(key.block, nullptr); block != nullptr) block->release();
    }
    o.posted = o.under_way = 0;
}

/// The peer has said goodbye: it fetches nothing any more, and has nothing under way.
void rc_connection::forsake_large() noexcept {
    for (std::uint32_t slot = 0; slot < large_.out.size(); ++slot)
        if (large_.out[slot].now == rendezvous::outgoing::state::announced) withdraw(slot, std::errc::broken_pipe);
}

/// The connection is over. Windows open nothing, as the queue pair serves nobody; they go with it.
void rc_connection::end_announced(std::errc why) noexcept {
    for (rendezvous::outgoing& o : large_.out)
        if (rc_operation* const op = std::exchange(o.op, nullptr); op != nullptr)
            op->finish(o.now == rendezvous::outgoing::state::announced ? why : o.result);
}

// ---- the limit in time ---------------------------------------------------------------------------------------------

void rc_connection::got_on(time_point& at) noexcept {
    at = context_.owner().now();
    if (options_.fetch_within <= duration::zero() || fetch_timer_.armed() || state_ >= state::closed) return;
    context_.owner().timers().arm(fetch_timer_, at + options_.fetch_within);
}

/// A peer that takes no notice of what was announced to it holds our copies, and one that never quite answers our READs, what they
/// are to fill. What cannot be delivered can't be left out either: the connection ends.
void rc_connection::look_for_progress() noexcept {
    time_point since = never;
    if (large_.announced != 0) since = large_.last_fetched;
    for (const rendezvous::incoming& i : large_.in)
        if (i.now == rendezvous::incoming::state::fetching) since = std::min(since, large_.last_piece);
    if (since == never || state_ >= state::closed) return; // the next one arms the timer again
    if (context_.owner().now() - since >= options_.fetch_within) {
        ++counts_.overdue;
        return break_down(std::errc::timed_out);
    }
    context_.owner().timers().arm(fetch_timer_, since + options_.fetch_within);
}

/// Before the queue pair, which a bound window holds fast (rdma_rxe waits for it for ever).
void rc_connection::drop_keys() noexcept {
    for (rendezvous::outgoing& o : large_.out)
        for (std::uint32_t i = 0; i < o.count; ++i)
            if (const auto window = std::exchange(o.keys[i].by, {}); window.handle != nullptr) ::ibv_dealloc_mw(window.handle);
    for (rendezvous::outgoing& o : large_.out) close_keys(o);
    for (const rendezvous::window& w : large_.spare) ::ibv_dealloc_mw(w.handle);
    large_.spare.clear();
}

// ---- receiving -----------------------------------------------------------------------------------------------------

/// Bounds first: what is asked for here is memory, and READs of ours.
void rc_connection::announced(const rc_header& header, byte_span body) noexcept {
    if (header.slot >= large_.in.size() || large_.in[header.slot].now != rendezvous::incoming::state::idle) return violated();
    const auto what = rc_announcement::from_wire(body);
    if (!what || what->size() > options_.largest_message) return violated();
    rendezvous::incoming& i = large_.in[header.slot];
    i = {.now = rendezvous::incoming::state::announced, .what = *what};
    large_.order.push_back(header.slot);
    ++outstanding_;
    ++counts_.messages_received;
    ++counts_.large_received;
    deliver({arrival::large, static_cast<std::uint32_t>(what->size()), header.slot});
    device_->has_work(*this);
}

void rc_connection::serve_large() noexcept {
    if (!pair_ || state_ == state::connecting || state_ >= state::closed) return;
    post_withdrawals();
    for (std::uint32_t slot = 0; slot < large_.in.size() && large_.to_tell != 0; ++slot) {
        rendezvous::incoming& i = large_.in[slot];
        if (i.now != rendezvous::incoming::state::to_tell) continue;
        if (!goodbye_posted_) {
            if (!has_room(1)) break;
            post_control(rc_header::kind::fetched, slot);
        }
        i.now = rendezvous::incoming::state::idle;
        --large_.to_tell;
    }
    post_fetches();
}

/// In the order in which they were announced. Behind a goodbye of ours nothing is fetched.
void rc_connection::post_fetches() noexcept {
    if (goodbye_posted_ || goodbye_heard_) return;
    for (const std::uint32_t slot : large_.order) {
        rendezvous::incoming& i = large_.in[slot];
        if (i.now == rendezvous::incoming::state::announced) {
            if (large_.kept == options_.large_messages || fetch_wait_.linked()) return;
            std::errc failed{};
            i.block = allocate_or_wait(i.what.size(), memory_use::general, failed);
            if (failed != std::errc{}) return break_down(failed);
            if (i.block == nullptr) return;
            ++large_.kept;
            i.now = rendezvous::incoming::state::fetching;
            got_on(large_.last_piece);
        }
        if (!post_pieces(slot)) return;
    }
}

/// False: no room for more now.
bool rc_connection::post_pieces(std::uint32_t slot) noexcept {
    rendezvous::incoming& i = large_.in[slot];
    while (i.at < i.what.count) {
        if (!has_room(control_sends) || reads_ == reads_limit_) return false;
        const rc_announcement::stretch& from = i.what.stretches[i.at];
        const std::uint32_t size = std::min(rendezvous::piece, from.size - i.offset);
        sending& s = sends_[posted_ % options_.send_depth];
        ibv_send_wr& wr = next_send(true);
        wr.opcode = IBV_WR_RDMA_READ;
        wr.wr.rdma = {from.address + i.offset, from.key};
        wr.sg_list[0] = {reinterpret_cast<std::uintptr_t>(i.block->data) + i.into, size, i.block->local_key()};
        wr.num_sge = 1;
        s.reads = true;
        s.fetches = static_cast<std::uint8_t>(slot + 1);
        hold(s, i.block);
        ++reads_;
        ++i.under_way;
        ++counts_.fetches;
        i.into += size;
        i.offset += size;
        if (i.offset == from.size) ++i.at, i.offset = 0;
    }
    return true;
}

void rc_connection::piece_fetched(std::uint32_t slot) noexcept {
    rendezvous::incoming& i = large_.in[slot];
    if (i.now != rendezvous::incoming::state::fetching) return;
    got_on(large_.last_piece);
    if (--i.under_way != 0 || i.at != i.what.count) return;
    i.now = rendezvous::incoming::state::to_tell;
    ++large_.to_tell;
    std::erase(large_.order, slot);
    for (std::uint32_t n = 0; n < arrived_count_; ++n) {
        arrival& a = arrived_[(arrived_first_ + n) % arrived_.size()];
        if (a.whole() || a.immediate != slot) continue;
        a.block = std::exchange(i.block, nullptr);
        a.immediate = 0;
        break;
    }
    wake_receivers();
}

/// What was being fetched does not come any more, and so nothing that came behind it.
void rc_connection::drop_unfetched() noexcept {
    std::uint32_t whole = 0;
    while (whole < arrived_count_ && arrived_[(arrived_first_ + whole) % arrived_.size()].whole()) ++whole;
    const std::uint32_t end = std::exchange(arrived_count_, whole);
    for (std::uint32_t n = whole; n < end; ++n) give_back(arrived_[(arrived_first_ + n) % arrived_.size()]);
    for (rendezvous::incoming& i : large_.in) {
        if (i.block == nullptr) continue;
        --large_.kept;
        std::exchange(i.block, nullptr)->release(); // READs that are under way hold it
    }
    large_.order.clear();
    large_.to_tell = 0;
    for (rendezvous::incoming& i : large_.in) i = {};
}

} // namespace corewire::rdma
