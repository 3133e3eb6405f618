#include <corewire/net/wire/tcp_options.hh>

#include <cstring>

namespace corewire::wire {

namespace {

// IANA "TCP Option Kind Numbers".
enum kind : std::uint8_t {
    kind_end = 0,
    kind_no_operation = 1,
    kind_mss = 2,
    kind_window_scale = 3,
    kind_sack_permitted = 4,
    kind_sack = 5,
    kind_timestamps = 8,
    kind_user_timeout = 28,
    kind_fast_open = 34,
    kind_accurate_ecn_0 = 172,
    kind_accurate_ecn_1 = 174,
    kind_experiment = 254,
};
/// RFC 6994: what an experiment calls itself, the first two bytes behind the length.
constexpr std::uint16_t experiment_fast_open = 0xf989;

/// RFC 9768 3.2.3: whole fields that fit count, whatever the length.
accurate_ecn_option accurate_ecn_of(std::uint8_t kind, byte_span data) noexcept {
    const auto fields = static_cast<std::uint8_t>(std::min<std::size_t>(data.size() / 3, 3));
    accurate_ecn_option o{.order_1 = kind == kind_accurate_ecn_1, .fields = fields};
    for (unsigned i = 0; i < fields; ++i) {
        const std::byte* const at = data.data() + 3 * i;
        o.bytes[i] = std::uint32_t{load_be16(at)} << 8 | load_u8(at + 2);
    }
    return o;
}

/// RFC 7413 4.1.1: empty, or an even number of bytes from 4 to 16; else the option is ignored.
void take_fast_open(byte_span cookie, bool experimental, tcp_options& out) noexcept {
    const std::size_t size = cookie.size();
    if (size == 0 || (size >= 4 && size <= tcp_options::max_cookie_size && size % 2 == 0)) out.set_fast_open(cookie, experimental);
}

/// One option, `data` being what follows its kind and length. A length that isn't the kind's leaves `out` as it is.
void take_option(std::uint8_t kind, byte_span data, tcp_options& out) noexcept {
    const std::byte* p = data.data();
    switch (kind) {
    case kind_mss:
        if (data.size() == 2) out.set_mss(load_be16(p));
        break;
    case kind_window_scale:
        // RFC 7323 2.3 (MUST): a shift above 14 counts as 14.
        if (data.size() == 1) out.set_window_scale(load_u8(p));
        break;
    case kind_sack_permitted:
        if (data.empty()) out.set_sack_permitted();
        break;
    case kind_timestamps:
        if (data.size() == 8) out.set_timestamps(load_be32(p), load_be32(p + 4));
        break;
    case kind_sack:
        if (data.empty() || data.size() % 8 != 0 || data.size() / 8 > tcp_options::max_sack_blocks) break;
        out.sack_count = 0;
        for (std::size_t i = 0; i < data.size(); i += 8)
            out.add_sack_block({load_be32(p + i), load_be32(p + i + 4)});
        break;
    case kind_user_timeout:
        if (data.size() == 2) out.set_user_timeout(load_be16(p));
        break;
    case kind_fast_open: take_fast_open(data, false, out); break;
    case kind_experiment:
        if (data.size() >= 2 && load_be16(p) == experiment_fast_open) take_fast_open(data.subspan(2), true, out);
        break;
    case kind_accurate_ecn_0:
    case kind_accurate_ecn_1: out.set_accurate_ecn(accurate_ecn_of(kind, data)); break;
    default:
        break; // RFC 9293 3.1 (MUST-6): an option of unknown kind is ignored without error
    }
}

std::size_t fast_open_size(const tcp_options& o) noexcept { return (o.fast_open_is_experimental ? 4u : 2u) + o.cookie_size; }

/// Appends to the 40 bytes; the callers below never give it more.
class writer {
public:
    explicit writer(std::byte* out) noexcept : out_(out) {}
    std::size_t size() const noexcept { return size_; }
    void u8(unsigned v) noexcept { out_[size_++] = static_cast<std::byte>(v); }
    void u16(std::uint16_t v) noexcept {
        store_be16(out_ + size_, v);
        size_ += 2;
    }
    void u32(std::uint32_t v) noexcept {
        store_be32(out_ + size_, v);
        size_ += 4;
    }
    void bytes(byte_span b) noexcept {
        if (!b.empty()) std::memcpy(out_ + size_, b.data(), b.size());
        size_ += b.size();
    }
    /// No-operations until the size is `remainder` modulo 4.
    void align(std::size_t remainder) noexcept {
        while (size_ % 4 != remainder)
            u8(kind_no_operation);
    }

