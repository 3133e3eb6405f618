// The end of a provider's sockets when its program is asked to stop: nobody new comes in, and nobody waits for what may
// never come.
//
//     begin() --> listeners close --> waits for new work end, each as soon as its connection is quiet
//                                 --grace over--> every wait for a peer ends          (ended waits throw ECANCELED)
//
// New work is what somebody else begins: a read of an accepted stream, a receive of an unconnected datagram socket. Who waits
// for an answer that it has asked for (on a stream that it opened itself) has the grace, and so has a session whose peer
// still sends or still has bytes of ours to acknowledge. Writes, and closing, are never ended: what was written may get out.
//
// One a provider, on its shard. While it stands it looks every `interval`; sockets pay nothing for it.
#pragma once

#include <corewire/reactor/base/time.hh>
#include <corewire/reactor/loop/timer.hh>

#include <chrono>

namespace corewire {

class reactor;
class socket_provider;

class orderly_stop {
public:
    /// A connection is quiet when everything we sent is acknowledged and nothing has come for so long.
    static constexpr duration quiet = std::chrono::milliseconds{100};
    static constexpr duration interval = std::chrono::milliseconds{10};

    /// Both must outlive it.
    orderly_stop(reactor& loop, socket_provider& sockets) noexcept;
    void begin(duration grace) noexcept;
    bool begun() const noexcept { return all_at_ != never; }

private:
    struct look final : timer {
        explicit look(orderly_stop& s) noexcept;
        orderly_stop& owner;
    };
    void end_waits() noexcept;

    reactor& loop_;
    socket_provider& sockets_;
    time_point all_at_ = never; ///< when the grace is over
    look next_look_{*this};
};

} // namespace corewire
