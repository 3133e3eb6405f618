#include <corewire/net/ip/reassembly.hh>

#include <corewire/net/wire/ecn.hh>

#include <algorithm>
#include <cstring>
#include <limits>

namespace corewire {

namespace {

constexpr std::uint32_t max_datagram = 65535; ///< bytes of IP, header included
/// Where payload begins in a frame: behind room for link headers and the longest IPv4 header.
constexpr std::uint32_t payload_at = frame_headroom + wire::ipv4_view::max_header_size;
constexpr std::uint32_t unknown = std::numeric_limits<std::uint32_t>::max();

/// Bits [first, last) of one 64-bit word.
constexpr std::uint64_t bits(std::uint32_t first, std::uint32_t last) noexcept {
    const std::uint64_t upto_last = last == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << last) - 1;
    return upto_last & ~((std::uint64_t{1} << first) - 1);
}

/// Which blocks of 8 bytes have come.
class block_map {
public:
    void clear() noexcept { words_.fill(0); }
    void set(std::uint32_t first, std::uint32_t last) noexcept {
        over(first, last, [](std::uint64_t& word, std::uint64_t mask) { word |= mask; });
    }
    bool any(std::uint32_t first, std::uint32_t last) noexcept {
        std::uint64_t found = 0;
        over(first, last, [&](std::uint64_t& word, std::uint64_t mask) { found |= word & mask; });
        return found != 0;
    }
    bool all(std::uint32_t first, std::uint32_t last) noexcept {
        std::uint64_t missing = 0;
        over(first, last, [&](std::uint64_t& word, std::uint64_t mask) { missing |= ~word & mask; });
        return missing == 0;
    }

private:
    template <typename Do>
    void over(std::uint32_t first, std::uint32_t last, Do&& act) noexcept {
        for (std::uint32_t w = first / 64; w * 64 < last; ++w) {
            act(words_[w], bits(std::max(first, w * 64) - w * 64, std::min(last, w * 64 + 64) - w * 64));
        }
    }
    std::array<std::uint64_t, 65536 / 8 / 64> words_{};
};

} // namespace

/// What a fragment's headers say.
struct reassembler::facts {
    net_address source, destination;
    std::uint32_t identification = 0;
    wire::ip_protocol protocol{};   ///< what fragment 0 begins with
    std::uint32_t offset = 0;       ///< bytes
    bool more = false;
    byte_span header;               ///< of the datagram, if this is fragment 0
    std::uint32_t protocol_at = 0;  ///< IPv6: the octet in it that names the fragment header, and is to name the protocol
    std::uint8_t ecn = 0;
    bool to_group = false;
    bool is_v4() const noexcept { return source.is_v4(); }
};

struct reassembler::datagram : list_hook {
    net_address source, destination;
    std::uint32_t identification = 0;
    wire::ip_protocol protocol{}; ///< IPv6: of the first to come, and not compared (RFC 8200 4.5)
    time_point deadline{};
    frame* storage = nullptr;        ///< null while it is dead
    bool dead = false;               ///< killed: what comes of it is dropped (RFC 5722 4)
    bool to_group = false;           ///< any of it
    std::uint8_t codepoints = 0;     ///< of ECN, that fragments have: a bit each
    std::uint32_t received = 0;      ///< bytes of payload, each counted once
    std::uint32_t size = unknown;    ///< of the whole payload, known from the last fragment
    std::uint32_t furthest = 0;      ///< end of the furthest byte received
    std::uint32_t header_size = 0;   ///< of fragment 0; 0 until it has come
    std::uint32_t first_size = 0;    ///< payload bytes of fragment 0
    block_map blocks;

    std::byte* payload() const noexcept { return storage->bytes + payload_at; }
};

/// A fragment's payload, in up to two pieces, and where it goes.
struct reassembler::piece {
    byte_span front, rest;
    std::uint32_t offset = 0;

