// DNS messages (RFC 1035) as a stub resolver needs them: a question for addresses, and what an answer to it says.
//
// The bytes are made and read by c-ares; here is what it leaves to its caller: whether an answer is one to our question at all,
// and how long to remember that there is none (RFC 2308). Plain functions; bounded by max_addresses.
#pragma once

#include <corewire/net/socket/address.hh>
#include <corewire/reactor/base/bytes.hh>
#include <corewire/reactor/base/time.hh>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace corewire {

enum class dns_type : std::uint16_t { a = 1, aaaa = 28 };

struct dns_question {
    std::string name; ///< whole, as "www.example.com"; a dot at its end changes nothing
    dns_type type = dns_type::a;
    std::uint16_t id = 0; ///< to be unpredictable (RFC 5452)
    bool edns = true;     ///< says what we take (RFC 6891); false: to a server that has never heard of it
};

enum class dns_outcome : std::uint8_t {
    not_ours,     ///< no answer to this question: somebody else's, late, or forged
    answer,       ///< with addresses
    no_data,      ///< the name exists, and has no address of this type
    no_such_name, ///< NXDOMAIN
    truncated,    ///< ask again by TCP
    no_edns,      ///< the server has not understood the question, and may do so without EDNS (RFC 6891 7)
    unusable,     ///< malformed, or the server can't or won't: ask another
};

struct dns_answer {
    dns_outcome outcome = dns_outcome::not_ours;
    std::vector<ip_address> addresses{};
    duration lifetime{0}; ///< how long it may be remembered: the least TTL, at most a day; RFC 2308 5 for what is not there
};

inline constexpr std::size_t dns_max_addresses = 64;  ///< of an answer; more are left out
inline constexpr std::size_t dns_max_datagram = 1232; ///< bytes: what we say that we take (EDNS, RFC 6891; no fragments)

/// The question, recursion desired. Empty when `name` can't be one: a label longer than 63 bytes, or empty, or all of it over 255.
std::vector<std::byte> encode_dns_question(const dns_question& question);

dns_answer decode_dns_answer(byte_span message, const dns_question& asked);

} // namespace corewire
