// The same two hosts, talking over IPv6. The configuration that they share has it.
#pragma once

#include "stack_world.hh"

namespace corewire {

class stack_world_over_ipv6 : public stack_world {
public:
    using stack_world::stack_world;
    net_address server_address() override { return six(first); }
    net_address client_address() override { return six(second); }
    socket_address silent_address() override {
        client_.ip().six()->neighbors().set_permanent(six(nobody), mac_address(0x02'00'00'00'00'99));
        return {six(nobody), 7};
    }
    std::uint64_t bulk_bytes() override { return 4'000'000; }
};

} // namespace corewire