    std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(front.size() + rest.size()); }
    std::uint32_t end() const noexcept { return offset + size(); }
    void copy_to(std::byte* to) const noexcept {
        std::memcpy(to, front.data(), front.size());
        if (!rest.empty()) std::memcpy(to + front.size(), rest.data(), rest.size());
    }
    bool equals(const std::byte* there) const noexcept {
        return std::memcmp(there, front.data(), front.size()) == 0 &&
               (rest.empty() || std::memcmp(there + front.size(), rest.data(), rest.size()) == 0);
    }
};

reassembler::reassembler(frame_pool& pool, reassembly_options options)
    : pool_(pool), options_(options), datagrams_(std::make_unique<datagram[]>(options.max_datagrams)) {
    CW_ASSERT(options.max_datagrams > 0, "reassembly needs room for a datagram");
    CW_ASSERT(pool.frame_size() > payload_at, "frames too small for any datagram");
    for (std::size_t i = 0; i < options.max_datagrams; ++i) free_.push_back(datagrams_[i]);
}

reassembler::~reassembler() {
    while (!busy_.empty()) drop(busy_.front());
}

reassembler::datagram* reassembler::find(const facts& of) noexcept {
    datagram* found = nullptr;
    busy_.for_each([&](datagram& d) {
        if (d.identification == of.identification && d.source == of.source && d.destination == of.destination &&
            (d.protocol == of.protocol || !of.is_v4())) {
            found = &d;
        }
    });
    return found;
}

/// Room for a new datagram: a free slot and a frame, or those of the datagram that has waited longest.
reassembler::datagram* reassembler::begin(time_point now, const facts& of) noexcept {
    if (free_.empty()) evict(busy_.front());
    if (pool_.free_count == 0) {
        datagram* oldest = nullptr;
        busy_.for_each([&](datagram& d) {
            if (oldest == nullptr && !d.dead) oldest = &d;
        });
        if (oldest != nullptr) evict(*oldest);
    }
    frame* storage = pool_.allocate();
    if (storage == nullptr) {
        ++statistics_.no_frame;
        return nullptr;
    }
    datagram& d = free_.pop_front();
    d.source = of.source;
    d.destination = of.destination;
    d.identification = of.identification;
    d.protocol = of.protocol;
    d.deadline = now + options_.timeout;
    d.storage = storage;
    d.received = d.furthest = d.header_size = d.first_size = 0;
    d.size = unknown;
    d.to_group = false;
    d.codepoints = 0;
    d.blocks.clear();
    busy_.push_back(d);
    ++size_;
    return &d;
}

void reassembler::evict(datagram& d) noexcept {
    if (!d.dead) ++statistics_.evicted;
    drop(d);
}

/// RFC 5722 4: with all that comes of it later. IPv4's names are too short for that: an honest datagram may have the same within its time.
void reassembler::kill(datagram& d) noexcept {
    if (d.source.is_v4()) return drop(d);
    release(*d.storage);
    d.storage = nullptr;
    d.dead = true;
    ++dead_;
}

void reassembler::drop(datagram& d) noexcept {
    if (d.storage != nullptr) release(*d.storage);
    d.storage = nullptr;
    if (d.dead) --dead_;
    d.dead = false;
    d.unlink();
    free_.push_back(d);
    --size_;
}

/// What no sender of good will sends, before anything is kept for it.
bool reassembler::acceptable(const facts& of, std::uint32_t length) noexcept {
    const std::uint32_t offset = of.offset;
    if (length == 0 || (of.more && length % 8 != 0) || (!of.is_v4() && of.header.size() > max_ipv6_headers)) {
        ++statistics_.malformed;
        return false;
    }
    // IPv6's length does not count its own header.
    const std::size_t uncounted = of.is_v4() ? 0 : wire::ipv6_header::size;
    if (of.header.size() + offset + length > max_datagram + uncounted || payload_at + offset + length > pool_.frame_size()) {
        ++statistics_.too_long; // ping of death
        return false;
    }
    // RFC 1858 3: the ports and flags of the transport header are in one fragment, the first.
    const std::uint32_t transport = of.protocol == wire::ip_protocol::tcp ? 20 : 8;
    if (offset < transport && (offset != 0 || length < transport)) {
        ++statistics_.tiny;
        return false;
    }
    return true;
}

