#include <corewire/rdma/channel/rc_connection.hh>

#include <corewire/rdma/channel/context.hh>

#include <algorithm>
#include <cstring>

namespace corewire::rdma {

namespace {

/// What a program is told when a work request of its own has failed.
std::errc meaning(ibv_wc_status status) noexcept {
    switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return std::errc::timed_out;             // the peer answers no more
    case IBV_WC_RNR_RETRY_EXC_ERR: return std::errc::no_buffer_space;   // it had posted no receive: no credits kept
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR: return std::errc::permission_denied;       // not its memory, or not for that
    case IBV_WC_LOC_PROT_ERR: return std::errc::bad_address;            // not our memory
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_REM_INV_REQ_ERR: return std::errc::message_size;
    case IBV_WC_WR_FLUSH_ERR: return std::errc::connection_reset;
    default: return std::errc::io_error;
    }
}

} // namespace

// ---- operations ----------------------------------------------------------------------------------------------------

bool rc_connection::may_post(const rc_request& r) noexcept {
    if (needs_credit(r.what) && credits_ == 0) return ++counts_.waits_for_credit, false;
    if (!has_room(control_sends)) return ++counts_.waits_for_room, false;
    if (takes_read(r.what) && reads_ == reads_limit_) return ++counts_.waits_for_reads, false;
    if (is_large(r)) [[unlikely]] return may_announce(r);
    return true;
}

bool rc_connection::start(rc_operation& op) noexcept {
    const rc_request& r = op.request;
    std::errc refused = r.refused;
    if (state_ != state::open) refused = this->refused();
    else if (is_large(r) && large_refused(r) != std::errc{}) refused = large_refused(r);
    else if (r.regions.size() > std::min(most_regions, pair_->capacity().max_send_sge)) refused = std::errc::invalid_argument;
    else if (takes_read(r.what) && reads_limit_ == 0) refused = std::errc::operation_not_supported;
    if (refused != std::errc{}) {
        op.finish(refused);
        return true;
    }
    if (!line_.empty() || !may_post(r)) {
        stand_in_line(op);
        return false;
    }
    return post(op);
}

/// Cut short. What the first one waits for those behind it may not need.
void rc_connection::leave_line(rc_operation& op) noexcept {
    const bool first = &line_.front() == &op;
    op.unlink();
    if (first && !line_.empty()) serve_soon();
}

void rc_connection::serve() noexcept {
    // First: without windows a withdrawal is over at once, and its slot is what the next in line waits for.
    if (large_.to_withdraw != 0 && pair_ && state_ < state::closed) [[unlikely]] post_withdrawals();
    while (!line_.empty() && state_ == state::open) {
        auto& next = static_cast<rc_operation&>(line_.front());
        if (!may_post(next.request)) break;
        next.unlink();
        post(next);
    }
    if (large_.anything_to_do()) [[unlikely]] serve_large();
    // What was announced goes before the goodbye, as all that was sent.
    if (goodbye_wanted_ && !goodbye_posted_ && line_.empty() && large_.announced == 0 && state_ < state::closed && has_room(1))
        post_control(rc_header::kind::goodbye);
}

bool rc_connection::post(rc_operation& op) noexcept {
    const rc_request& r = op.request;
    if (is_large(r)) [[unlikely]] return announce(op);
    const bool awaited = r.what != rc_request::kind::send;
    const std::uint32_t sequence = posted_;
    ibv_send_wr& wr = next_send(awaited);
    fill(wr, r);
    if (needs_credit(r.what)) --credits_;
    if (takes_read(r.what)) ++reads_;
    sending& s = sends_[sequence % options_.send_depth];
    s.op = awaited ? &op : nullptr;
    s.reads = takes_read(r.what);
    hold(s, r.block);
    for (const local_region& each : r.regions) hold(s, each.block);
    if (r.window != nullptr) [[unlikely]] {
        s.binds = r.window;
        r.window->under_way = true;
    }
    if (awaited) op.posted_at(sequence);
    else op.finish({});
    return !awaited;
}

ibv_send_wr& rc_connection::next_send(bool signalled) noexcept {
    ibv_send_wr& wr = chain_->next(); // as long as the send queue: who asks has seen that there is room
    // One completion retires everything before it: every fourth of the ring asks for one, so that room comes back in time.
    signalled = signalled || ++unsignalled_ >= std::max(1u, options_.send_depth / 4);
    if (signalled) unsignalled_ = 0, ++counts_.signalled;
    wr.wr_id = work_base_ | posted_;
    wr.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
    wr.num_sge = 0;
    sends_[posted_ % options_.send_depth] = {};
    ++posted_;
    ++counts_.work_requests;
    device_->has_work(*this);
    return wr;
}

