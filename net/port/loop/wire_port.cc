#include <corewire/net/port/loop/wire_port.hh>

#include <corewire/reactor/base/sleep_fence.hh>
#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <cerrno>
#include <sys/eventfd.h>
#include <system_error>

namespace corewire {

namespace {

constexpr std::uint32_t borrowed_limit = 4096; ///< frames of the other end that one end may hold
/// Frames that a call takes from another core: what is answered a few at a time keeps both cores busy, though the window be a short one.
constexpr std::size_t between_cores = 6;

std::uint32_t frame_size_for(const wire_options& options) {
    const std::uint32_t needed = frame_headroom + 64 + options.mtu;
    return needed <= frame_pool::default_frame_size ? frame_pool::default_frame_size : (needed + 4095) / 4096 * 4096;
}

/// Locally administered, distinct for every end of every wire of the process.
mac_address next_mac() {
    static std::atomic<std::uint32_t> counter{0};
    return mac_address(std::uint64_t{0x02c04e} << 24 | (++counter & 0xffffff));
}

} // namespace

wire_link::wire_link(const wire_options& options)
    : pools_{frame_pool(options.frames, frame_size_for(options)), frame_pool(options.frames, frame_size_for(options))} {
    for (sleeper& s : sleepers_) {
        s.wake.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
        if (!s.wake) throw std::system_error(errno, std::generic_category(), "eventfd for a wire port");
    }
}

wire_link::ends wire_link::make(const wire_options& options) {
    std::shared_ptr<wire_link> link{new wire_link(options)};
    return {std::unique_ptr<wire_port>{new wire_port(link, 0, options)},
            std::unique_ptr<wire_port>{new wire_port(link, 1, options)}};
}

wire_port::wire_port(std::shared_ptr<wire_link> link, unsigned end, const wire_options& options)
    : link_(std::move(link)), end_(end), relay_(options.relay), homes_known_(!options.hand_over),
      out_(&link_->packets_[end]), in_(&link_->packets_[1 - end]),
      tokens_out_(&link_->tokens_[end]), tokens_in_(&link_->tokens_[1 - end]),
      borrowed_handles_(std::make_unique<frame[]>(borrowed_limit)) {
    pool_ = &link_->pools_[end];
    capabilities_.gather = true;
    if (options.vouch_for_checksums) {
        vouched_ = static_cast<std::uint8_t>(offload::ipv4_checksum_good | offload::l4_checksum_good);
    }
    capabilities_.transmit_checksum = capabilities_.receive_checksum = options.vouch_for_checksums;
    mtu_ = options.mtu;
    mac_ = next_mac();
    name_ = end == 0 ? "wire/0" : "wire/1";

    borrowed_.port = this;
    borrowed_.writable = false;
    borrowed_.recycle = &wire_port::give_back;
    for (std::uint32_t i = 0; i < borrowed_limit; ++i) {
        frame& handle = borrowed_handles_[i];
        handle.owner = &borrowed_;
        handle.next_free = borrowed_.free_list;
        borrowed_.free_list = &handle;
    }
    borrowed_.free_count = borrowed_limit;
    const std::uint32_t unread = options.held_unread != 0 ? options.held_unread : options.frames / 2;
    borrowed_.reserve = borrowed_limit - std::min(unread, borrowed_limit / 4 * 3);
    tokens_due_.reserve(borrowed_limit);
}

wire_port::~wire_port() { send_tokens_home(); }

void wire_port::keep(const std::shared_ptr<const void>& memory) { link_->kept_[end_].push_back(memory); }

int wire_port::wake_fd() const { return link_->sleepers_[end_].wake.get(); }

// ---- receive ----

std::size_t wire_port::receive(std::span<packet> out) {
    // Most turns of an idle end, and every second turn of a busy one, find nothing: those are a few loads.
    const wire_detail::line* first = in_->peek();
    if (first == nullptr) [[likely]] return tokens_about_ ? receive_burst(nullptr, out) : 0;
    if (!one_reactor_) return receive_burst(first, out.first(std::min(out.size(), between_cores)));
    // A frame that comes alone, as answers do, is taken here: no call, so nothing to save on the stack.
    if (first->pieces != wire_detail::handed_over || out.empty() ||
        out.front().head.underlying_frame() != nullptr) [[unlikely]] {
        return receive_here(first, out);
    }
    take_over(*first, out.front());
    in_->pop(*first);
    ++statistics_.received_packets;
    const wire_detail::line* const next = in_->peek();
    if (next == nullptr && !tokens_about_) [[likely]] return 1;
    return receive_more_here(next, out);
}

/// Behind the first.
std::size_t wire_port::receive_more_here(const wire_detail::line* next, std::span<packet> out) noexcept {
    return 1 + receive_here(next, out.subspan(1));
}

/// Frames that change hands, from the front; the first record of another kind, and what belongs to lent frames, is
/// receive_burst()'s.
[[gnu::noinline]] std::size_t wire_port::receive_here(const wire_detail::line* next, std::span<packet> out) noexcept {
    packet* at = out.data();
    packet* const end = at + out.size();
    for (; next != nullptr && next->pieces == wire_detail::handed_over && at != end; next = in_->peek(), ++at) {
        take_over(*next, *at);
        in_->pop(*next);
    }
    const auto n = static_cast<std::size_t>(at - out.data());
    statistics_.received_packets += n;
    if ((next == nullptr || at == end) && !tokens_about_) [[likely]] return n;
    return n + receive_burst(next, out.subspan(n));
}

inline void wire_port::take_over(const wire_detail::line& first, packet& out) noexcept {
    const wire_detail::piece whole = in_->handed_over_piece(first);
    out.flags = static_cast<offload>(first.flags);
    out.head.fill(*whole.token, const_cast<std::byte*>(whole.bytes), whole.size);
    statistics_.received_bytes += whole.size;
}

std::size_t wire_port::receive_burst(const wire_detail::line* next, std::span<packet> out) noexcept {
    if (!homes_known_) [[unlikely]] learn_home();
    packet* const begin = out.data();
    packet* at = begin;
    packet* const end = begin + out.size();
    for (; next != nullptr && at != end; next = in_->peek()) {
        const wire_detail::line* first = next;
        in_->prefetch_rest();
        if (receive_record(*first, *at)) ++at;
        in_->pop(*first);
    }
    const auto n = static_cast<std::size_t>(at - begin);
    statistics_.received_packets += n;
    if (lent_ != 0) take_tokens_in();
    if (!tokens_due_.empty() && (n == 0 || tokens_due_.size() >= 4 * wire_detail::token_ring::per_line)) {
        send_tokens_home();
    }
    tokens_about_ = lent_ != 0 || !tokens_due_.empty();
    return n;
}

/// `out` is empty. False: no frame to receive into; dropped and counted.
inline bool wire_port::receive_record(const wire_detail::line& first, packet& out) noexcept {
    out.flags = static_cast<offload>(first.flags);
    if (first.pieces == wire_detail::handed_over) [[unlikely]] { // this end does not know yet
        take_over(first, out);
        return true;
    }
    if (first.pieces != 0) [[unlikely]] return receive_pieces(first, out);
    frame* f = pool_->allocate();
    if (f == nullptr) [[unlikely]] {
        ++statistics_.receive_no_buffer;
        return false;
    }
    std::byte* at = f->bytes + frame_headroom;
    in_->copy_whole_lines(first, at);
    out.head.fill(*f, at, first.inline_size);
    statistics_.received_bytes += first.inline_size;
    return true;
}

/// Whether both ends are polled by one reactor shows once packets have gone both ways.
void wire_port::learn_home() noexcept {
    link_->homes_[end_].store(reactor::current_or_null(), std::memory_order_relaxed);
    const reactor* const far = link_->homes_[1 - end_].load(std::memory_order_relaxed);
    if (far == nullptr) return;
    homes_known_ = true;
    one_reactor_ = far == reactor::current_or_null();
    hands_over_ = one_reactor_ && !relay_;
}

bool wire_port::receive_pieces(const wire_detail::line& first, packet& out) noexcept {
    wire_detail::piece pieces[wire_detail::max_pieces];
    const std::uint32_t count = first.pieces;
    std::memcpy(pieces, first.bytes, count * sizeof(wire_detail::piece));
    const auto drop = [&](std::uint32_t from) {
        ++statistics_.receive_no_buffer;
        for (std::uint32_t i = from; i < count; ++i) tokens_due_.push_back(pieces[i].token);
        tokens_about_ = true;
        out.head.clear();
        out.body.clear();
        return false;
    };
    buffer* next = &out.head;
    if (first.inline_size != 0) {
        frame* f = pool_->allocate();
        if (f == nullptr) [[unlikely]] return drop(0);
        in_->copy_inline(first, f->bytes + frame_headroom);
        out.head.fill(*f, f->bytes + frame_headroom, first.inline_size);
        next = &out.body;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
        *next = borrow(pieces[i]);
        if (!*next) [[unlikely]] return drop(i);
        next = &out.body;
    }
    statistics_.received_bytes += out.size();
    return true;
}

/// A local handle for bytes of the other end.
buffer wire_port::borrow(const wire_detail::piece& p) noexcept {
    // The list of tokens due must have room for every handle and every refused piece.
    frame* handle = borrowed_.free_list;
    if (handle == nullptr || tokens_due_.size() + 1 >= tokens_due_.capacity()) return {};
    borrowed_.free_list = handle->next_free;
    --borrowed_.free_count;
    handle->bytes = const_cast<std::byte*>(p.bytes);
    handle->capacity = p.size;
    handle->references = 1;
    handle->token = reinterpret_cast<std::uint64_t>(p.token);
    return {*handle, handle->bytes, p.size};
}

void wire_port::give_back(frame_owner& owner, frame& handle) noexcept {
    wire_port& self = *static_cast<borrowed_frames&>(owner).port;
    self.tokens_due_.push_back(reinterpret_cast<frame*>(handle.token));
    self.tokens_about_ = true;
    handle.next_free = owner.free_list;
    owner.free_list = &handle;
    ++owner.free_count;
}

void wire_port::send_tokens_home() noexcept {
    // From the back: whichever frame was let go last is the warmest one.
    while (!tokens_due_.empty()) {
        const auto n = std::min<std::size_t>(tokens_due_.size(), wire_detail::token_ring::per_line);
        if (!tokens_out_->write(tokens_due_.data() + tokens_due_.size() - n, static_cast<std::uint32_t>(n))) return;
        tokens_due_.resize(tokens_due_.size() - n);
    }
}

void wire_port::take_tokens_in() noexcept {
    while (tokens_in_->read([this](frame& f) {
        --lent_;
        release(f);
    })) {
    }
}

// ---- transmit ----

std::size_t wire_port::transmit(std::span<packet> burst) {
    if (!hands_over_) return one_reactor_ ? transmit_here(burst) : transmit_far(burst);
    // One that goes alone: as in receive().
    if (burst.size() != 1 || !is_whole(burst.front()) || !out_->room_for(1)) [[unlikely]] return transmit_here(burst);
    hand_over_whole(burst.front(), vouched_);
    ++statistics_.transmitted_packets;
    return 1;
}

/// Both ends are one reactor's, which is awake.
[[gnu::noinline]] std::size_t wire_port::transmit_here(std::span<packet> burst) noexcept {
    packet* next = burst.data();
    packet* const end = next + burst.size();
    while (next != end && hand_over(*next)) ++next;
    const auto sent = static_cast<std::size_t>(next - burst.data());
    statistics_.transmitted_packets += sent;
    if (next != end) [[unlikely]] {
        ++statistics_.transmit_full;
        if (lent_ != 0) take_tokens_in();
    }
    return sent;
}

[[gnu::noinline]] std::size_t wire_port::transmit_far(std::span<packet> burst) noexcept {
    packet* next = burst.data();
    packet* const end = next + burst.size();
    while (next != end && send_one(*next)) ++next;
    const auto sent = static_cast<std::size_t>(next - burst.data());
    statistics_.transmitted_packets += sent;
    if (next != end) [[unlikely]] {
        ++statistics_.transmit_full;
        if (lent_ != 0) take_tokens_in();
        if (sent == 0) return 0;
    }
    wake_peer_if_asleep();
    return sent;
}

/// The frame of a packet in one piece goes as it is; one in two pieces is lent, as to another reactor.
inline bool wire_port::hand_over(packet& p) noexcept {
    if (!is_whole(p)) [[unlikely]] return send_pieces(p);
    if (!out_->room_for(1)) [[unlikely]] return false;
    hand_over_whole(p, flags_of(p));
    return true;
}

[[gnu::always_inline]] inline bool wire_port::is_whole(const packet& p) noexcept { return p.body.empty() && !p.head.empty(); }

/// There is room for it.
[[gnu::always_inline]] inline void wire_port::hand_over_whole(packet& p, std::uint8_t flags) noexcept {
    const std::byte* const bytes = p.head.data();
    const std::uint32_t size = p.head.size();
    statistics_.transmitted_bytes += size;
    out_->write_handed_over(bytes, p.head.detach(), size, flags);
}

inline bool wire_port::send_one(packet& p) noexcept {
    frame* const f = p.head.underlying_frame();
    const std::uint32_t head_size = p.head.size();
    const std::byte* const bytes = p.head.data();
    // In the ring as whole lines, so the last of them must lie inside the frame.
    if (head_size - 1 >= wire_detail::inline_limit || !p.body.empty() ||
        static_cast<std::size_t>(f->end() - bytes) < head_size + wire_detail::line_payload) [[unlikely]] {
        return send_pieces(p);
    }
    const std::uint32_t lines = wire_detail::packet_ring::lines_needed(head_size, 0);
    if (!out_->room_for(lines)) [[unlikely]] return false;
    out_->write_whole_lines(bytes, head_size, lines, flags_of(p));
    statistics_.transmitted_bytes += head_size;
    p.head.clear();
    return true;
}

/// Large packets, and heads that end where their frame does: what does not fit into the ring is lent.
bool wire_port::send_pieces(packet& p) noexcept {
    if (p.size() == 0) return true; // nothing: there is no record for it
    wire_detail::piece pieces[wire_detail::max_pieces];
    const bool head_inline = p.head.size() <= wire_detail::inline_limit;
    const std::uint32_t piece_count = (head_inline ? 0u : 1u) + (p.body.empty() ? 0u : 1u);
    const std::uint32_t inline_size = head_inline ? p.head.size() : 0;
    if (!out_->room_for(wire_detail::packet_ring::lines_needed(inline_size, piece_count))) return false;
    statistics_.transmitted_bytes += p.size();
    std::uint32_t i = 0;
    const auto lend = [&](buffer& b) {
        const std::byte* bytes = b.data();
        const std::uint32_t size = b.size();
        pieces[i++] = {bytes, b.detach(), size, 0};
        ++lent_;
        tokens_about_ = true;
    };
    if (!head_inline) lend(p.head);
    if (!p.body.empty()) lend(p.body);
    out_->write(head_inline ? p.head.bytes() : byte_span{}, pieces, piece_count, flags_of(p));
    p.head.clear();
    p.body.clear();
    return true;
}

/// A checksum that was left to the port is vouched for; so is one that the stack computed, if the ends vouch at all.
inline std::uint8_t wire_port::flags_of(const packet& p) const noexcept {
    if (relay_) return static_cast<std::uint8_t>(p.flags);
    return vouched_;
}

// ---- sleep ----

void wire_port::wake_peer_if_asleep() noexcept {
    wire_link::sleeper& peer = link_->sleepers_[1 - end_];
    sleep_fence::producer();
    if (!peer.asleep.load(std::memory_order_relaxed)) [[likely]] return;
    if (!peer.asleep.exchange(false, std::memory_order_relaxed)) return; // somebody woke it already
    const std::uint64_t one = 1;
    static_cast<void>(!::write(peer.wake.get(), &one, sizeof one));
}

bool wire_port::prepare_sleep() {
    send_tokens_home();
    std::atomic<bool>& asleep = link_->sleepers_[end_].asleep;
    asleep.store(true, std::memory_order_relaxed);
    sleep_fence::sleeper();
    if (in_->peek() == nullptr) return true;
    asleep.store(false, std::memory_order_relaxed);
    return false;
}

void wire_port::finish_sleep() {
    wire_link::sleeper& self = link_->sleepers_[end_];
    self.asleep.store(false, std::memory_order_relaxed);
    std::uint64_t count;
    static_cast<void>(!::read(self.wake.get(), &count, sizeof count));
}

} // namespace corewire
