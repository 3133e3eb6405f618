// What name servers have said, for as long as they allow: answers, and that there is none (RFC 2308).
// One shard's. Bounded by its capacity: the answer that was used longest ago makes room.
#pragma once

#include <corewire/net/resolve/dns_message.hh>

#include <list>
#include <string>
#include <unordered_map>

namespace corewire {

/// Names are the same in any case (RFC 4343), and with a dot at the end or without.
std::string plain_name(std::string name);
/// What is one question.
std::string dns_key(std::string name, dns_type type);

class dns_cache {
public:
    explicit dns_cache(std::size_t capacity) : capacity_(capacity) {}

    /// Null: not known, or known for too long. Valid until the next call of anything.
    const dns_answer* find(time_point now, const std::string& name, dns_type type);
    /// An answer without a lifetime is not kept.
    void keep(time_point now, const std::string& name, dns_type type, const dns_answer& answer);
    void forget_all() noexcept;
    std::size_t size() const noexcept { return by_key_.size(); }

private:
    struct entry {
        std::string key;
        dns_answer answer;
        time_point until;
    };
    std::size_t capacity_;
    std::list<entry> recent_; ///< the one used last first
    std::unordered_map<std::string, std::list<entry>::iterator> by_key_;
};

} // namespace corewire
