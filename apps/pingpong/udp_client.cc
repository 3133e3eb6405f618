#include <corewire/apps/pingpong/udp_client.hh>

#include <corewire/reactor/task/task_group.hh>

#include <cstdio>
#include <cstring>

namespace corewire::pingpong {

udp_client::udp_client(udp_socket connected, meter& accounts, std::uint32_t connection)
    : socket_(std::move(connected)), meter_(accounts), connection_(connection),
      request_(accounts.load().size, 1, connection), flights_(accounts.load().pipeline) {
    lost_.reserve(flights_.places());
}

task<> udp_client::run() {
    try {
        co_await exchange();
    } catch (const std::system_error& e) {
        if (!closed_) fail(e.what());
    }
    closed_ = true;
}

task<> udp_client::exchange() {
    reactor& shard = reactor::current();
    for (std::uint32_t place = 0; place < flights_.places(); ++place)
        if (prepare(place, shard.read_clock())) co_await socket_.send(request_.first(1));
    while (flights_.count() > 0) {
        const datagram reply = co_await socket_.receive_from();
        // Read the clock, not the turn's time: the turn began before the reply was there.
        const time_point now = shard.read_clock();
        const std::optional<std::uint32_t> place = take_in(reply, now);
        if (place && prepare(*place, now)) co_await socket_.send(request_.first(1));
    }
}

/// Checks and records one reply; returns the place it leaves empty.
std::optional<std::uint32_t> udp_client::take_in(const datagram& reply, time_point now) noexcept {
    meter_.look_at(now);
    // Messages have room for their number: the options see to that.
    const std::uint64_t number =
        reply.data.size() == request_.size() ? load_native<std::uint64_t>(reply.data.data()) : flights::idle;
    if (!is_answer(reply, number)) { // another's, a duplicate, late, or damaged
        meter_.error();
        return std::nullopt;
    }
    meter_.record(flights_.land(number), now);
    return flights_.place_of(number);
}

bool udp_client::is_answer(const datagram& reply, std::uint64_t number) noexcept {
    if (number == flights::idle || !flights_.in_flight(number)) return false;
    request_.set_number(0, number);
    return std::memcmp(reply.data.data(), request_.at(0), request_.size()) == 0;
}

/// Numbers the next message from this place, if the meter allows one more.
bool udp_client::prepare(std::uint32_t place, time_point now) noexcept {
    if (!meter_.take_turn()) return false;
    request_.set_number(0, flights_.depart(place, now));
    return true;
}

void udp_client::check_progress(time_point now) noexcept {
    if (closed_ || replacing_) return;
    flights_.give_up_before(now - meter_.load().patience, [&](std::uint32_t place) {
        meter_.error();
        lost_.push_back(place);
    });
    if (lost_.empty()) return;
    meter_.look_at(now);
    replacing_ = true;
    spawn(replace_lost());
}

task<> udp_client::replace_lost() {
    try {
        for (const std::uint32_t place : lost_)
            if (prepare(place, reactor::current().now())) co_await socket_.send(request_.first(1));
    } catch (const std::system_error& e) {
        fail(e.what());
    }
    lost_.clear();
    replacing_ = false;
    if (flights_.count() != 0) co_return;
    closed_ = true;
    socket_.close(); // nothing will come: exchange() waits in vain
}

void udp_client::fail(const char* why) noexcept {
    meter_.error();
    std::fprintf(stderr, "cw-pingpong: socket %u: %s\n", connection_, why);
}

} // namespace corewire::pingpong