void rc_connection::fill(ibv_send_wr& wr, const rc_request& r) noexcept {
    const std::uint32_t sequence = posted_ - 1;
    std::uintptr_t at = reinterpret_cast<std::uintptr_t>(r.data);
    std::uint32_t key = r.local_key, size = r.size;
    switch (r.what) {
    case rc_request::kind::send: {
        std::byte* const copy = slot(sequence);
        if (r.parts.empty() && size != 0) std::memcpy(copy, r.data, size);
        std::byte* next = copy;
        for (const byte_span part : r.parts) next = std::copy(part.begin(), part.end(), next);
        at = reinterpret_cast<std::uintptr_t>(copy);
        key = memory_.local_key();
        if (size <= pair_->capacity().max_inline_data) wr.send_flags |= IBV_SEND_INLINE, ++counts_.inline_sends;
        [[fallthrough]];
    }
    case rc_request::kind::send_in_place:
        wr.opcode = IBV_WR_SEND_WITH_IMM;
        wr.imm_data = host_to_be(rc_header{rc_header::kind::data, take_owed()}.to_wire());
        ++counts_.messages_sent;
        break;
    case rc_request::kind::write: wr.opcode = IBV_WR_RDMA_WRITE; break;
    case rc_request::kind::write_with_immediate:
        wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
        wr.imm_data = host_to_be(r.immediate);
        break;
    case rc_request::kind::read: wr.opcode = IBV_WR_RDMA_READ; break;
    case rc_request::kind::fetch_and_add:
    case rc_request::kind::compare_and_swap:
        wr.opcode = r.what == rc_request::kind::fetch_and_add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
        wr.wr.atomic = {r.remote_address, r.operand, r.swap, r.remote_key};
        at = reinterpret_cast<std::uintptr_t>(slot(sequence));
        key = memory_.local_key();
        size = 8;
        break;
    case rc_request::kind::bind_window:
        wr.opcode = IBV_WR_BIND_MW;
        wr.imm_data = 0; // the driver refuses what an earlier use has left there (rdma_rxe)
        wr.bind_mw = {r.window->handle, r.window_key, {r.region, reinterpret_cast<std::uintptr_t>(r.data), r.size, r.access}};
        return;
    }
    if (r.what == rc_request::kind::write || r.what == rc_request::kind::write_with_immediate || r.what == rc_request::kind::read)
        wr.wr.rdma = {r.remote_address, r.remote_key};
    for (const local_region& each : r.regions)
        wr.sg_list[wr.num_sge++] = {reinterpret_cast<std::uintptr_t>(each.data), each.size, each.key};
    if (r.regions.empty() && size != 0) {
        wr.sg_list[0] = {at, size, key};
        wr.num_sge = 1;
    }
}

void rc_connection::post_control(rc_header::kind what, std::uint32_t slot) noexcept {
    const bool last = what == rc_header::kind::goodbye;
    const std::uint32_t sequence = posted_;
    ibv_send_wr& wr = next_send(last);
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = host_to_be(rc_header{what, take_owed(), slot}.to_wire());
    if (last) {
        wr.send_flags |= IBV_SEND_FENCE; // behind the READs: the peer withdraws its keys when it hears this
        goodbye_posted_ = true;
        goodbye_at_ = sequence;
    } else if (what == rc_header::kind::credits) {
        ++counts_.credit_messages_sent;
    }
}

std::uint32_t rc_connection::take_owed() noexcept { return std::exchange(owed_, 0); }

std::byte* rc_connection::slot(std::uint32_t sequence) noexcept {
    return memory_.data() + stride_ * receives() + send_stride_ * (sequence % options_.send_depth);
}

/// Receives first: what is told as owed has been posted.
void rc_connection::post_work() noexcept {
    if (!pair_ || state_ == state::broken || state_ == state::closed) return;
    if (large_.anything_to_do() || serve_wanted_) [[unlikely]] {
        serve_wanted_ = false;
        serve();
        if (state_ == state::broken || state_ == state::closed) return;
    }
    if (owed_ >= worth_telling() && (state_ == state::open || state_ == state::closing) && has_room(1))
        post_control(rc_header::kind::credits);
    flush_sends();
}

