// How a connection comes to be, and what rdma_cm says of it later.
#include <corewire/rdma/channel/rc_connection.hh>

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>

namespace corewire::rdma {

namespace {

constexpr int resolve_milliseconds = 2000;
constexpr int refused_by_program = 28; ///< the reason of a rejection (IB_CM_REJ_CONSUMER_DEFINED): not that nobody listens
constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept { return (n + to - 1) / to * to; }

void check(const rc_options& o) {
    const auto refuse = [](const char* what) { throw std::system_error(EINVAL, std::generic_category(), what); };
    if (o.receive_depth < 2 || o.receive_depth > 4096) refuse("rc_options::receive_depth is 2 to 4096");
    if (o.send_depth < 8 || o.send_depth > 4096) refuse("rc_options::send_depth is 8 to 4096");
    if (o.message_size == 0 || o.message_size > (1u << 30)) refuse("rc_options::message_size is 1 byte to 1 GiB");
    if (o.largest_message > (1u << 30)) refuse("rc_options::largest_message is 1 GiB at most");
    if (o.large_messages > most_large_messages) refuse("rc_options::large_messages is 64 at most");
}

} // namespace

rc_connection::rc_connection(context& in, const rc_options& options)
    : context_(in), options_(options), arrived_(options.receive_depth) {
    check(options);
    if (options_.largest_message <= options_.message_size || options_.reads == 0) options_.large_messages = 0;
    if (options_.large_messages == 0) options_.largest_message = 0;
    else options_.send_depth = std::max(options_.send_depth, large_send_depth);
    sends_.resize(options_.send_depth);
}

void rc_connection::use(adapter& on) {
    device_ = &on;
    const ibv_device_attr& limits = on.device().limits();
    options_.reads = std::min({options_.reads, static_cast<unsigned>(limits.max_qp_rd_atom),
                               static_cast<unsigned>(limits.max_qp_init_rd_atom), 255u});
    work_base_ = on.enter(this, nullptr, *this, options_.send_depth + receives());
    entered_ = true;
}

void rc_connection::make_queue_pair() {
    use(context_.adapter_of(*id_));
    ibv_qp_init_attr a{};
    a.send_cq = a.recv_cq = device_->queue().get();
    a.qp_type = IBV_QPT_RC;
    a.cap = {options_.send_depth, receives(), stretches(), 1, options_.inline_bytes};
    int failed = context_.cm().create_qp(id_, device_->domain().get(), &a);
    if (failed != 0 && errno == EINVAL && options_.inline_bytes != 0) { // more than the device sends inline
        a.cap = {options_.send_depth, receives(), stretches(), 1, 0};
        failed = context_.cm().create_qp(id_, device_->domain().get(), &a);
    }
    if (failed != 0)
        verbs::fail(verbs::operation::create_queue_pair, errno, "make a queue pair for a connection on " + device_->device().name());
    pair_ = verbs::queue_pair::borrowed(id_->qp, a.cap, verbs::transport::reliable_connection, device_->device().name(),
                                        device_->device().api());
    lend_buffers();
}

/// To a queue pair in INIT.
void rc_connection::lend_buffers() {
    stride_ = round_up(std::max<std::size_t>(options_.message_size, rc_announcement::largest_wire), 64);
    send_stride_ = stride_; // longer messages go from memory of their own
    memory_ = registered_buffer(*device_, stride_ * receives() + send_stride_ * options_.send_depth, memory_use::buffers);
    const std::size_t longest = std::min<std::size_t>(options_.largest_message, room_to_fetch());
    options_.largest_message = longest > options_.message_size ? static_cast<unsigned>(longest) : 0;
    chain_ = std::make_unique<verbs::send_chain>(options_.send_depth, most_regions);
    refill_ = std::make_unique<verbs::receive_chain>(receives(), memory_.local_key());
    for (std::uint32_t i = 0; i < receives(); ++i)
        refill_->add(work_base_ | work_id::receive | i, memory_.data() + stride_ * i, static_cast<std::uint32_t>(stride_));
    const auto posted = refill_->post([&](auto* first, auto** bad) { return pair_->post_receive(first, bad); });
    if (posted.error != 0) verbs::fail(verbs::operation::create_queue_pair, posted.error, "post receives on " + device_->device().name());
}

rdma_conn_param rc_connection::parameters(const std::array<std::byte, rc_hello::wire_size>& hello) const noexcept {
    rdma_conn_param p{};
    p.private_data = hello.data();
    p.private_data_len = rc_hello::wire_size;
    p.responder_resources = p.initiator_depth = static_cast<std::uint8_t>(options_.reads);
    p.retry_count = retries;
    p.rnr_retry_count = not_ready_retries;
    return p;
}

/// The device gives up after `retries` + 1 times 4.096 us x 2^n, or somewhat later.
std::uint8_t rc_connection::patience(duration silence) noexcept {
    constexpr duration unit{4096};
    std::uint8_t n = 1;
    while (n < 31 && (retries + 1) * unit * (1u << n) < silence) ++n;
    return n;
}

/// Before connect or accept.
void rc_connection::set_patience() {
    if (options_.silence <= duration::zero()) return;
    std::uint8_t n = patience(options_.silence);
    if (context_.cm().set_option(id_, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &n, sizeof n) != 0)
        verbs::fail(verbs::operation::manage_connection, errno, "set how long the peer's device may be silent");
}

void rc_connection::start_connecting(const sockaddr* from, const sockaddr* to) {
    if (context_.cm().create_id(context_.events().get(), &id_, static_cast<cm_handler*>(this), RDMA_PS_TCP) != 0)
        verbs::fail(verbs::operation::manage_connection, errno, "make an rdma_cm id");
    if (context_.cm().resolve_addr(id_, const_cast<sockaddr*>(from), const_cast<sockaddr*>(to), resolve_milliseconds) != 0)
        verbs::fail(verbs::operation::manage_connection, errno,
                    "look for a way to " + address_in(*to).to_string() +
                        (from == nullptr ? "" : " from " + to_string(address_in(*from).net())));
}

void rc_connection::accept(const cm_event& request, const rc_hello& peer, rc_parent& listener) {
    id_ = request.id;
    id_->context = static_cast<cm_handler*>(this);
    make_queue_pair();
    options_.reads = std::min({options_.reads, request.reads_as_responder, request.reads_as_initiator});
    peer_ = peer;
    credits_ = peer.receive_depth;
    reads_limit_ = options_.reads;
    agree_on_large();
    const auto told = hello().to_wire();
    rdma_conn_param p = parameters(told);
    set_patience();
    if (context_.cm().accept(id_, &p) != 0)
        verbs::fail(verbs::operation::manage_connection, errno, "accept the connection of " + peer_address().to_string());
    listener_ = &listener;
}

void rc_connection::opened(const rc_hello& peer, unsigned reads) noexcept {
    peer_ = peer;
    reads_limit_ = reads;
    agree_on_large();
    if (state_ == state::connecting) state_ = goodbye_heard_ ? state::peer_closed : state::open;
    context_.owner().timers().arm(keepalive_, context_.owner().now() + silence());
    if (large_.anything_to_do()) device_->has_work(*this); // announced before rdma_cm has said that it is open
    made_.set();
    if (listener_ != nullptr) listener_->child_changed();
}

void rc_connection::throw_if_not_open() const {
    if (setup_failure_) std::rethrow_exception(setup_failure_);
    if (state_ == state::broken)
        throw std::system_error(std::make_error_code(why_), "connecting over RDMA to " + peer_address().to_string());
}

void rc_connection::not_connected(std::errc why) const {
    verbs::fail(verbs::operation::manage_connection, static_cast<int>(why), "connect over RDMA to " + peer_address().to_string());
}

void rc_connection::on_cm_event(const cm_event& e) noexcept {
    try {
        switch (e.what) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            make_queue_pair();
            if (context_.cm().resolve_route(id_, resolve_milliseconds) != 0)
                verbs::fail(verbs::operation::manage_connection, errno, "look for a route to " + peer_address().to_string());
            return;
        case RDMA_CM_EVENT_ROUTE_RESOLVED: {
            const auto told = hello().to_wire();
            rdma_conn_param p = parameters(told);
            set_patience();
            if (context_.cm().connect(id_, &p) != 0)
                verbs::fail(verbs::operation::manage_connection, errno, "connect to " + peer_address().to_string());
            return;
        }
        case RDMA_CM_EVENT_ESTABLISHED: {
            if (listener_ != nullptr || peer_.receive_depth != 0) return opened(peer_, reads_limit_); // passive: the request had it all
            const auto peer = rc_hello::from_wire(e.private_data);
            if (!peer || e.not_ready_retries != not_ready_retries)
                throw std::system_error(std::make_error_code(std::errc::protocol_error),
                                        "what accepts at " + peer_address().to_string() + " is no peer of ours, or of another version");
            credits_ = peer->receive_depth;
            return opened(*peer, std::min(options_.reads, e.reads_as_initiator));
        }
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_ERROR:
            verbs::fail(verbs::operation::manage_connection, e.status < 0 ? -e.status : EHOSTUNREACH,
                        "find a way to " + peer_address().to_string());
        case RDMA_CM_EVENT_UNREACHABLE: not_connected(std::errc::timed_out);
        case RDMA_CM_EVENT_CONNECT_ERROR: not_connected(std::errc::connection_aborted);
        case RDMA_CM_EVENT_REJECTED:
            if (e.status == refused_by_program)
                throw std::system_error(std::make_error_code(std::errc::connection_refused),
                                        "the RDMA listener at " + peer_address().to_string() +
                                            " refuses: its backlog is full, it is short of memory, or no peer of ours");
            not_connected(std::errc::connection_refused);
        case RDMA_CM_EVENT_DISCONNECTED: return peer_left(false);
        case RDMA_CM_EVENT_DEVICE_REMOVAL: return break_down(std::errc::no_such_device);
        default: return;
        }
    } catch (const std::system_error& error) {
        setup_failure_ = std::current_exception();
        break_down(static_cast<std::errc>(error.code().value()));
    } catch (...) {
        setup_failure_ = std::current_exception();
        break_down(std::errc::not_enough_memory);
    }
}

void rc_connection::peer_left(bool spoke) noexcept {
    if (spoke) return violated();
    catch_up(); // with what came before it
    break_down(std::errc::connection_reset);
}

void rc_connection::catch_up() noexcept {
    while (device_ != nullptr && device_->poll({})) {}
}

socket_address rc_connection::peer_address() const {
    if (id_ == nullptr) return tether_ ? tether_->peer_address() : socket_address{};
    return address_in(*::rdma_get_peer_addr(id_));
}

} // namespace corewire::rdma