    void mss(const tcp_options& o) noexcept {
        u8(kind_mss);
        u8(4);
        u16(o.mss);
    }
    void window_scale(const tcp_options& o) noexcept {
        u8(kind_window_scale);
        u8(3);
        u8(o.window_scale);
    }
    void sack_permitted() noexcept {
        u8(kind_sack_permitted);
        u8(2);
    }
    void timestamps(const tcp_options& o) noexcept {
        u8(kind_timestamps);
        u8(10);
        u32(o.timestamp_value);
        u32(o.timestamp_echo);
    }
    /// As many blocks as fit into what is left, less `reserved` bytes; no option at all where that is none.
    void sack(const tcp_options& o, std::size_t reserved) noexcept {
        std::size_t end = size_;
        while (end % 4 != 2)
            ++end;
        const std::size_t used = end + 2 + reserved;
        const std::size_t room = used < tcp_options::max_size ? (tcp_options::max_size - used) / 8 : 0;
        const std::size_t count = std::min<std::size_t>(o.sack_count, room);
        if (count == 0) return;
        align(2);
        u8(kind_sack);
        u8(static_cast<unsigned>(2 + 8 * count));
        for (std::size_t i = 0; i < count; ++i) {
            u32(o.sack[i].left);
            u32(o.sack[i].right);
        }
    }
    void fast_open(const tcp_options& o) noexcept {
        u8(o.fast_open_is_experimental ? kind_experiment : kind_fast_open);
        u8(static_cast<unsigned>(fast_open_size(o)));
        if (o.fast_open_is_experimental) u16(experiment_fast_open);
        bytes(o.fast_open_cookie());
    }
    void accurate_ecn(const tcp_options& o, std::uint8_t fields) noexcept {
        accurate_ecn_option counters = o.accurate_ecn;
        counters.fields = fields;
        size_ += counters.emit(out_ + size_);
    }
    void user_timeout(const tcp_options& o) noexcept {
        u8(kind_user_timeout);
        u8(4);
        u16(o.user_timeout);
    }

private:
    std::byte* out_;
    std::size_t size_ = 0;
};

/// Bytes to keep free behind SACK blocks for a cookie and a user timeout, with padding.
std::size_t reserve_behind_sack(const tcp_options& o) noexcept {
    return (o.has_fast_open() ? (fast_open_size(o) + 3u) / 4u * 4u : 0u) + (o.has_user_timeout() ? 4u : 0u);
}

/// A user timeout goes where there is room for it: nobody needs it.
bool user_timeout_fits(const writer& w, const tcp_options& o) noexcept {
    return o.has_user_timeout() && w.size() + 4 <= tcp_options::max_size;
}

/// AccECN's counters give way to the others: as many as there is room for; beside SACK blocks, whose number varies, at the end.
bool accurate_ecn_is_early(const tcp_options& o) noexcept { return o.has_accurate_ecn() && !o.has_sack(); }
void early_accurate_ecn(writer& w, const tcp_options& o) noexcept {
    if (!accurate_ecn_is_early(o)) return;
    const std::size_t bare_sack = o.has_sack_permitted() && !o.has_timestamps() ? 4 : 0, scale = o.has_window_scale() ? 4 : 0;
    const std::size_t used = w.size() + bare_sack + scale + reserve_behind_sack(o);
    for (std::uint8_t fields = o.accurate_ecn.fields;; --fields) {
        if (used + (accurate_ecn_option::size_of(fields) + 3) / 4 * 4 <= tcp_options::max_size) return w.accurate_ecn(o, fields);
        if (fields == 0) return;
    }
}
void late_accurate_ecn(writer& w, const tcp_options& o) noexcept {
    if (!o.has_accurate_ecn() || accurate_ecn_is_early(o)) return;
    if (w.size() + accurate_ecn_option::size_of(o.accurate_ecn.fields) <= tcp_options::max_size) w.accurate_ecn(o, o.accurate_ecn.fields);
}

void write_linux(writer& w, const tcp_options& o) noexcept {
    if (o.has_mss()) w.mss(o);
    if (o.has_timestamps()) {
        if (o.has_sack_permitted()) w.sack_permitted();
        w.align(2);
        w.timestamps(o);
    }
    early_accurate_ecn(w, o);
    if (o.has_sack_permitted() && !o.has_timestamps()) {
        w.align(2);
        w.sack_permitted();
    }
    if (o.has_window_scale()) {
        w.align(1);
        w.window_scale(o);
    }
    if (o.has_sack()) w.sack(o, reserve_behind_sack(o));
    if (o.has_fast_open()) w.fast_open(o);
    late_accurate_ecn(w, o);
    if (user_timeout_fits(w, o)) w.user_timeout(o);
    w.align(0);
}

void write_freebsd(writer& w, const tcp_options& o) noexcept {
    if (o.has_mss()) w.mss(o);
    if (o.has_window_scale()) {
        w.align(1);
        w.window_scale(o);
    }
    if (o.has_sack_permitted()) w.sack_permitted();
    if (o.has_timestamps()) {
        w.align(2);
        w.timestamps(o);
    }
    if (o.has_sack()) w.sack(o, reserve_behind_sack(o));
    early_accurate_ecn(w, o);
    if (o.has_fast_open()) w.fast_open(o);
    late_accurate_ecn(w, o);
    if (user_timeout_fits(w, o)) w.user_timeout(o);
    while (w.size() % 4 != 0)
        w.u8(kind_end);
}

} // namespace

std::size_t accurate_ecn_option::emit(std::byte* out) const noexcept {
    store_be16(out, static_cast<std::uint16_t>((order_1 ? kind_accurate_ecn_1 : kind_accurate_ecn_0) << 8 | size_of(fields)));
    for (unsigned i = 0; i < fields; ++i) {
        store_be16(out + 2 + 3 * i, static_cast<std::uint16_t>(bytes[i] >> 8));
        store_u8(out + 4 + 3 * i, static_cast<std::uint8_t>(bytes[i]));
    }
    return size_of(fields);
}

void tcp_options::set_fast_open(byte_span bytes, bool experimental) noexcept {
    CW_ASSERT(bytes.empty() || (bytes.size() >= 4 && bytes.size() <= max_cookie_size && bytes.size() % 2 == 0),
              "a Fast Open cookie of an impossible size");
    present |= tcp_option_set::fast_open;
    fast_open_is_experimental = experimental;
    cookie_size = static_cast<std::uint8_t>(bytes.size());
    if (!bytes.empty()) std::memcpy(cookie.data(), bytes.data(), bytes.size());
}

parse_error tcp_options::parse_any(byte_span options, tcp_options& out) noexcept {
    while (!options.empty()) {
        const std::uint8_t kind = load_u8(options.data());
        if (kind == kind_end) break;
        if (kind == kind_no_operation) {
            options = options.subspan(1);
            continue;
        }
        const std::size_t length = options.size() < 2 ? 0 : load_u8(options.data() + 1);
        if (length < 2 || length > options.size()) return parse_error::bad_option;
        take_option(kind, options.subspan(2, length - 2), out);
        options = options.subspan(length);
    }
    return parse_error::none;
}

std::size_t tcp_options::emit_any(mutable_byte_span out, option_order order) const noexcept {
    std::byte bytes[max_size];
    writer w(bytes);
    if (order == option_order::freebsd) {
        write_freebsd(w, *this);
    } else {
        write_linux(w, *this);
    }
    CW_ASSERT(out.size() >= w.size(), "no room for TCP options");
    std::memcpy(out.data(), bytes, w.size());
    return w.size();
}

bool operator==(const tcp_options& a, const tcp_options& b) noexcept {
    const auto same = [&](tcp_option_set option, bool equal) { return !a.has(option) || equal; };
    return a.present == b.present && same(tcp_option_set::mss, a.mss == b.mss) &&
           same(tcp_option_set::window_scale, a.window_scale == b.window_scale) &&
           same(tcp_option_set::timestamps,
                a.timestamp_value == b.timestamp_value && a.timestamp_echo == b.timestamp_echo) &&
           same(tcp_option_set::sack, a.sack_count == b.sack_count &&
                                          std::equal(a.sack.begin(), a.sack.begin() + a.sack_count, b.sack.begin())) &&
           same(tcp_option_set::user_timeout, a.user_timeout == b.user_timeout) &&
           same(tcp_option_set::accurate_ecn, a.accurate_ecn == b.accurate_ecn) &&
           same(tcp_option_set::fast_open, a.fast_open_is_experimental == b.fast_open_is_experimental &&
                                               std::ranges::equal(a.fast_open_cookie(), b.fast_open_cookie()));
}

} // namespace corewire::wire
