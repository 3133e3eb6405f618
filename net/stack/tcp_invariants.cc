// What has to be true of a shard's TCP as a whole: connections, what listeners count of them, and what is kept beside their tables.
#include <corewire/net/stack/tcp_layer.hh>

namespace corewire {

namespace {

/// What the tables say of one listener.
struct counted {
    unsigned half_open = 0, early = 0;
    std::size_t ready = 0;
};

} // namespace

void tcp_layer::check_invariants() const {
    for_each_connection([](const tcp_connection& c) {
        c.check_invariants();
        CW_ASSERT(!c.erased_, "a connection that is over is in no table");
    });
    for_each_listener([this](tcp_listen_socket& l) {
        counted here;
        for_each_connection([&](const tcp_connection& c) {
            here.early += c.early_listener_ == &l;
            here.half_open += c.listener_ == &l && c.half_open_;
            here.ready += c.listener_ == &l && !c.half_open_;
        });
        CW_ASSERT(l.half_open() == here.half_open, "a listener counts other half-open connections than there are");
        CW_ASSERT(l.early() == here.early, "a listener counts other early connections than there are");
        CW_ASSERT(l.ready() == here.ready + l.ready_and_over(), "a listener counts other ready connections than there are");
    });
    // Who is over and not deleted is in no table: a socket has him, or an accept queue, or bury() will find him.
    const auto is_ours = [this](const tcp_connection* c) { return &c->layer_ == this && (c->erased_ || find(c->name()) == c); };
    for (const auto& [c, headers] : saved_syns_) CW_ASSERT(is_ours(c), "a SYN is kept for a connection that there is not");
    for (const auto& [c, report] : reports_) CW_ASSERT(is_ours(c), "a report is kept for a connection that there is not");
    for (const tcp_connection* c : dead_) CW_ASSERT(c->erased_ && !c->has_user_, "a connection that is in use is to be deleted");
    CW_ASSERT(over_ >= dead_.size(), "connections are to be deleted that have not ended");
}

tcp_layer::remains tcp_layer::what_remains() const {
    std::size_t listening = 0;
    for_each_listener([&](tcp_listen_socket&) { ++listening; });
    return {.connections = connections(),
            .over = over_,
            .listeners = listening,
            .saved_syns = saved_syns_.size(),
            .reports = reports_.size(),
            .starved = starved_.empty() ? std::size_t{0} : std::size_t{1},
            .parameter_users = commons_.users()};
}

} // namespace corewire
