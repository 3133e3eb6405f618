#include <corewire/rdma/channel/over_stream.hh>

#include <corewire/rdma/verbs/error.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/task/as_result.hh>

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace corewire::rdma {

namespace {

constexpr std::size_t most_unheard = 64u << 10; ///< bytes, of a peer that was refused

[[noreturn]] void fail(std::errc why, const std::string& what) { throw std::system_error(std::make_error_code(why), what); }

bool same(const ibv_gid& gid, const net_address& address) noexcept {
    const auto* const bytes = reinterpret_cast<const std::byte*>(gid.raw);
    return load_be64(bytes) == address.high() && load_be64(bytes + 8) == address.low();
}

bool is_link_local(const ibv_gid& gid) noexcept { return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80; }

/// Sequence numbers that nobody guesses.
std::uint32_t first_sequence() {
    unsigned char bytes[3];
    random_bytes(bytes);
    return std::uint32_t{bytes[0]} << 16 | std::uint32_t{bytes[1]} << 8 | bytes[2];
}

/// What a peer has sent, without what a terminal would do with it.
std::string printable(std::string text) {
    std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
    return text;
}

/// `theirs`: the peer's introduction, where it has been heard already.
verbs::port_address choose_address(const verbs::device& device, const over_options& o, const net_address& ours,
                                   const rc_introduction* theirs) {
    const std::vector<verbs::port_address> all = device.addresses(o.port);
    const auto rank = [&](const verbs::port_address& a) {
        const bool v2 = a.type == IBV_GID_TYPE_ROCE_V2;
        const bool reaches = theirs != nullptr && theirs->is_reached_from(a.gid, static_cast<std::uint8_t>(a.type));
        const bool alike = reaches && is_link_local(a.gid) == is_link_local(theirs->end.gid);
        return 32 * reaches + 16 * alike + 8 * (v2 && same(a.gid, ours)) + 4 * same(a.gid, ours) + 2 * (v2 && a.is_ipv4()) + v2;
    };
    if (o.gid_index) {
        const auto wanted = std::ranges::find(all, *o.gid_index, &verbs::port_address::index);
        if (wanted != all.end()) return *wanted;
        verbs::fail(verbs::operation::query, ENOENT,
                    fmt::format("find GID index {} on port {} of {}", *o.gid_index, o.port, device.name()));
    }
    if (all.empty()) verbs::fail(verbs::operation::query, ENOENT, fmt::format("find a GID on port {} of {}", o.port, device.name()));
    return *std::ranges::max_element(all, {}, rank); // the first of the best
}

/// Opens each device for a moment where there are several: who minds names one.
std::string choose_device(const verbs::verbs_api& api, const over_options& o, const net_address& ours) {
    if (!o.device.get().empty()) return std::string(o.device.get());
    const std::vector<std::string> all = verbs::device_names(api);
    if (all.size() == 1) return all.front();
    std::string list;
    for (const std::string& name : all) {
        list += (list.empty() ? "" : ", ") + name;
        try {
            const auto addresses = verbs::device::open(name, api).addresses(o.port);
            if (std::ranges::any_of(addresses, [&](const verbs::port_address& a) { return same(a.gid, ours); })) return name;
        } catch (const std::system_error& e) {
            list += fmt::format(" ({})", e.code().message()); // not ours to open, or just removed; another may be the one
        }
    }
    verbs::fail(verbs::operation::open_device, ENODEV,
                fmt::format("choose an RDMA device for a stream at {} (there are: {}; over_options::device names one)", to_string(ours),
                            list.empty() ? "none" : list));
}

/// The stream of a channel: what ends it ends the channel.
class stream_tether final : public rc_tether {
public:
    stream_tether(tcp_stream stream, rc_connection& connection) : stream_(std::move(stream)), connection_(connection) {}
    void start() {
        watching_ = watch();
        watching_.handle().resume();
    }
    void part() noexcept override {
        try {
            stream_.shutdown();
        } catch (const std::system_error&) {
            // the stream has ended already
        }
    }
    socket_address peer_address() const override { return stream_.peer_address(); }

private:
    task<> watch() {
        const auto heard = co_await as_result(stream_.read());
        connection_.peer_left(heard && *heard);
    }

    tcp_stream stream_;
    rc_connection& connection_;
    task<> watching_; ///< before the stream
};

/// One end's part. Stands in its coroutine.
class exchange {
public:
    exchange(context& in, tcp_stream stream, const over_options& options, wait_limits limits)
        : in_(in), stream_(std::move(stream)), options_(options), limits_(limits) {
        limits_.deadline = std::min(limits.deadline, in.owner().now() + options.within);
    }

    task<rc_channel> ask() {
        rc_channel made = begin(nullptr);
        co_await introduce();
        const rc_introduction theirs = co_await hear_introduction();
        co_await connection_->meet(theirs, way_, limits_);
        co_await say(rc_frame::kind::ready, byte_span{});
        open();
        co_return made;
    }
    task<rc_channel> answer() {
        const rc_introduction theirs = co_await hear_introduction();
        rc_channel made = begin(&theirs);
        judge(theirs);
        co_await connection_->meet(theirs, way_, limits_);
        co_await introduce();
        const rc_frame ready = co_await hear();
        if (ready.what != rc_frame::kind::ready) fail(std::errc::protocol_error, "the RDMA peer says who it is twice");
        open();
        co_return made;
    }
    /// Tells the peer why, as far as it still listens. What it has sent is taken in: closing over unread bytes would reset the stream, and
    /// the sentence with it.
    task<> refuse(std::string_view why) {
        const byte_span sentence = std::as_bytes(std::span(why.substr(0, rc_frame::longest_sentence)));
        const auto said = co_await as_result(say(rc_frame::kind::refusal, sentence));
        if (!said) co_return;
        stream_.shutdown();
        for (std::size_t heard = 0; heard < most_unheard;) {
            const auto more = co_await as_result(stream_.read(limits_));
            if (!more || !*more) co_return;
            heard += more->size();
        }
    }

private:
    rc_channel begin(const rc_introduction* theirs) {
        const net_address ours = stream_.local_address().net();
        adapter& on = in_.adapter_on(choose_device(in_.verbs(), options_, ours));
        port_ = on.device().port(options_.port);
        address_ = choose_address(on.device(), options_, ours, theirs);
        way_.port = options_.port;
        way_.gid_index = static_cast<std::uint8_t>(address_.index);
        way_.first_sequence = first_sequence();
        way_.path_mtu = port_.active_mtu;
        way_.remote_access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        connection_ = new rc_connection(in_, options_.channel);
        rc_channel made(*connection_); // ends it when anything is thrown
        connection_->prepare_over(on, way_);
        return made;
    }
    rc_introduction ours() const { return connection_->introduction(address_, port_, way_); }
    task<> introduce() {
        const auto wire = ours().to_wire();
        co_await say(rc_frame::kind::introduction, wire);
    }
    /// Meaning, behind the bounds.
    void judge(const rc_introduction& theirs) const {
        if (const std::string why = theirs.refused_by(ours()); !why.empty()) fail(std::errc::protocol_error, why);
    }
    void open() {
        auto tether = std::make_unique<stream_tether>(std::move(stream_), *connection_);
        stream_tether& held = *tether;
        connection_->open_over(std::move(tether));
        held.start();
        if (connection_->phase() == rc_connection::state::broken)
            fail(std::errc::connection_aborted, "the RDMA peer has left, or broken the rules, before the connection was made");
    }

    task<> say(rc_frame::kind what, byte_span body) {
        std::array<std::byte, rc_frame::wire_size + 255> bytes;
        const auto head = rc_frame{what, static_cast<std::uint8_t>(body.size())}.to_wire();
        std::ranges::copy(body, std::ranges::copy(head, bytes.begin()).out);
        co_await stream_.write(byte_span(bytes).first(head.size() + body.size()), limits_);
    }
    task<> fill(mutable_byte_span into) {
        const std::size_t got = co_await stream_.read_exactly(into, limits_);
        if (got != into.size()) fail(std::errc::connection_aborted, "the RDMA peer has left before the connection was made");
    }
    /// The next frame, its body in `body_`. Throws the peer's refusal.
    task<rc_frame> hear() {
        std::array<std::byte, rc_frame::wire_size> head;
        co_await fill(head);
        const auto frame = rc_frame::from_wire(head);
        if (!frame) fail(std::errc::protocol_error, "what speaks on the stream is no RDMA peer of ours");
        if (!frame->is_known())
            fail(std::errc::protocol_error,
                 fmt::format("the RDMA peer speaks version {} of the exchange over a stream, this end version {}", frame->spoken,
                             rc_frame::version));
        body_.resize(frame->size);
        co_await fill(body_);
        if (frame->what == rc_frame::kind::refusal)
            fail(std::errc::connection_refused,
                 printable("the RDMA peer refuses: " + std::string(reinterpret_cast<const char*>(body_.data()), body_.size())));
        co_return *frame;
    }
    task<rc_introduction> hear_introduction() {
        const rc_frame frame = co_await hear();
        const auto said = frame.what == rc_frame::kind::introduction ? rc_introduction::from_wire(body_) : std::nullopt;
        if (!said) fail(std::errc::protocol_error, "the RDMA peer does not say who it is, or what cannot be");
        if (connection_ != nullptr) judge(*said);
        co_return *said;
    }

    context& in_;
    tcp_stream stream_;
    const over_options& options_;
    wait_limits limits_;
    rc_connection* connection_ = nullptr; ///< of the channel that is being made
    ibv_port_attr port_{};
    verbs::port_address address_;
    verbs::connection_parameters way_;
    std::vector<std::byte> body_;
};

/// Whether the peer can be told: not of what has come over the stream, or happened to it.
bool is_our_reason(const std::error_code& why) noexcept {
    return why != std::errc::connection_refused && why != std::errc::connection_aborted && why != std::errc::connection_reset &&
           why != std::errc::timed_out && why != std::errc::operation_canceled;
}

task<rc_channel> carry_out(context& in, tcp_stream stream, const over_options& options, wait_limits limits,
                           task<rc_channel> (exchange::*part)()) {
    exchange line(in, std::move(stream), options, limits);
    std::exception_ptr failure;
    std::string told;
    try {
        rc_channel made = co_await (line.*part)();
        co_return made;
    } catch (const std::system_error& e) {
        failure = std::current_exception();
        // What is wrong with this host is its own affair.
        if (e.code() == std::errc::protocol_error) told = e.what();
        else if (is_our_reason(e.code())) told = "it cannot make its end: " + e.code().message();
    } catch (const std::exception&) {
        failure = std::current_exception();
        told = "it cannot make its end";
    }
    if (!told.empty()) static_cast<void>(co_await as_result(line.refuse(told)));
    std::rethrow_exception(failure);
}

} // namespace

device_name::device_name(std::string_view name) : size_(name.size()) {
    if (name.size() >= text_.size()) fail(std::errc::filename_too_long, "the name of an RDMA device has less than 64 characters");
    std::ranges::copy(name, text_.begin());
}

task<> refuse_over(context& in, tcp_stream stream, std::string_view why, duration within) {
    over_options options;
    options.within = within;
    exchange line(in, std::move(stream), options, {});
    static_cast<void>(co_await as_result(line.refuse(why)));
}

task<rc_channel> connect_over(context& in, tcp_stream stream, over_options options, wait_limits limits) {
    rc_channel made = co_await carry_out(in, std::move(stream), options, limits, &exchange::ask);
    co_return made;
}

task<rc_channel> accept_over(context& in, tcp_stream stream, over_options options, wait_limits limits) {
    rc_channel made = co_await carry_out(in, std::move(stream), options, limits, &exchange::answer);
    co_return made;
}

} // namespace corewire::rdma