buffer reassembler::add(time_point now, const wire::ipv4_view& ip, const packet& p, bool to_group) noexcept {
    const facts of{.source = ip.source(),
                   .destination = ip.destination(),
                   .identification = ip.identification(),
                   .protocol = ip.protocol(),
                   .offset = ip.fragment_offset(),
                   .more = ip.more_fragments(),
                   .header = ip.header(),
                   .ecn = ip.ecn(),
                   .to_group = to_group};
    const auto payload = static_cast<std::uint32_t>(ip.header().data() + ip.header_size() - p.head.data());
    return add(now, of, payload, ip.total_length() - static_cast<std::uint32_t>(ip.header_size()), p);
}

buffer reassembler::add(time_point now, const wire::ipv6_view& ip, const wire::ipv6_chain& chain, std::uint32_t ip_at, std::uint32_t size,
                        const packet& p, bool to_group) noexcept {
    const facts of{.source = ip.source(),
                   .destination = ip.destination(),
                   .identification = chain.identification,
                   .protocol = chain.protocol,
                   .offset = chain.fragment_offset,
                   .more = chain.more_fragments,
                   .header = p.head.bytes().subspan(ip_at, chain.fragment_at),
                   .protocol_at = chain.fragment_named_at,
                   .ecn = ip.ecn(),
                   .to_group = to_group};
    return add(now, of, ip_at + chain.offset, size - chain.offset, p);
}

/// The payload of `length` bytes starts `payload` bytes into p.head.
buffer reassembler::add(time_point now, const facts& of, std::uint32_t payload, std::uint32_t length, const packet& p) noexcept {
    ++statistics_.fragments;
    const std::uint32_t there = p.head.size() - payload;
    if (there + p.body.size() < length) {
        ++statistics_.malformed;
        return {};
    }
    piece fragment;
    fragment.front = p.head.bytes().subspan(payload, std::min(there, length));
    fragment.rest = p.body.bytes().first(length - fragment.front.size());
    fragment.offset = of.offset;
    if (!acceptable(of, length)) return {};
    datagram* d = find(of);
    if (d != nullptr && d->deadline <= now) { // too late, and expire() has not been called yet
        if (!d->dead) ++statistics_.timed_out;
        drop(*d);
        d = nullptr;
    }
    if (d != nullptr && d->dead) {
        ++statistics_.posthumous;
        return {};
    }
    if (d == nullptr) d = begin(now, of);
    if (d == nullptr || !place(*d, of, fragment)) return {};
    if (d->received != d->size || d->header_size == 0) return {};
    if (!marks_agree(*d)) {
        ++statistics_.inconsistent;
        kill(*d);
        return {};
    }
    ++statistics_.completed;
    buffer whole = finish(*d);
    drop(*d);
    return whole;
}

/// True when the fragment was new and good. A bad one takes its datagram with it.
bool reassembler::place(datagram& d, const facts& of, const piece& fragment) noexcept {
    const std::uint32_t first_block = fragment.offset / 8;
    const std::uint32_t end_block = (fragment.end() + 7) / 8;
    const bool last = !of.more;
    // A second end is one or the other: beyond the first, or before what the first has brought.
    if (fragment.end() > d.size || (last && fragment.end() < d.furthest)) {
        ++statistics_.inconsistent;
        kill(d);
        return false;
    }
    if (d.blocks.any(first_block, end_block)) {
        // A partly filled last block is at the datagram's end, which the checks above have compared.
        if (d.blocks.all(first_block, end_block) && fragment.end() <= d.furthest &&
            fragment.equals(d.payload() + fragment.offset)) {
            ++statistics_.duplicates;
        } else {
            ++statistics_.overlaps;
            kill(d);
        }
        return false;
    }
    fragment.copy_to(d.payload() + fragment.offset);
    d.to_group |= of.to_group;
    d.codepoints |= static_cast<std::uint8_t>(1u << of.ecn);
    d.blocks.set(first_block, end_block);
    d.received += fragment.size();
    d.furthest = std::max(d.furthest, fragment.end());
    if (last) d.size = fragment.end();
    if (fragment.offset == 0) {
        d.header_size = static_cast<std::uint32_t>(of.header.size());
        d.first_size = fragment.size();
        std::byte* const header = d.payload() - d.header_size;
        std::memcpy(header, of.header.data(), d.header_size);
        if (!of.is_v4()) store_u8(header + of.protocol_at, static_cast<std::uint8_t>(of.protocol));
    }
    return true;
}

