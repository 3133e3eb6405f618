#include <corewire/net/udp/udp_port_map.hh>

#include <bit>
#include <cerrno>
#include <sys/mman.h>
#include <system_error>

namespace corewire {

namespace {
constexpr std::size_t table_bytes = 65536 * sizeof(std::atomic<std::uint64_t>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
} // namespace

udp_port_map::udp_port_map() {
    void* table = ::mmap(nullptr, table_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "cannot map the table of the shards' UDP ports");
    words_ = static_cast<std::atomic<std::uint64_t>*>(table);
}

udp_port_map::~udp_port_map() { ::munmap(words_, table_bytes); }

bool udp_port_map::choose(std::uint16_t port, unsigned shard) noexcept {
    std::uint64_t nobody = 0;
    return words_[port].compare_exchange_strong(nobody, chosen | shard);
}

bool udp_port_map::take(std::uint16_t port, unsigned shard) noexcept {
    std::uint64_t word = words_[port].load();
    do {
        if ((word & chosen) != 0) return false;
    } while (!words_[port].compare_exchange_weak(word, word | bit_of(shard)));
    return true;
}

void udp_port_map::leave(std::uint16_t port, unsigned shard) noexcept {
    if ((words_[port].load() & chosen) != 0) words_[port].store(0); // nobody else has it
    else if (shard < single_bits) words_[port].fetch_and(~bit_of(shard));
}

/// The shards beyond the single bits are not told apart: what is bound there goes by the hash.
unsigned udp_port_map::owner_by(std::uint64_t word, unsigned by_hash) noexcept {
    if ((word & chosen) != 0) return static_cast<unsigned>(word & ~chosen);
    std::uint64_t shards = word & (bit_of(single_bits) - 1);
    if ((word & bit_of(by_hash)) != 0 || shards == 0) return by_hash;
    for (unsigned skip = by_hash % static_cast<unsigned>(std::popcount(shards)); skip != 0; --skip) shards &= shards - 1;
    return static_cast<unsigned>(std::countr_zero(shards));
}

} // namespace corewire
