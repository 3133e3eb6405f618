// Any bytes as the answer of a name server.
#pragma once

#include <corewire/net/resolve/dns_message.hh>

#include <cstdlib>

namespace dns_fuzz {

/// The first byte says what was asked for; the rest is the message, whose number is right.
inline void answer(corewire::byte_span bytes) {
    using namespace corewire;
    if (bytes.size() < 3) return;
    const dns_type type = (bytes[0] & std::byte{1}) == std::byte{} ? dns_type::a : dns_type::aaaa;
    const dns_question asked{"www.example.com", type, load_be16(bytes.data() + 1)};
    const dns_answer a = decode_dns_answer(bytes.subspan(1), asked);
    const bool holds = a.addresses.empty() == (a.outcome != dns_outcome::answer) && a.addresses.size() <= dns_max_addresses &&
                       a.lifetime >= duration{0} && a.lifetime <= std::chrono::hours{24};
    if (!holds) std::abort();
}

} // namespace dns_fuzz
