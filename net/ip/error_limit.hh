// How many ICMP errors leave: to each host, and in all (RFC 1812 4.3.2.8, RFC 4443 2.4 (f)). What is said to one host takes little from
// what others are told, and how much it takes is drawn: who counts the errors that reach him cannot tell what was said to somebody
// else (CVE-2020-25705).
//
// One layer's, on one shard. Bounded: 128 buckets for all hosts, which of them a host has is a keyed hash.
#pragma once

#include <corewire/net/ip/token_bucket.hh>
#include <corewire/net/wire/net_address.hh>

#include <cstring>
#include <vector>

namespace corewire {

class error_limit {
public:
    error_limit(std::uint32_t rate, std::uint32_t burst, std::uint32_t rate_each, std::uint32_t burst_each, std::uint64_t seed)
        : random_(seed), key_{random_.next(), random_.next()}, all_(rate, burst), each_(buckets, token_bucket(rate_each, burst_each)) {}

    bool take(time_point now, const net_address& to) noexcept {
        return each_[bucket_of(to)].take_about_one(now, random_) && all_.take_about_one(now, random_);
    }

private:
    static constexpr std::size_t buckets = 128;
    std::size_t bucket_of(const net_address& to) const noexcept {
        unsigned char bytes[16];
        const std::uint64_t halves[] = {to.high(), to.low()};
        std::memcpy(bytes, halves, sizeof bytes);
        return siphash(key_, bytes) % buckets;
    }

    random_generator random_;
    siphash_key key_;
    token_bucket all_;
    std::vector<token_bucket> each_;
};

} // namespace corewire
