// The end that answers: accepts connections and sends back what comes, as each asks for it. One reactor's.
#pragma once

#include <corewire/apps/rdma-pingpong/opening.hh>
#include <corewire/rdma/channel/listener.hh>

namespace corewire::rdma_pingpong {

/// Serves until cancelled; a session that fails is reported and ends alone. With `once`, returns after the first one.
task<> serve(rdma::context& in, rdma::listener& at, ip_address ours, bool once);

/// Large enough for one message of `size`, and for an opening.
rdma::rc_options options_for(std::uint32_t size) noexcept;

} // namespace corewire::rdma_pingpong
