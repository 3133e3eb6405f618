#include <corewire/net/socket/orderly_stop.hh>

#include <corewire/net/socket/provider.hh>

namespace corewire {

orderly_stop::look::look(orderly_stop& s) noexcept
    : timer([](timer& expired) noexcept { static_cast<look&>(expired).owner.end_waits(); }), owner(s) {}

orderly_stop::orderly_stop(reactor& loop, socket_provider& sockets) noexcept : loop_(loop), sockets_(sockets) {}

void orderly_stop::begin(duration grace) noexcept {
    if (begun()) return;
    all_at_ = loop_.now() + grace;
    end_waits();
}

void orderly_stop::end_waits() noexcept {
    sockets_.close_listeners(); // those, too, that have been bound since the last look
    sockets_.end_waits(loop_.now() < all_at_ ? ended_waits::for_new_work : ended_waits::for_any_peer);
    loop_.timers().arm(next_look_, loop_.now() + interval);
}

} // namespace corewire
