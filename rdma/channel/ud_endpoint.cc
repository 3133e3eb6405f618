#include <corewire/rdma/channel/ud_endpoint.hh>

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/channel/ud_socket.hh>
#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>

namespace corewire::rdma {

namespace {

/// InfiniBand's would need LIDs in addresses, datagrams without a GRH, and the fabric's word for each group.
verbs::port_address roce_address(const verbs::device& on, std::uint8_t port, const net_address& ours) {
    if (on.port(port).link_layer == IBV_LINK_LAYER_INFINIBAND)
        verbs::fail(verbs::operation::create_address_handle, EOPNOTSUPP,
                    fmt::format("send datagrams from {}: port {} of {} is InfiniBand's, and ud_socket is for RoCE (rc_channel knows both)",
                                wire::to_string(ours), port, on.name()));
    return on.address_for(ours, port);
}

bool same(const ibv_gid& a, const ibv_gid& b) noexcept { return std::memcmp(&a, &b, sizeof a) == 0; }

verbs::address_handle make_handle(const verbs::protection_domain& in, const ibv_gid& to, std::uint8_t port,
                                  const verbs::port_address& ours) {
    return verbs::address_handle(in, {.gid = to, .port = port, .gid_index = static_cast<std::uint8_t>(ours.index)});
}

} // namespace

ud_endpoint::ud_endpoint(adapter& on, std::uint8_t port, const net_address& ours, const ud_options& options)
    : device_(on), options_(options), port_(port), address_(roce_address(on.device(), port, ours)),
      mtu_(verbs::bytes_of(on.device().port(port).active_mtu)),
      stride_((mtu_ + header + 63) / 64 * 64), memory_(on, stride_ * (options.receive_depth + options.send_depth), memory_use::buffers),
      pair_(std::in_place, on.domain(),
            verbs::queue_pair_options{.type = verbs::transport::unreliable_datagram, .sends = &on.queue(), .receives = &on.queue(),
                                      .max_sends = options.send_depth, .max_receives = options.receive_depth, .send_pieces = 1,
                                      .inline_bytes = options.inline_bytes}),
      chain_(options.send_depth, 1), refill_(options.receive_depth, memory_.local_key()), lent_(options.receive_depth),
      arrived_(options.receive_depth) {
    pair_->activate(verbs::datagram_parameters{.port = port_, .key = key});
    handles_.reserve(options_.max_handles);
    work_base_ = on.enter(nullptr, this, *this, options.send_depth + options.receive_depth); // when nothing can fail any more
    for (std::uint32_t i = 0; i < options_.receive_depth; ++i) give_back(i);
    post_work();
}

void ud_endpoint::shut_down() noexcept {
    fail(std::errc::operation_canceled);
    unlink();
    handles_.clear();
    groups_.clear();
    pair_.reset();
    gone_ = true;
    if (resolving_ != 0) return; // the adapter, and its device, stay until nobody makes a handle there any more: resolved()
    device_.leave(work_base_);
    release();
}

void ud_endpoint::fail(std::errc why) noexcept {
    if (failed_ == std::errc{}) failed_ = why;
    why = failed_;
    while (!senders.empty()) static_cast<ud_operation&>(senders.pop_front()).finish(why);
    for (const auto& each : resolutions_)
        while (!each->waiting.empty()) static_cast<ud_operation&>(each->waiting.pop_front()).finish(why);
    wake();
}

void ud_endpoint::wake() noexcept {
    while (!receivers.empty() && (arrived_count_ != 0 || failed_ != std::errc{})) {
        auto& next = static_cast<ud_receive_awaiter&>(receivers.pop_front());
        if (arrived_count_ != 0) next.give(*take_arrival());
        else next.end(failed_);
    }
}

// ---- groups --------------------------------------------------------------------------------------------------------

ibv_gid ud_address::gid_of(const net_address& ip) noexcept {
    ibv_gid out{};
    ip.v6().store(reinterpret_cast<std::byte*>(out.raw));
    return out;
}

joined_group::joined_group(ud_endpoint& in, const ibv_gid& group) noexcept : endpoint_(&in), group_(group) { in.hold(); }

joined_group::~joined_group() {
    if (endpoint_ == nullptr) return;
    endpoint_->leave(group_);
    endpoint_->release();
}

joined_group ud_endpoint::join(const ibv_gid& group) {
    if (failed_ != std::errc{}) throw std::system_error(std::make_error_code(failed_), "rdma join");
    const net_address wanted = verbs::port_address{.gid = group}.as_ip();
    const auto refuse = [&](int error, const char* why) {
        verbs::fail(verbs::operation::join_multicast, error, fmt::format("join {} with {}: {}", wire::to_string(wanted),
                                                                         wire::to_string(address_.as_ip()), why));
    };
    if (!wanted.is_multicast()) refuse(EINVAL, "it is no group");
    if (address_.type == IBV_GID_TYPE_ROCE_V2 && wanted.is_v4() != address_.is_ipv4()) refuse(EAFNOSUPPORT, "they are of two families");
    const auto joined = std::ranges::find_if(groups_, [&](const membership& m) { return same(m.group, group); });
    if (joined != groups_.end()) ++joined->handles;
    else groups_.push_back({group, 1, {address_, group}, {device_.domain().api(), pair_->get(), group}});
    return {*this, group};
}

/// What the socket has left by its end is no longer there.
void ud_endpoint::leave(const ibv_gid& group) noexcept {
    const auto joined = std::ranges::find_if(groups_, [&](const membership& m) { return same(m.group, group); });
    if (joined != groups_.end() && --joined->handles == 0) groups_.erase(joined);
}

// ---- sending -------------------------------------------------------------------------------------------------------

ibv_ah* ud_endpoint::handle_for(const ibv_gid& gid) {
    for (known& k : handles_)
        if (same(k.gid, gid)) {
            k.last_send = posted_ + 1;
            return k.handle.get();
        }
    for (const refusal& each : refusals_)
        if (each.why && device_.owner().owner().now() < each.until && same(each.gid, gid))
            std::rethrow_exception(each.why);
    if (device_.domain().api().waits_for(device_.device().context(), &gid)) return nullptr;
    try {
        return keep(gid, make_handle(device_.domain(), gid, port_, address_));
    } catch (const std::system_error&) {
        refuse(gid, std::current_exception());
        throw;
    }
}

ibv_ah* ud_endpoint::keep(const ibv_gid& gid, verbs::address_handle made) {
    ++counts.handles_made;
    if (handles_.size() < options_.max_handles) {
        handles_.push_back({gid, std::move(made), posted_ + 1});
        return handles_.back().handle.get();
    }
    // In turn; one that a send still uses is passed over.
    for (std::size_t tried = 0; tried < handles_.size(); ++tried) {
        known& k = handles_[oldest_++ % handles_.size()];
        if (static_cast<std::int32_t>(k.last_send - retired_) > 0) continue;
        k = {gid, std::move(made), posted_ + 1};
        ++counts.handles_dropped;
        return k.handle.get();
    }
    throw std::system_error(EAGAIN, std::generic_category(), "all address handles are in use");
}

bool ud_endpoint::start(ud_operation& op) noexcept {
    if (failed_ != std::errc{} || op.bytes.size() > mtu_) {
        op.finish(failed_ != std::errc{} ? failed_ : std::errc::message_size);
        return true;
    }
    if (!senders.empty() || !has_room()) {
        ++counts.waits_for_room;
        senders.push_back(op);
        return false;
    }
    return post(op);
}

void ud_endpoint::post_or_line_up(ud_operation& op) noexcept {
    if (senders.empty() && has_room()) {
        post(op);
        return;
    }
    ++counts.waits_for_room;
    senders.push_back(op);
}

bool ud_endpoint::post(ud_operation& op) noexcept {
    ibv_ah* handle = nullptr;
    try {
        handle = handle_for(op.to.gid);
        if (handle == nullptr) {
            stand_for_way(op);
            return false;
        }
    } catch (...) {
        op.fail(std::current_exception());
        return true;
    }
    std::byte* const copy = memory_.data() + stride_ * (options_.receive_depth + posted_ % options_.send_depth);
    const auto size = static_cast<std::uint32_t>(op.bytes.size());
    if (size != 0) std::memcpy(copy, op.bytes.data(), size);
    ibv_send_wr& wr = chain_.next();
    const bool signalled = ++unsignalled_ >= std::max(1u, options_.send_depth / 4);
    if (signalled) unsignalled_ = 0;
    wr.wr_id = work_base_ | posted_++;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = signalled ? IBV_SEND_SIGNALED : 0;
    if (size <= pair_->capacity().max_inline_data) wr.send_flags |= IBV_SEND_INLINE;
    wr.sg_list[0] = {reinterpret_cast<std::uintptr_t>(copy), size, memory_.local_key()};
    wr.num_sge = size == 0 ? 0 : 1;
    wr.wr.ud = {handle, op.to.queue_pair, op.to.key};
    ++counts.sent;
    device_.has_work(*this);
    op.finish({});
    return true;
}

// ---- ways to new destinations --------------------------------------------------------------------------------------

struct ud_endpoint::resolving_call final : verbs::waiting_call {
    resolving_call(ud_endpoint& e, const ibv_gid& to) : endpoint(e), domain(e.device_.domain()), port(e.port_), ours(e.address_), gid(to) {}
    void execute() noexcept override {
        try {
            made = make_handle(domain, gid, port, ours);
            why = nullptr;
        } catch (...) {
            why = std::current_exception();
        }
    }
    void finished() noexcept override { endpoint.resolved(gid, std::move(made), std::move(why)); }

