#include <corewire/rdma/channel/rc_channel.hh>

#include <fmt/format.h>
#include <memory>

namespace corewire::rdma {

namespace {

rc_request one_sided(rc_request::kind what, const local_region& ours, const remote_region& theirs, std::uint64_t offset) noexcept {
    rc_request r;
    r.what = what;
    r.data = ours.data;
    r.size = ours.size;
    r.local_key = ours.key;
    r.block = ours.block;
    r.remote_address = theirs.address + offset;
    r.remote_key = theirs.key;
    if (!theirs.contains(offset, ours.size)) r.refused = std::errc::result_out_of_range;
    return r;
}

rc_request atomic(rc_request::kind what, const remote_region& at, std::uint64_t offset, std::uint64_t operand,
                  std::uint64_t swap) noexcept {
    local_region eight;
    eight.size = 8;
    rc_request r = one_sided(what, eight, at, offset);
    r.operand = operand;
    r.swap = swap;
    if (r.remote_address % 8 != 0) r.refused = std::errc::invalid_argument;
    return r;
}

} // namespace

rc_awaiter rc_channel::send(byte_span bytes, wait_limits limits) noexcept {
    rc_request r;
    r.data = bytes.data();
    r.size = static_cast<std::uint32_t>(bytes.size());
    if (bytes.size() > 0xffff'ffff) r.refused = std::errc::message_size;
    return {connection_, r, limits};
}

rc_awaiter rc_channel::send(std::span<const byte_span> parts, wait_limits limits) noexcept {
    rc_request r;
    r.parts = parts;
    std::uint64_t all = 0;
    for (const byte_span part : parts) all += part.size();
    r.size = static_cast<std::uint32_t>(all);
    if (all > 0xffff'ffff) r.refused = std::errc::message_size;
    return {connection_, r, limits};
}

rc_awaiter rc_channel::send_in_place(std::span<const local_region> parts, wait_limits limits) noexcept {
    rc_request r;
    r.what = rc_request::kind::send_in_place;
    r.regions = parts;
    std::uint64_t all = 0;
    for (const local_region& part : parts) all += part.size;
    r.size = static_cast<std::uint32_t>(all);
    if (all > 0xffff'ffff) r.refused = std::errc::message_size;
    return {connection_, r, limits};
}

rc_awaiter rc_channel::send_in_place(local_region bytes, wait_limits limits) noexcept {
    rc_request r;
    r.what = rc_request::kind::send_in_place;
    r.data = bytes.data;
    r.size = bytes.size;
    r.local_key = bytes.key;
    r.block = bytes.block;
    return {connection_, r, limits};
}

rc_awaiter rc_channel::write(local_region from, const remote_region& to, std::uint64_t offset, wait_limits limits) noexcept {
    return {connection_, one_sided(rc_request::kind::write, from, to, offset), limits};
}

rc_awaiter rc_channel::write_with_immediate(local_region from, const remote_region& to, std::uint64_t offset, std::uint32_t immediate,
                                              wait_limits limits) noexcept {
    rc_request r = one_sided(rc_request::kind::write_with_immediate, from, to, offset);
    r.immediate = immediate;
    return {connection_, r, limits};
}

rc_awaiter rc_channel::read(local_region into, const remote_region& from, std::uint64_t offset, wait_limits limits) noexcept {
    return {connection_, one_sided(rc_request::kind::read, into, from, offset), limits};
}

atomic_operation rc_channel::fetch_and_add(const remote_region& at, std::uint64_t offset, std::uint64_t add, wait_limits limits) noexcept {
    return {connection_, atomic(rc_request::kind::fetch_and_add, at, offset, add, 0), limits};
}

atomic_operation rc_channel::compare_and_swap(const remote_region& at, std::uint64_t offset, std::uint64_t expected, std::uint64_t desired,
                                              wait_limits limits) noexcept {
    return {connection_, atomic(rc_request::kind::compare_and_swap, at, offset, expected, desired), limits};
}

task<exposed_region> rc_channel::expose(const registered_buffer& memory, std::size_t offset, std::size_t size, verbs::access allowed,
                                        wait_limits limits) {
    adapter& device = open().device();
    const local_region ours = memory.at(offset, size);
    exposed_region out;
    out.what_ = {reinterpret_cast<std::uintptr_t>(ours.data), size, 0};
    out.hold(ours.block);
    if (const std::errc refused = connection_->refused(); refused != std::errc{}) // it would not be withdrawn any more
        throw std::system_error(std::make_error_code(refused), "rdma expose");
    auto window = std::make_unique<exposed_window>();
    const bool windows = device.memory().has_windows();
    if (!windows) {
        const mutable_byte_span stretch(ours.data, size);
        window->region = verbs::memory_region(device.domain(), stretch, allowed | verbs::access::local_write);
    } else {
        window->handle = connection_->make_window();
    }
    out.window_ = window.release();
    connection_->keep(*out.window_);
    if (!windows) {
        out.what_.key = out.window_->region.remote_key();
        co_return out;
    }
    out.what_.key = ::ibv_inc_rkey(out.window_->handle->rkey);
    rc_request r;
    r.what = rc_request::kind::bind_window;
    r.data = ours.data;
    r.size = ours.size;
    r.block = ours.block;
    r.window = out.window_;
    r.window_key = out.what_.key;
    r.region = memory.region().get();
    r.access = static_cast<unsigned>(allowed) & ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE);
    co_await rc_awaiter(connection_, r, limits);
    co_return out;
}

task<> rc_channel::close(wait_limits limits) {
    if (connection_ == nullptr) co_return;
    rc_connection& c = *connection_;
    c.hold(); // abort(), or the channel's end, may come meanwhile
    struct held {
        rc_connection& connection;
        ~held() { connection.release(); }
    } until_the_end{c};
    c.begin_close();
    co_await c.all_sent().wait(limits);
    const std::errc failed = c.phase() == rc_connection::state::broken ? c.why() : std::errc{};
    c.finish_close();
    if (failed != std::errc{}) throw std::system_error(std::make_error_code(failed), "rdma close");
}

} // namespace corewire::rdma