namespace {
constexpr std::uint8_t marked = 1u << static_cast<unsigned>(wire::ecn_codepoint::ce);
constexpr std::uint8_t unmarkable = 1u << static_cast<unsigned>(wire::ecn_codepoint::not_ect);
} // namespace

/// RFC 3168 5.3: a mark must not get lost, nor stand on what has a piece that could not be marked.
bool reassembler::marks_agree(const datagram& d) noexcept { return (d.codepoints & marked) == 0 || (d.codepoints & unmarkable) == 0; }

/// Fragment 0's header becomes the whole datagram's, and the frame goes to the caller.
buffer reassembler::finish(datagram& d) noexcept {
    std::byte* header = d.payload() - d.header_size;
    std::uint32_t total = d.header_size + d.size;
    const bool congested = (d.codepoints & marked) != 0;
    if (d.source.is_v4()) {
        if (congested) header[1] |= std::byte{0x03};
        total = std::min(total, max_datagram);
        store_be16(header + 2, static_cast<std::uint16_t>(total));
        store_be16(header + 6, 0);
        store_be16(header + wire::ipv4_header::checksum_offset, 0);
        store_be16(header + wire::ipv4_header::checksum_offset, wire::internet_checksum({header, d.header_size}));
    } else {
        total = std::min<std::uint32_t>(total, max_datagram + wire::ipv6_header::size);
        if (congested) header[1] |= std::byte{0x30};
        store_be16(header + 4, static_cast<std::uint16_t>(total - wire::ipv6_header::size));
    }
    frame* storage = d.storage;
    d.storage = nullptr;
    return {*storage, header, total};
}

time_point reassembler::next_timeout() const noexcept {
    auto& busy = const_cast<intrusive_list<datagram>&>(busy_); // front() is not const; nothing is changed here
    return busy.empty() ? never : busy.front().deadline;
}

bool reassembler::expire(time_point now, expired_datagram& out) noexcept {
    while (!busy_.empty() && busy_.front().dead && busy_.front().deadline <= now) drop(busy_.front());
    if (next_timeout() > now) return false;
    datagram& d = busy_.front();
    out.quote = {};
    if (d.header_size != 0 && !d.to_group) {
        out.quote = buffer(*d.storage, d.payload() - d.header_size, d.header_size + d.first_size);
        d.storage = nullptr;
    }
    ++statistics_.timed_out;
    drop(d);
    return true;
}

void reassembler::check_invariants() const {
    auto& self = const_cast<reassembler&>(*this);
    std::size_t busy = 0, dead = 0;
    time_point previous{};
    self.busy_.for_each([&](datagram& d) {
        ++busy;
        dead += d.dead ? 1 : 0;
        CW_ASSERT((d.storage != nullptr) != d.dead, "a datagram in progress has a frame, and a dead one none");
        CW_ASSERT(d.deadline >= previous, "the oldest datagram stands first");
        CW_ASSERT(d.furthest <= d.size && d.received <= d.furthest, "no byte beyond the end, none counted twice");
        CW_ASSERT(d.dead || d.received < d.size || d.header_size == 0, "a complete datagram has been given away");
        CW_ASSERT(payload_at + d.furthest <= pool_.frame_size(), "inside its frame");
        previous = d.deadline;
    });
    CW_ASSERT(dead == dead_, "the dead are counted");
    CW_ASSERT(busy == size_ && size_ + self.free_.count() == options_.max_datagrams, "every slot is free or busy");
}

} // namespace corewire