void rc_connection::flush_sends() noexcept {
    const auto filled = refill_->post([&](auto* first, auto** bad) { return pair_->post_receive(first, bad); });
    if (filled.error != 0) return break_down(static_cast<std::errc>(filled.error));
    unlink();
    if (serve_wanted_) device_->has_work(*this); // since then
    if (chain_->empty()) return;
    ++counts_.doorbells;
    const auto sent = chain_->post(*pair_);
    if (sent.error != 0) break_down(static_cast<std::errc>(sent.error));
}

// ---- completions ---------------------------------------------------------------------------------------------------

void rc_connection::completed(const ibv_wc& wc) noexcept {
    heard_ = true;
    if ((wc.wr_id & work_id::receive) != 0) return received(wc);
    send_completed(wc);
}

void rc_connection::send_completed(const ibv_wc& wc) noexcept {
    const std::uint32_t sequence = static_cast<std::uint32_t>(wc.wr_id);
    const std::uint32_t unretired = posted_ - retired_;
    if (sequence - retired_ >= unretired) return; // flushed a second time
    // Why it was flushed the device may have said: what is under way ends with that.
    if (wc.status == IBV_WC_WR_FLUSH_ERR && state_ < state::closed) [[unlikely]] device_->look_for_trouble();
    const std::errc why = wc.status == IBV_WC_SUCCESS ? std::errc{} : meaning(wc.status);
    bool badly_announced = false;
    while (retired_ != sequence + 1) { // requests complete in the order in which they were posted
        sending& s = sends_[retired_ % options_.send_depth];
        if (s.reads) --reads_;
        if (rc_operation* const op = std::exchange(s.op, nullptr); op != nullptr) {
            const bool atomic = op->request.what == rc_request::kind::fetch_and_add ||
                                op->request.what == rc_request::kind::compare_and_swap;
            std::uint64_t found = 0;
            if (atomic) std::memcpy(&found, slot(retired_), sizeof found);
            op->finish(retired_ == sequence ? why : std::errc{}, found);
        }
        if (s.held_count != 0) let_go(s);
        const std::uint8_t fetches = std::exchange(s.fetches, 0), withdraws = std::exchange(s.withdraws, 0);
        s.reads = false;
        ++retired_;
        if ((fetches | withdraws) != 0) [[unlikely]] {
            const bool well = retired_ != sequence + 1 || wc.status == IBV_WC_SUCCESS;
            if (fetches != 0 && well) piece_fetched(fetches - 1u);
            else if (fetches != 0) badly_announced = wc.status == IBV_WC_REM_ACCESS_ERR || wc.status == IBV_WC_REM_INV_REQ_ERR;
            else if (well) withdrawn(withdraws - 1u);
        }
    }
    if (badly_announced) return violated();
    if (wc.status != IBV_WC_SUCCESS) return break_down(why);
    if (goodbye_posted_ && retired_ - goodbye_at_ - 1 < 0x8000'0000u) all_sent_.set();
    if (!line_.empty() || goodbye_wanted_ || large_.anything_to_do()) serve();
    if (owed_ >= worth_telling()) [[unlikely]] device_->has_work(*this); // it may have waited for room
}

void rc_connection::received(const ibv_wc& wc) noexcept {
    if (state_ >= state::closed) return;
    if (wc.status != IBV_WC_SUCCESS) {
        if (wc.status == IBV_WC_WR_FLUSH_ERR) { // the cause comes with another completion, or from rdma_cm
            if (state_ != state::open) return;
            device_->look_for_trouble();
            return break_down(std::errc::connection_reset);
        }
        return wc.status == IBV_WC_LOC_LEN_ERR ? violated() : break_down(meaning(wc.status));
    }
    const std::uint32_t buffer = static_cast<std::uint32_t>(wc.wr_id);
    if (wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
        repost(buffer); // nothing is in it
        if (outstanding_ + owed_ >= options_.receive_depth || goodbye_heard_) return violated();
        ++outstanding_;
        return deliver({arrival::no_buffer, wc.byte_len, host_to_be(wc.imm_data)});
    }
    const auto header = (wc.wc_flags & IBV_WC_WITH_IMM) != 0 ? rc_header::from_wire(host_to_be(wc.imm_data)) : std::nullopt;
    // Bounds first: nobody can have consumed more of our messages than we have sent.
    if (!header || header->credits > peer_.receive_depth || credits_ + header->credits > peer_.receive_depth) return violated();
    credits_ += header->credits;
    switch (header->what) {
    case rc_header::kind::data:
        if (outstanding_ + owed_ >= options_.receive_depth || goodbye_heard_) return violated();
        ++outstanding_;
        ++counts_.messages_received;
        deliver({buffer, wc.byte_len, 0});
        break;
    case rc_header::kind::credits:
        // Each costs its sender what it tells of, so that there is an end to them: of nothing they could come for ever.
        if (wc.byte_len != 0 || header->credits == 0) return violated();
        repost(buffer);
        break;
    case rc_header::kind::goodbye:
        if (wc.byte_len != 0 || goodbye_heard_) return violated();
        if (!large_.order.empty() && !goodbye_posted_) return violated(); // announced, and not waited for
        goodbye_heard_ = true;
        if (state_ == state::open) state_ = state::peer_closed;
        end_operations(std::errc::broken_pipe);
        forsake_large();
        wake_receivers();
        return;
    case rc_header::kind::announcement:
        if (outstanding_ + owed_ >= options_.receive_depth || goodbye_heard_) return violated();
        announced(*header, {memory_.data() + stride_ * buffer, wc.byte_len});
        repost(buffer);
        break;
    case rc_header::kind::fetched:
        if (wc.byte_len != 0) return violated();
        repost(buffer);
        heard_fetched(*header);
        break;
    }
    if (header->credits != 0 && !line_.empty()) serve();
}

void rc_connection::violated() noexcept {
    ++counts_.violations;
    break_down(std::errc::protocol_error);
}

void rc_connection::repost(std::uint32_t buffer) noexcept {
    if (!pair_ || state_ >= state::closed) return;
    refill_->add(work_base_ | work_id::receive | buffer, memory_.data() + stride_ * buffer, static_cast<std::uint32_t>(stride_));
    device_->has_work(*this);
}

/// Once in `silence`. A device that does not answer is given up by ours, whose completion says so: ETIMEDOUT.
void rc_connection::look_for_peer() noexcept {
    if (!pair_ || state_ >= state::closed) return;
    const bool answered = !asked_ || retired_ - asked_at_ - 1 < 0x8000'0000u;
    // With the send queue full there is something under way that the device gives up by itself.
    if (!std::exchange(heard_, false) && answered && has_room(1)) {
        asked_ = true;
        asked_at_ = posted_;
        ibv_send_wr& wr = next_send(true);
        wr.opcode = IBV_WR_RDMA_WRITE; // of nothing: no key is asked for, no receive used up
        wr.wr.rdma = {0, 0};
        ++counts_.keepalives;
    }
    context_.owner().timers().arm(keepalive_, context_.owner().now() + silence());
}

// ---- receiving -----------------------------------------------------------------------------------------------------

void rc_connection::deliver(const arrival& a) noexcept {
    CW_DEBUG_ASSERT(arrived_count_ < arrived_.size(), "more messages than receives");
    arrived_[(arrived_first_ + arrived_count_) % arrived_.size()] = a;
    ++arrived_count_;
    wake_receivers();
}

std::optional<rc_connection::arrival> rc_connection::take_arrival() noexcept {
    if (arrived_count_ == 0 || !arrived_[arrived_first_].whole()) return std::nullopt;
    const arrival a = arrived_[arrived_first_];
    arrived_first_ = static_cast<std::uint32_t>((arrived_first_ + 1) % arrived_.size());
    --arrived_count_;
    return a;
}

/// Of a receiver that was destroyed before it ran.
void rc_connection::put_back(const arrival& a) noexcept {
    arrived_first_ = static_cast<std::uint32_t>((arrived_first_ + arrived_.size() - 1) % arrived_.size());
    arrived_[arrived_first_] = a;
    ++arrived_count_;
    wake_receivers();
}

void rc_connection::give_back(const arrival& a) noexcept {
    --outstanding_;
    if (a.buffer == arrival::large) {
        if (a.block != nullptr) --large_.kept, a.block->release();
    }
    if (state_ >= state::closed || !pair_) return;
    ++owed_;
    if (a.buffer < arrival::large) repost(a.buffer);
    device_->has_work(*this);
}

mutable_byte_span rc_connection::bytes_of(const arrival& a) noexcept {
    if (a.buffer == arrival::no_buffer) return {};
    if (a.buffer == arrival::large) return {a.block->data, a.size};
    return {memory_.data() + stride_ * a.buffer, a.size};
}

// ---- ending --------------------------------------------------------------------------------------------------------

void rc_connection::end_operations(std::errc why) noexcept {
    while (!line_.empty()) static_cast<rc_operation&>(line_.pop_front()).finish(why);
}

void rc_connection::begin_close() noexcept {
    if (state_ == state::open) {
        state_ = state::closing;
        goodbye_wanted_ = true;
        end_operations(std::errc::operation_canceled);
        serve();
    } else {
        all_sent_.set(); // the peer has left, or nothing goes any more
    }
}

void rc_connection::finish_close() noexcept {
    if (state_ == state::broken || state_ == state::closed) return;
    state_ = state::closed;
    disconnect();
    shut_regions();
    wake_receivers();
}

/// The queue pair fails; the peer is told.
void rc_connection::disconnect() noexcept {
    if (!pair_ || walking_) return;
    if (id_ != nullptr) {
        context_.cm().disconnect(id_);
        return;
    }
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_ERR;
    pair_->try_modify(a, IBV_QP_STATE);
    if (tether_) tether_->part();
}

void rc_connection::break_down(std::errc why) noexcept {
    if (state_ >= state::closed) return;
    // After the peer's goodbye its queue pair goes, and takes with it what we had still posted: that is an orderly end. So
    // is a peer that leaves behind our goodbye: it may go at once, before its device has acknowledged it.
    const bool left_behind_goodbye = state_ == state::closing && goodbye_posted_ && why == std::errc::connection_reset;
    state_ = goodbye_heard_ || left_behind_goodbye ? state::closed : state::broken;
    why_ = why;
    keepalive_.cancel();
    fetch_timer_.cancel();
    disconnect();
    for (sending& s : sends_)
        if (rc_operation* const op = std::exchange(s.op, nullptr); op != nullptr) op->finish(why);
    end_operations(why);
    end_announced(why);
    shut_regions();
    drop_unfetched();
    wake_receivers();
    all_sent_.set();
    made_.set();
    if (listener_ != nullptr) listener_->child_changed();
}

void rc_connection::shut_down() noexcept {
    break_down(std::errc::operation_canceled);
    if (walking_) {
        goes_after_walk_ = true;
        return;
    }
    if (state_ == state::closed) {
        for (sending& s : sends_)
            if (rc_operation* const op = std::exchange(s.op, nullptr); op != nullptr) op->finish(std::errc::operation_canceled);
        end_operations(std::errc::operation_canceled);
        end_announced(std::errc::operation_canceled);
        drop_unfetched();
    }
    unlink();
    copy_wait_.unlink();
    fetch_wait_.unlink();
    keepalive_.cancel();
    fetch_timer_.cancel();
    drop_keys();
    drop_windows();
    if (pair_ && id_ != nullptr) context_.cm().destroy_qp(id_);
    pair_.reset();
    tether_.reset();
    for (sending& s : sends_) let_go(s); // the device has let go of it all
    if (entered_) device_->leave(work_base_);
    entered_ = false;
    if (id_ != nullptr) context_.cm().destroy_id(std::exchange(id_, nullptr));
    release();
}

/// Without windows a key would serve other queue pairs still.
void rc_connection::shut_regions() noexcept {
    for (rendezvous::outgoing& o : large_.out)
        for (rendezvous::outgoing::opened& key : o.keys) key.region = {};
    windows_.for_each([](exposed_window& w) { w.region = {}; });
}

/// Of which some may be bound: as in drop_keys(). What an exposed_region has of them opens nothing from here on.
void rc_connection::drop_windows() noexcept {
    while (!windows_.empty()) windows_.pop_front().free();
}

void rc_connection::release() noexcept {
    if (--references_ != 0) return;
    for (std::uint32_t n = 0; n < arrived_count_; ++n) // large messages that nobody has received
        if (memory_block* const block = arrived_[(arrived_first_ + n) % arrived_.size()].block; block != nullptr) block->release();
    delete this;
}

void rc_connection::check_invariants() const {
    CW_ASSERT(posted_ - retired_ <= options_.send_depth, "more sends outstanding than the queue has");
    CW_ASSERT(outstanding_ + owed_ <= options_.receive_depth, "more messages outstanding than credits were given");
    CW_ASSERT(credits_ <= peer_.receive_depth, "more credits than the peer has receives");
    CW_ASSERT(arrived_count_ <= outstanding_, "messages arrived that are not outstanding");
    CW_ASSERT(large_.kept <= options_.large_messages, "more large messages kept than there may be");
    CW_ASSERT(large_.order.size() <= large_.in.size(), "more large messages announced than there are slots");
}

} // namespace corewire::rdma