    ud_endpoint& endpoint; ///< the owner's
    const verbs::protection_domain& domain;
    const std::uint8_t port;
    const verbs::port_address ours;
    const ibv_gid gid;
    verbs::address_handle made;
    std::exception_ptr why = std::make_exception_ptr(std::system_error(ECANCELED, std::generic_category(), "rdma send_to"));
};

/// Throws where it can't be waited for.
void ud_endpoint::stand_for_way(ud_operation& op) {
    const auto is_it = [&](const auto& r) { return same(r->gid, op.to.gid); };
    auto at = std::ranges::find_if(resolutions_, is_it);
    if (at == resolutions_.end()) {
        resolutions_.push_back(std::make_unique<resolution>(op.to.gid));
        at = std::prev(resolutions_.end());
        if (resolving_ < most_resolved && !resolve(**at)) {
            resolutions_.pop_back();
            throw std::system_error(EAGAIN, std::generic_category(), "rdma send_to: there is no thread to look for the destination");
        }
    }
    ++counts.waits_for_way;
    (*at)->waiting.push_back(op);
}

bool ud_endpoint::resolve(resolution& r) noexcept {
    try {
        std::unique_ptr<verbs::waiting_call> call = std::make_unique<resolving_call>(*this, r.gid);
        if (!device_.owner().waits().start(call)) return false;
    } catch (const std::exception&) {
        return false;
    }
    hold();
    ++resolving_;
    return r.begun = true;
}

/// Those that had to stand back; whose senders have all given up are forgotten.
void ud_endpoint::resolve_more() noexcept {
    std::erase_if(resolutions_, [](const auto& r) { return !r->begun && r->waiting.empty(); });
    for (const auto& each : resolutions_) {
        if (resolving_ == most_resolved) return;
        if (each->begun || resolve(*each)) continue;
        if (resolving_ == 0) end(*each, std::make_exception_ptr(std::system_error(EAGAIN, std::generic_category(), "rdma send_to")));
    }
    if (resolving_ == 0) std::erase_if(resolutions_, [](const auto& r) { return !r->begun; }); // nobody would begin them
}

void ud_endpoint::resolved(const ibv_gid& gid, verbs::address_handle made, std::exception_ptr why) noexcept {
    --resolving_;
    if (gone_) {
        made = {};
        if (resolving_ == 0) device_.leave(work_base_), --references_; // the socket's
        return release();
    }
    if (why) refuse(gid, why);
    try {
        if (!why) keep(gid, std::move(made));
    } catch (...) {
        why = std::current_exception();
    }
    const auto at = std::ranges::find_if(resolutions_, [&](const auto& r) { return same(r->gid, gid); });
    const std::unique_ptr<resolution> over = std::move(*at);
    resolutions_.erase(at);
    if (why) end(*over, why);
    while (!over->waiting.empty()) post_or_line_up(static_cast<ud_operation&>(over->waiting.pop_front()));
    resolve_more();
    release();
}

void ud_endpoint::end(resolution& r, const std::exception_ptr& why) noexcept {
    while (!r.waiting.empty()) static_cast<ud_operation&>(r.waiting.pop_front()).fail(why);
}

void ud_endpoint::refuse(const ibv_gid& gid, std::exception_ptr why) noexcept {
    ++counts.unreachable;
    refusals_[next_refusal_++ % remembered] = {gid, device_.owner().owner().now() + retry_after, std::move(why)};
}

void ud_endpoint::post_work() noexcept {
    unlink();
    if (failed_ != std::errc{}) return;
    if (restart_wanted_) [[unlikely]] start_again();
    ring();
}

/// Receives, and sends with one doorbell.
void ud_endpoint::ring() noexcept {
    if (failed_ != std::errc{}) return;
    const auto filled = refill_.post([&](auto* first, auto** bad) { return pair_->post_receive(first, bad); });
    if (filled.error != 0) return fail(static_cast<std::errc>(filled.error));
    if (chain_.empty()) return;
    ++counts.doorbells;
    const auto sent = chain_.post(*pair_);
    if (sent.error != 0) fail(static_cast<std::errc>(sent.error));
}

// ---- errors --------------------------------------------------------------------------------------------------------

/// A completion with an error. Flushed ones say nothing by themselves: the device may have gone.
void ud_endpoint::start_again_soon(const ibv_wc& wc) noexcept {
    if (wc.status == IBV_WC_WR_FLUSH_ERR) device_.look_for_trouble();
    if (failed_ != std::errc{}) return;
    restart_wanted_ = true;
    device_.has_work(*this);
}

/// With another place at the adapter: what the old one has in the completion queue still is nobody's.
void ud_endpoint::start_again() noexcept {
    restart_wanted_ = false;
    if (++restarts_in_a_row_ > most_restarts) return fail(std::errc::io_error);
    ++counts.restarts;
    try {
        pair_->to_reset();
        device_.leave(work_base_);
        work_base_ = device_.enter(nullptr, this, *this, completions()); // the room that has just been left
        pair_->activate(verbs::datagram_parameters{.port = port_, .key = key});
        chain_ = verbs::send_chain(options_.send_depth, 1); // what waited in them names the old place
        refill_ = verbs::receive_chain(options_.receive_depth, memory_.local_key());
    } catch (const std::system_error& e) {
        return fail(static_cast<std::errc>(e.code().value()));
    } catch (const std::bad_alloc&) {
        return fail(std::errc::not_enough_memory);
    }
    retired_ = posted_;
    unsignalled_ = 0;
    for (std::uint32_t i = 0; i < options_.receive_depth; ++i)
        if (lent_[i]) lend(i);
    while (!senders.empty() && has_room()) post(static_cast<ud_operation&>(senders.pop_front()));
    unlink(); // ring() comes next
}

// ---- completions, receiving ----------------------------------------------------------------------------------------

void ud_endpoint::completed(const ibv_wc& wc) noexcept {
    if ((wc.wr_id & work_id::receive) == 0) {
        const auto sequence = static_cast<std::uint32_t>(wc.wr_id);
        if (sequence - retired_ < posted_ - retired_) retired_ = sequence + 1;
        if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
            ++counts.failed_sends;
            return start_again_soon(wc);
        }
        restarts_in_a_row_ = 0;
        while (!senders.empty() && has_room() && failed_ == std::errc{}) post(static_cast<ud_operation&>(senders.pop_front()));
        return;
    }
    const auto buffer = static_cast<std::uint32_t>(wc.wr_id);
    if (wc.status != IBV_WC_SUCCESS) [[unlikely]] return start_again_soon(wc); // its buffer counts as lent, and is lent again
    lent_[buffer] = false;
    restarts_in_a_row_ = 0;
    const bool whole = (wc.wc_flags & IBV_WC_GRH) != 0 && wc.byte_len >= header;
    const auto from_to = whole ? verbs::datagram_header::load(memory_.data() + stride_ * buffer, true) : std::nullopt;
    if (!from_to) {
        ++counts.malformed;
        return give_back(buffer);
    }
    ++counts.received;
    const arrival a{buffer, wc.byte_len - header, wc.src_qp, from_to->from};
    arrived_[(arrived_first_ + arrived_count_) % arrived_.size()] = a;
    ++arrived_count_;
    wake();
}

std::optional<ud_endpoint::arrival> ud_endpoint::take_arrival() noexcept {
    if (arrived_count_ == 0) return std::nullopt;
    const arrival a = arrived_[arrived_first_];
    arrived_first_ = static_cast<std::uint32_t>((arrived_first_ + 1) % arrived_.size());
    --arrived_count_;
    return a;
}

void ud_endpoint::put_back(const arrival& a) noexcept {
    arrived_first_ = static_cast<std::uint32_t>((arrived_first_ + arrived_.size() - 1) % arrived_.size());
    arrived_[arrived_first_] = a;
    ++arrived_count_;
    wake();
}

void ud_endpoint::give_back(std::uint32_t buffer) noexcept {
    if (failed_ != std::errc{}) return;
    lent_[buffer] = true;
    if (!restart_wanted_) lend(buffer);
}

void ud_endpoint::lend(std::uint32_t buffer) noexcept {
    refill_.add(work_base_ | work_id::receive | buffer, memory_.data() + stride_ * buffer, mtu_ + header);
    device_.has_work(*this);
}

} // namespace corewire::rdma
