// Control messages of sendmsg() (apps/packetdrill/control_messages.hh) in memory that anybody may have filled, and those that recvmsg()
// writes where there is not room for all.
//
// What must hold: nothing is read or written beyond what the caller names; what was asked for is something there is; what was written can
// be walked as cmsg(3) has it.
#pragma once

#include <corewire/reactor/base/assert.hh>

#include <apps/packetdrill/control_messages.hh>

#include "decisions.hh"

#include <memory>

namespace control_fuzz {

using namespace fuzz;

inline void messages(byte_span bytes) {
    decisions in(bytes);
    const bool timed = in.byte() & 1;
    const std::size_t room = in.byte() % 96u;
    const byte_span asked = in.bytes(bytes.size());
    const auto block = std::make_unique<char[]>(asked.size()); // of exactly their size: AddressSanitizer sees one byte more
    if (!asked.empty()) std::memcpy(block.get(), asked.data(), asked.size());
    msghdr m{};
    m.msg_control = block.get();
    m.msg_controllen = asked.size();
    int stamps = -1;
    const bool taken = corewire::packetdrill::read_control(m, stamps, timed);
    CW_ASSERT(!taken || stamps == -1 || (stamps & ~0x7ffff) == 0, "stamps that there are not");

    const auto answer = std::make_unique<char[]>(room);
    msghdr out{};
    out.msg_control = room == 0 ? nullptr : answer.get();
    out.msg_controllen = room;
    {
        corewire::packetdrill::control_writer writer(out);
        writer.put(SOL_SOCKET, SO_TIMESTAMPING, std::uint64_t{1});
        writer.put(SOL_SOCKET, SO_MARK, std::uint32_t{2});
        writer.put(SOL_SOCKET, SO_PRIORITY, std::uint8_t{3});
    }
    CW_ASSERT(out.msg_controllen <= room, "more than there was room for");
    const bool all = room >= CMSG_SPACE(8) + CMSG_SPACE(4) + CMSG_LEN(1);
    CW_ASSERT(((out.msg_flags & MSG_CTRUNC) == 0) == all, "what was cut is told, and nothing else");
    std::size_t walked = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&out); c != nullptr; c = CMSG_NXTHDR(&out, c)) ++walked;
    CW_ASSERT(walked <= 3 && (!all || walked == 3), "messages that nobody has written");
}

} // namespace control_fuzz
