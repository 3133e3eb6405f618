// docs/tutorial/protocol.hh
#pragma once
#include <corewire/reactor/base/bytes.hh>
#include <corewire/task.hh>
#include <corewire/tcp.hh>

#include <array>
#include <optional>
#include <string>
#include <system_error>
namespace cw = corewire;

namespace tutorial {

constexpr std::uint32_t longest_frame = 64 * 1024;

/// The next frame; nothing at a clean end of stream. Throws EMSGSIZE, before any memory is taken, for what is too long.
inline cw::task<std::optional<std::string>> read_frame(cw::tcp_stream& peer, cw::wait_limits limits = {}) {
    std::array<std::byte, 4> head;
    const std::size_t got = co_await peer.read_exactly(cw::mutable_byte_span(head), limits);
    if (got == 0) co_return std::nullopt;
    const std::uint32_t size = cw::load_be32(head.data());
    if (got < head.size() || size > longest_frame)
        throw std::system_error(std::make_error_code(std::errc::message_size), "a frame");
    std::string text(size, '\0');
    const std::size_t body = co_await peer.read_exactly(std::as_writable_bytes(std::span(text)), limits);
    if (body < size) throw std::system_error(std::make_error_code(std::errc::connection_reset), "a frame that breaks off");
    co_return text;
}

inline cw::task<> write_frame(cw::tcp_stream& peer, std::string text, cw::wait_limits limits = {}) {
    std::string frame(4, '\0');
    cw::store_be32(reinterpret_cast<std::byte*>(frame.data()), static_cast<std::uint32_t>(text.size()));
    frame += text;
    co_await peer.write(std::string_view(frame), limits);
}

} // namespace tutorial
