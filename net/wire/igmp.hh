// IGMP: version 2 (RFC 2236) reports, leaves and queries, version 3 (RFC 3376) queries and reports.
// Views and cursors borrow the message's bytes for the length of a call; the structs are plain values.
#pragma once

#include <corewire/net/wire/address.hh>
#include <corewire/net/wire/checksum.hh>
#include <corewire/net/wire/parse_error.hh>
#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/base/bytes.hh>

#include <cstddef>
#include <cstdint>
#include <span>

namespace corewire::wire {

/// Any octet is a valid value of the enum; unknown ones are ignored (RFC 3376 4).
enum class igmp_type : std::uint8_t {
    query = 0x11,
    v1_report = 0x12,
    v2_report = 0x16,
    v2_leave = 0x17,
    v3_report = 0x22,
};

/// RFC 3376 4.2.12.
enum class igmp_record_type : std::uint8_t {
    is_include = 1,
    is_exclude = 2,
    to_include = 3,
    to_exclude = 4, ///< with no sources: "I join"; to_include with none: "I leave"
    allow_new_sources = 5,
    block_old_sources = 6,
};

/// One group record of a version 3 report, as it stands in the message.
struct igmp_record_view {
    igmp_record_type type = igmp_record_type::is_include;
    ipv4_address group;
    byte_span sources; ///< 4 bytes each

    std::size_t source_count() const noexcept { return sources.size() / ipv4_address::size; }
    ipv4_address source(std::size_t i) const noexcept {
        return ipv4_address::load(sources.data() + i * ipv4_address::size);
    }
};

/// Walks over the group records of a version 3 report that igmp_view::parse() has checked.
class igmp_record_cursor {
public:
    igmp_record_cursor() noexcept = default;
    igmp_record_cursor(byte_span records, std::size_t count) noexcept : rest_(records), left_(count) {}

    /// False when no record is left, or the bytes end before one does (then left() is not zero).
    bool next(igmp_record_view& out) noexcept {
        if (left_ == 0 || rest_.size() < fixed_size) return false;
        const std::byte* p = rest_.data();
        const std::size_t sources = load_be16(p + 2) * ipv4_address::size;
        const std::size_t auxiliary = load_u8(p + 1) * std::size_t{4}; // RFC 3376 4.2.6: in 32-bit words, to be ignored
        if (rest_.size() < fixed_size + sources + auxiliary) return false;
        out = {static_cast<igmp_record_type>(load_u8(p)), ipv4_address::load(p + 4),
               rest_.subspan(fixed_size, sources)};
        rest_ = rest_.subspan(fixed_size + sources + auxiliary);
        --left_;
        return true;
    }
    std::size_t left() const noexcept { return left_; } ///< records not yet returned

    static constexpr std::size_t fixed_size = 8; ///< bytes of a record without its sources

private:
    byte_span rest_;
    std::size_t left_ = 0;
};

class igmp_view {
public:
    static constexpr std::size_t min_size = 8; ///< bytes

    /// `message`: the payload of an IPv4 datagram. Checks that the sources of a version 3 query and the records of a
    /// version 3 report are there. The checksum is not looked at: see checksum_ok().
    [[nodiscard]] static parse_error parse(byte_span message, igmp_view& out) noexcept {
        if (message.size() < min_size) return parse_error::truncated;
        igmp_view v;
        v.message_ = message;
        if (v.is_v3_query() && message.size() < v3_query_size + v.source_count() * ipv4_address::size) {
            return parse_error::truncated;
        }
        if (v.type() == igmp_type::v3_report) {
            igmp_record_cursor cursor = v.records();
            for (igmp_record_view record; cursor.next(record);) {
            }
            if (cursor.left() != 0) return parse_error::truncated;
        }
        out = v;
        return parse_error::none;
    }

    igmp_type type() const noexcept { return static_cast<igmp_type>(load_u8(message_.data())); }
    /// Of a query: how long a host may wait, in tenths of a second. Zero in a version 1 query (which means 10 s).
    /// RFC 3376 4.1.1: in a version 3 query values from 128 are a small floating-point number.
    std::uint32_t max_response() const noexcept {
        const std::uint32_t code = load_u8(message_.data() + 1);
        return is_v3_query() ? from_code(code) : code;
    }
    std::uint16_t checksum() const noexcept { return load_be16(message_.data() + 2); }
    /// Over the whole IP payload (RFC 2236 2.3).
    bool checksum_ok() const noexcept { return wire::checksum_ok(message_); }
    /// Zero in a general query. Not in a version 3 report.
    ipv4_address group() const noexcept { return ipv4_address::load(message_.data() + 4); }

