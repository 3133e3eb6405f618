// Which of several shards with one address has which UDP port, so that a datagram finds its socket wherever it comes in.
//
//     a port that a shard chose       it is that shard's alone, whoever writes to it
//     one that programs bound         on some shards: the one that the flow's hash names, if it is among them, else another of them
//     nobody's                        the hash says who refuses it
//
// One for all shards, held by each: 65,536 words, 512 KiB of address space of which the pages in use are touched. Read for each
// datagram, written by binding and leaving only, by compare and swap: no shard waits for another.
#pragma once

#include <atomic>
#include <cstdint>

namespace corewire {

class udp_port_map {
public:
    udp_port_map();
    ~udp_port_map();
    udp_port_map(const udp_port_map&) = delete;
    udp_port_map& operator=(const udp_port_map&) = delete;

    /// The port is to be `shard`'s alone. False: somebody has it.
    bool choose(std::uint16_t port, unsigned shard) noexcept;
    /// `shard` has the port as well as whoever has bound it. False: another shard has chosen it.
    bool take(std::uint16_t port, unsigned shard) noexcept;
    /// Undoes either.
    void leave(std::uint16_t port, unsigned shard) noexcept;
    /// Whose datagrams to the port are, of a flow that hashes to `by_hash`.
    unsigned owner(std::uint16_t port, unsigned by_hash) const noexcept {
        const std::uint64_t word = words_[port].load(std::memory_order_relaxed);
        return word == 0 ? by_hash : owner_by(word, by_hash);
    }

private:
    static constexpr std::uint64_t chosen = std::uint64_t{1} << 63; ///< the rest is one shard's number; else a bit for each
    static constexpr unsigned single_bits = 62;                     ///< shards from here on share the next bit, which stays set
    static std::uint64_t bit_of(unsigned shard) noexcept {
        return std::uint64_t{1} << (shard < single_bits ? shard : single_bits);
    }
    static unsigned owner_by(std::uint64_t word, unsigned by_hash) noexcept;

    std::atomic<std::uint64_t>* words_;
};

} // namespace corewire
