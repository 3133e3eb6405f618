// How a connection comes to be without rdma_cm: its queue pair walks from RESET to RTS by itself. Who tells the ends of each other, and
// when they are ready, is over_stream.cc.
#include <corewire/rdma/channel/rc_connection.hh>

#include <corewire/rdma/channel/context.hh>
#include <corewire/rdma/verbs/error.hh>

#include <algorithm>
#include <cerrno>

namespace corewire::rdma {

void rc_connection::prepare_over(adapter& on, const verbs::connection_parameters& way) {
    use(on);
    pair_.emplace(verbs::queue_pair(on.domain(), {.type = verbs::transport::reliable_connection,
                                                  .sends = &on.queue(),
                                                  .receives = &on.queue(),
                                                  .max_sends = options_.send_depth,
                                                  .max_receives = receives(),
                                                  .send_pieces = stretches(),
                                                  .inline_bytes = options_.inline_bytes}));
    pair_->to_init(way);
    lend_buffers();
}

rc_introduction rc_connection::introduction(const verbs::port_address& ours, const ibv_port_attr& port,
                                            const verbs::connection_parameters& way) const {
    rc_introduction i;
    i.link = port.link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    const auto lid = i.link == IBV_LINK_LAYER_INFINIBAND ? port.lid : std::uint16_t{0};
    i.end = {pair_->number(), way.first_sequence, ours.gid, lid};
    i.gid_type = static_cast<std::uint8_t>(i.link == IBV_LINK_LAYER_INFINIBAND ? IBV_GID_TYPE_IB : ours.type);
    i.partition = device_->device().partition(way.partition_index, way.port);
    i.path_mtu = static_cast<std::uint8_t>(way.path_mtu);
    i.port = way.port;
    i.reads_as_responder = i.reads_as_initiator = static_cast<std::uint8_t>(options_.reads);
    i.hello = hello();
    return i;
}

struct rc_connection::walk final : verbs::waiting_call {
    walk(rc_connection& c, const verbs::remote_end& to, const verbs::connection_parameters& by) : connection(c), peer(to), way(by) {
        connection.hold();
        connection.walking_ = true;
    }
    void execute() noexcept override {
        try {
            connection.pair_->to_ready_to_receive(peer, way);
            connection.pair_->to_ready_to_send(way);
            failure = nullptr;
        } catch (...) {
            failure = std::current_exception();
        }
    }
    void finished() noexcept override {
        connection.walking_ = false;
        connection.walk_failure_ = std::move(failure);
        connection.walked_.set();
        if (connection.goes_after_walk_) connection.shut_down();
        connection.release();
    }
    rc_connection& connection;
    const verbs::remote_end peer;
    const verbs::connection_parameters way;
    std::exception_ptr failure = std::make_exception_ptr(std::system_error(ECANCELED, std::generic_category(), "connecting over RDMA"));
};

task<> rc_connection::meet(const rc_introduction& peer, verbs::connection_parameters& way, wait_limits limits) {
    options_.reads = std::min<unsigned>({options_.reads, peer.reads_as_responder, peer.reads_as_initiator});
    peer_ = peer.hello;
    credits_ = peer.hello.receive_depth;
    reads_limit_ = options_.reads;
    agree_on_large();
    way.path_mtu = std::min(way.path_mtu, static_cast<ibv_mtu>(peer.path_mtu));
    way.reads_as_responder = way.reads_as_initiator = static_cast<std::uint8_t>(options_.reads);
    way.timeout = patience(silence());
    way.retries = peer.retries;
    way.receiver_not_ready_retries = peer.not_ready_retries;
    if (peer.link != IBV_LINK_LAYER_ETHERNET || !device_->device().api().waits_for(device_->device().context(), &peer.end.gid)) {
        pair_->to_ready_to_receive(peer.end, way);
        pair_->to_ready_to_send(way);
        co_return;
    }
    std::unique_ptr<verbs::waiting_call> call = std::make_unique<walk>(*this, peer.end, way);
    if (!context_.waits().start(call)) {
        static_cast<walk&>(*call).finished();
        throw std::system_error(EAGAIN, std::generic_category(), "too many connections over RDMA are being made at once");
    }
    co_await walked_.wait(limits);
    if (walk_failure_) std::rethrow_exception(walk_failure_);
}

} // namespace corewire::rdma
