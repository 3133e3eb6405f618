#include <corewire/net/tcp/tcb.hh>

namespace corewire::tcp {

void tcb::set_urgent() noexcept {
    if (c_.sending.queue.size() == 0 || c_.state == tcp_state::closed) return;
    c_.urgent.sending = true;
    c_.urgent.send_end = c_.sending.queue.end();
    c_.predictable = prediction::none;
    c_.output_wanted = true;
    if (c_.options->like_freebsd()) c_.sending.small_end = c_.sending.una; // it is not gathered (TF_FORCEDATA)
    // Linux only says so with its probes.
    if (is_synchronized(c_.state) && c_.sending.usable_window() <= 0 && !c_.options->like_linux()) c_.receiving.acks.acknowledge_now();
}

std::uint32_t tcb::urgent_ahead() const noexcept {
    if (!c_.urgent.known) return 0;
    const seq_number reader = c_.receiving.next - (c_.receiving.queue.size() + (c_.receiving.fin_received ? 1u : 0u));
    return c_.urgent.receive_end > reader ? c_.urgent.receive_end - reader : 0;
}

/// The reader has moved: a mark that lies behind it is forgotten.
void tcb::pass_urgent() noexcept {
    if (urgent_ahead() == 0) c_.urgent.known = false;
}

} // namespace corewire::tcp