    /// RFC 3376 7.1: a query of at least 12 octets.
    bool is_v3_query() const noexcept { return type() == igmp_type::query && message_.size() >= v3_query_size; }
    // The rest of a version 3 query:
    bool suppress_router_processing() const noexcept { return (load_u8(message_.data() + 8) & 8) != 0; } ///< the S flag
    std::uint8_t robustness() const noexcept { return load_u8(message_.data() + 8) & 7; }                ///< QRV
    std::uint32_t query_interval() const noexcept { return from_code(load_u8(message_.data() + 9)); } ///< QQIC, seconds
    std::size_t source_count() const noexcept { return load_be16(message_.data() + 10); }
    ipv4_address source(std::size_t i) const noexcept {
        return ipv4_address::load(message_.data() + v3_query_size + i * ipv4_address::size);
    }

    /// Of a version 3 report.
    igmp_record_cursor records() const noexcept { return {message_.subspan(min_size), load_be16(message_.data() + 6)}; }

private:
    static constexpr std::size_t v3_query_size = 12;
    static constexpr std::uint32_t from_code(std::uint32_t code) noexcept {
        return code < 128 ? code : ((code & 15) | 16) << ((code >> 4 & 7) + 3);
    }
    byte_span message_;
};

/// A version 2 message of 8 bytes; with max_response 0 and type query or v1_report, version 1's too.
struct igmp_message {
    igmp_type type = igmp_type::v2_report;
    std::uint8_t max_response = 0; ///< tenths of a second, in a query
    ipv4_address group;

    static constexpr std::size_t size = igmp_view::min_size;

    static igmp_message from(const igmp_view& v) noexcept {
        return {v.type(), static_cast<std::uint8_t>(v.max_response()), v.group()};
    }
    /// Writes 8 bytes, checksum included, to the front of `out`; returns 8. Asserts that they fit.
    std::size_t emit(mutable_byte_span out) const noexcept {
        CW_ASSERT(out.size() >= size, "no room for an IGMP message");
        const std::uint32_t first = static_cast<std::uint32_t>(type) << 24 | std::uint32_t{max_response} << 16;
        store_be32(out.data(), first | internet_sum{}.add_u32(first).add_u32(group.value()).checksum());
        group.store(out.data() + 4);
        return size;
    }

    friend bool operator==(const igmp_message&, const igmp_message&) = default;
};

/// One group record of a version 3 report to be sent. The sources are borrowed.
struct igmp_record {
    igmp_record_type type = igmp_record_type::to_exclude;
    ipv4_address group;
    std::span<const ipv4_address> sources;

    std::size_t size() const noexcept { return igmp_record_cursor::fixed_size + sources.size() * ipv4_address::size; }
};

/// A version 3 report of `records`, checksum included, at the front of `out`; returns the bytes written. Asserts that
/// they fit.
inline std::size_t emit_igmp_v3_report(mutable_byte_span out, std::span<const igmp_record> records) noexcept {
    std::size_t size = igmp_view::min_size;
    for (const igmp_record& r : records)
        size += r.size();
    CW_ASSERT(out.size() >= size, "no room for an IGMP report");
    CW_ASSERT(records.size() <= 0xffff, "too many IGMP records");
    std::byte* p = out.data();
    store_be32(p, static_cast<std::uint32_t>(igmp_type::v3_report) << 24);
    store_be32(p + 4, static_cast<std::uint32_t>(records.size()));
    p += igmp_view::min_size;
    for (const igmp_record& r : records) {
        CW_ASSERT(r.sources.size() <= 0xffff, "too many sources in an IGMP record");
        store_be32(p, static_cast<std::uint32_t>(r.type) << 24 | static_cast<std::uint32_t>(r.sources.size()));
        r.group.store(p + 4);
        p += igmp_record_cursor::fixed_size;
        for (const ipv4_address source : r.sources) {
            source.store(p);
            p += ipv4_address::size;
        }
    }
    store_be16(out.data() + 2, internet_checksum(out.first(size)));
    return size;
}

} // namespace corewire::wire
