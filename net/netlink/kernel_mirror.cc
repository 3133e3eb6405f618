#include <corewire/net/netlink/kernel_mirror.hh>

#include <corewire/reactor/loop/reactor.hh>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <libmnl/libmnl.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <optional>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>

namespace corewire {

using netlink::message_reader;

namespace {

constexpr duration patience = std::chrono::seconds{2}; ///< that the kernel may take to answer a dump, or to go on with it
constexpr std::size_t most_a_turn = 64 << 10;  ///< bytes of the kernel's that are read before the shard goes on: two parts of a dump
constexpr std::size_t most_at_once = 1 << 20;  ///< where everything is to be asked for: whatever has been said before
constexpr int receive_buffer = 1 << 20; ///< bytes; as many as net.core.rmem_max lets us

constexpr std::uint16_t dumps[] = {RTM_GETADDR, RTM_GETROUTE, RTM_GETNEIGH};
constexpr unsigned most_tries = 3; ///< at what the kernel changes meanwhile, before there is a pause

[[noreturn]] void fail(int error, const char* what) { throw std::system_error(error, std::generic_category(), what); }

unique_fd open_socket(unsigned groups) {
    unique_fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!fd) fail(errno, "cannot open a netlink socket");
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_nl at{};
    at.nl_family = AF_NETLINK;
    at.nl_groups = groups;
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) fail(errno, "cannot listen to the kernel's routes");
    const int nexthops = RTNLGRP_NEXTHOP; // beyond the mask of groups; Linux before 5.3 has none
    if (groups != 0) ::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &nexthops, sizeof nexthops);
    return fd;
}

void ask_for_dump(int fd, std::uint16_t type, std::uint32_t sequence) {
    alignas(8) std::byte message[64]{};
    nlmsghdr* header = mnl_nlmsg_put_header(message);
    header->nlmsg_type = type;
    header->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    header->nlmsg_seq = sequence;
    auto* family = static_cast<rtgenmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(rtgenmsg)));
    family->rtgen_family = AF_UNSPEC; // both
    if (::send(fd, message, header->nlmsg_len, 0) < 0) fail(errno, "cannot ask the kernel for its routes");
}

void wait_readable(int fd) {
    pollfd look{fd, POLLIN, 0};
    const auto longest = std::chrono::duration_cast<std::chrono::milliseconds>(patience);
    if (::poll(&look, 1, static_cast<int>(longest.count())) <= 0) fail(ETIMEDOUT, "the kernel does not say its routes");
}

} // namespace

kernel_mirror::kernel_mirror(reactor& loop, unsigned interface, std::span<const net_address> addresses, kernel_follower& follower)
    : loop_(loop), interface_(interface), follower_(follower),
      socket_(open_socket(RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_IFADDR | RTMGRP_IPV6_ROUTE)) {
    for (const net_address& each : addresses) addresses_.push_back({each});
    begin_resync();
    while (resyncing_) {
        wait_readable(socket_.get());
        if (drain(most_at_once)) try_again();
    }
    news_.begin(loop, socket_.get());
}

void kernel_mirror::on_news() noexcept {
    try {
        if (!drain(most_a_turn)) return; // what is old would be taken for news while all is asked for
        try_again();
        if (overflowed_ && !resyncing_ && !again_.armed() && !no_room_) begin_counted_resync();
    } catch (const std::exception&) {
        give_up_resync(); // out of memory, or refused
    }
}

/// Whatever is heard on the way, which may ask for another look: those that wait would wait for ever where there is always news.
void kernel_mirror::look() noexcept {
    if (resyncing_) return look_again_soon(); // what is being asked for may have been told before that has changed
    try {
        static_cast<void>(drain(most_at_once));
        begin_counted_resync();
    } catch (const std::exception&) {
        give_up_resync();
    }
}

void kernel_mirror::look_again(duration later) noexcept {
    const time_point at = loop_.now() + later;
    if (!again_.armed() || again_.expiry() > at) loop_.timers().arm(again_, at);
}

void kernel_mirror::begin_counted_resync() {
    ++statistics_.resyncs;
    begin_resync();
}

/// Everything anew, in as many turns as it takes; what was and is no more goes. Nothing is told of routes before all of them are known: if
/// that cannot be had, those that were known before stay.
void kernel_mirror::begin_resync() {
    before_ = std::exchange(routes_, {});
    resyncing_ = true;
    tries_ = 0;
    begin_try();
}

void kernel_mirror::begin_try() {
    overflowed_ = no_room_ = no_refusals_ = false;
    left_out_anew_ = 0;
    link_up_ = true; // what was lost may have been that: the next word that it is down counts
    for (followed_address& each : addresses_) each.there = false;
    for (permanent_neighbor& each : permanent_) each.there = false;
    routes_.clear();
    elsewhere_.reset();
    dumped_ = 0;
    ask_for_link();
    dump();
}

/// A dump has come to its end.
void kernel_mirror::go_on() {
    if (++dumped_ < std::size(dumps)) return dump();
    if (!overflowed_ || ++tries_ == most_tries) end_resync();
}

/// Nothing waits to be read. Where something was missed during the dumps all are begun anew, but not before.
void kernel_mirror::try_again() {
    if (resyncing_ && dumped_ == std::size(dumps)) begin_try();
}

void kernel_mirror::end_resync() {
    resyncing_ = false;
    silence_.cancel();
    if (overflowed_ && !before_.empty()) routes_ = std::move(before_); // at the start the half is better than nothing
    before_.clear();
    if (no_room_ && statistics_.resyncs != 0) room_pause_ = std::min(2 * room_pause_, longest_pause);
    routes_changed_ = true;
    tell_routes();
    if (overflowed_) return look_again_soon();
    left_out_ = left_out_anew_;
    if (!no_room_) room_pause_ = pause;
    for (followed_address& each : addresses_)
        if (!each.there && !std::exchange(each.told_gone, true)) follower_.on_address_gone(each.address);
    const auto gone = std::partition(permanent_.begin(), permanent_.end(), [](const permanent_neighbor& n) { return n.there; });
    for (auto n = gone; n != permanent_.end(); ++n) follower_.on_neighbor({.interface = interface_, .address = n->address, .mac = {}});
    permanent_.erase(gone, permanent_.end());
}

/// What is known stays as it is until all has been asked for anew.
void kernel_mirror::give_up_resync() noexcept {
    ++statistics_.malformed;
    silence_.cancel();
    if (std::exchange(resyncing_, false)) routes_ = std::move(before_);
    overflowed_ = true;
    look_again_soon();
}

void kernel_mirror::tell_routes() {
    if (!routes_changed_ || resyncing_) return;
    follower_.on_routes(routes_);
    routes_changed_ = false;
}

/// Its MTU: what was lost may have been that it is another.
void kernel_mirror::ask_for_link() {
    alignas(8) std::byte message[64]{};
    nlmsghdr* header = mnl_nlmsg_put_header(message);
    header->nlmsg_type = RTM_GETLINK;
    header->nlmsg_flags = NLM_F_REQUEST;
    header->nlmsg_seq = link_sequence_ = ++sequence_;
    auto* link = static_cast<ifinfomsg*>(mnl_nlmsg_put_extra_header(header, sizeof(ifinfomsg)));
    link->ifi_index = static_cast<int>(interface_);
    if (::send(socket_.get(), message, header->nlmsg_len, 0) < 0) fail(errno, "cannot ask the kernel for its interface");
}

void kernel_mirror::dump() {
    dump_sequence_ = ++sequence_;
    ask_for_dump(socket_.get(), dumps[dumped_], dump_sequence_);
    loop_.timers().arm(silence_, loop_.now() + patience);
}

bool kernel_mirror::drain(std::size_t most) {
    bool all = false;
    for (std::size_t bytes = 0; bytes < most;) {
        const ssize_t n = ::recv(socket_.get(), datagram_.data(), datagram_.size(), MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            overflowed_ |= errno == ENOBUFS;
            if (errno == ENOBUFS) continue; // what is left can still be read
            all = true;
            break;
        }
        bytes += static_cast<std::size_t>(n);
        read(byte_span(datagram_).first(static_cast<std::size_t>(n)));
    }
    tell_routes();
    return all;
}

void kernel_mirror::read(byte_span datagram) {
    message_reader messages(datagram);
    netlink::change news;
    bool goes_on = false;
    for (auto v = messages.next(news); v != message_reader::verdict::end; v = messages.next(news)) {
        overflowed_ |= messages.interrupted();
        const bool of_dump = resyncing_ && messages.sequence() == dump_sequence_;
        goes_on |= of_dump;
        if (v == message_reader::verdict::malformed) ++statistics_.malformed;
        if (v == message_reader::verdict::told) {
            if (const auto* link = std::get_if<netlink::link_change>(&news)) {
                if (link->interface == interface_ && link->mtu != 0) follower_.on_link_mtu(link->mtu);
                if (messages.sequence() == link_sequence_) continue; // ask_for_link()'s: nothing but the MTU
            }
            take(news);
            if (const auto* known = std::get_if<netlink::neighbor_change>(&news)) answered(messages.sequence(), known);
        }
        if (v == message_reader::verdict::failed && messages.error() != 0) {
            if (of_dump) fail(messages.error(), "the kernel does not say its routes");
            answered(messages.sequence(), nullptr);
        }
        if (v == message_reader::verdict::done && of_dump) go_on();
    }
    if (goes_on && resyncing_) loop_.timers().arm(silence_, loop_.now() + patience);
}

void kernel_mirror::take(const netlink::change& news) {
    ++statistics_.changes;
    if (const auto* n = std::get_if<netlink::neighbor_change>(&news)) {
        if (n->interface == interface_) take_neighbor(*n);
    } else if (const auto* r = std::get_if<netlink::route_change>(&news)) {
        take_route(*r);
    } else if (const auto* a = std::get_if<netlink::address_change>(&news)) {
        if (a->interface == interface_) take_address(*a);
    } else if (const auto* link = std::get_if<netlink::link_change>(&news)) {
        if (link->interface == interface_) take_link(*link);
        else if (link->gone && std::ranges::any_of(routes_, &netlink::route_change::partial)) look_again_soon(); // they go with it
    } else if (const auto& hop = std::get<netlink::nexthop_gone>(news); hop.interface == interface_ || hop.interface == 0) {
        look_again_soon();
    }
}

void kernel_mirror::take_neighbor(const netlink::neighbor_change& n) {
    const auto known = std::ranges::find(permanent_, n.address, &permanent_neighbor::address);
    if (n.word != netlink::neighbor_word::permanent) {
        if (known != permanent_.end()) permanent_.erase(known);
    } else if (known != permanent_.end()) {
        known->there = true;
    } else if (permanent_.size() < max_permanent) {
        permanent_.push_back({n.address});
    }
    follower_.on_neighbor(n);
}

void kernel_mirror::take_address(const netlink::address_change& a) {
    for (followed_address& each : addresses_) {
        if (a.address.address != each.address) continue;
        each.there = !a.gone;
        if (a.gone && !std::exchange(each.told_gone, true)) follower_.on_address_gone(each.address);
        if (!a.gone) each.told_gone = false;
    }
    if (a.gone) look_again(pause);
}

void kernel_mirror::take_link(const netlink::link_change& link) {
    const bool carrier_changed = std::exchange(link_runs_, link.runs) != link.runs; // routes over shared next hops go without a word then
    if (std::exchange(link_up_, link.up) == link.up && !link.gone) {
        if (carrier_changed) look_again(pause);
        return;
    }
    const auto leads_over_it = [](const netlink::route_change& r) { return !r.refuses; };
    if (!link.up && std::erase_if(routes_, leads_over_it) != 0) routes_changed_ = true;
    if (!link.up && resyncing_ && std::erase_if(before_, leads_over_it) != 0) follower_.on_routes(before_);
    look_again(pause);
}

/// Told, unless it is one of those that were left out before all was asked for anew.
void kernel_mirror::refuse(const netlink::route_change& r) {
    if (resyncing_ && ++left_out_anew_ <= left_out_) return;
    ++left_out_;
    ++statistics_.routes_refused;
    follower_.on_route_refused(r);
}

/// While all is asked for anew it is counted anew.
void kernel_mirror::one_less_is_left_out() noexcept {
    if (!resyncing_ && left_out_ != 0) --left_out_;
}

/// There may be room for those that found none.
void kernel_mirror::routes_have_gone() noexcept {
    routes_changed_ = true;
    if (no_room_) look_again(room_pause_);
}

bool kernel_mirror::make_room(std::size_t ways, const netlink::route_change& r) {
    const bool refusals = r.refuses && (known_to_be_full(r) || std::ranges::count_if(routes_, &netlink::route_change::refuses) >=
                                                                   static_cast<std::ptrdiff_t>(max_refusals));
    if (refusals || routes_.size() + ways > max_routes) {
        no_room_ = true;
        no_refusals_ |= refusals;
        refuse(r);
        return false;
    }
    routes_changed_ = true;
    return true;
}

/// A route that moves to another interface is told as one of that interface, which replaces it.
void kernel_mirror::take_route(const netlink::route_change& r) {
    if (!r.destination.is_v4()) return take_ipv6_way(r);
    if (!r.further) told_.clear(); // and what is left of one that could not be read to its end
    told_.push_back(r);
    if (!r.more) take_ipv4_route();
}

/// Ways of one route come and go one by one (fib6_add_rt2node()).
void kernel_mirror::take_ipv6_way(const netlink::route_change& r) {
    const auto same = [&](const netlink::route_change& known) { return known.same_route(r); };
    const auto rival = [&](const netlink::route_change& known) { return known.destination == r.destination && known.metric == r.metric; };
    if (r.gone) {
        if (!is_ours(r)) return;
        if (std::erase_if(routes_, same) != 0) routes_have_gone();
        else if (no_room_) one_less_is_left_out();
        return;
    }
    if (r.replaces) {
        // Which of several of that destination and metric it replaces, and whether it replaces any (a router's preference has changed, a
        // next hop that is shared), the message does not say: the kernel is asked.
        const bool known = std::ranges::any_of(routes_, same);
        const auto rivals = std::ranges::count_if(routes_, rival);
        if (rivals > 1 || (rivals == 1 && !known && !is_ours(r))) look_again_soon();
        if (!known && std::erase_if(routes_, rival) != 0) routes_have_gone();
    }
    if (!is_ours(r)) return;
    const auto at = known_to_be_full(r) ? routes_.end() : std::ranges::find_if(routes_, same);
    if (at != routes_.end()) {
        if (at->same_sizes(r)) return;
        *at = r;
        routes_changed_ = true;
    } else if (make_room(1, r)) {
        routes_.push_back(r);
    }
}

/// Leaves those over our interface in told_, of which the first is not `further`. One that cannot be followed, if there is one.
std::optional<netlink::route_change> kernel_mirror::keep_our_ways() {
    const std::size_t all = told_.size();
    std::erase_if(told_, [&](const auto& way) { return !is_ours(way); });
    const auto other = std::ranges::find_if(told_, &netlink::route_change::of_other_family);
    const std::optional left = other != told_.end() ? std::optional(*other) : std::nullopt;
    std::erase_if(told_, [](const auto& way) { return way.of_other_family; });
    for (netlink::route_change& way : told_) {
        way.further = &way != told_.data();
        way.partial = told_.size() != all;
    }
    return left;
}

/// In routes_ its ways stand one after another: the first is not `further`, those behind it are. As the kernel does it
/// (fib_table_insert(), fib_table_delete()).
void kernel_mirror::take_ipv4_route() {
    const netlink::route_change first = told_.front();
    const std::optional left = keep_our_ways();
    if (first.gone) {
        if (left) one_less_is_left_out();
        if (!told_.empty()) remove_ipv4_route(told_);
        return;
    }
    if (left) refuse(*left);
    auto at = routes_.end();
    if (first.replaces || (first.goes_first && !told_.empty()))
        at = std::ranges::find_if(routes_, [&](const auto& r) { return r.destination == first.destination && r.metric == first.metric; });
    if (first.replaces && at != routes_.end()) at = replace_ipv4_route(at);
    if (told_.empty()) {
        elsewhere_.set(slot_of(first));
        return;
    }
    if (const auto known = known_to_be_full(told_.front()) ? routes_.end() : find_ipv4_route(told_); known != routes_.end()) {
        known->doubled = true;
        if (at != routes_.end() && !resyncing_) look_again_soon(); // which of them comes first a dump says
    } else if (make_room(told_.size(), told_.front())) {
        routes_.insert(at, told_.begin(), told_.end());
    } else {
        elsewhere_.set(slot_of(first));
    }
}

/// The kernel has replaced its first route of such a destination and metric: ours goes, though that may have been another's.
auto kernel_mirror::replace_ipv4_route(std::vector<netlink::route_change>::iterator at) -> std::vector<netlink::route_change>::iterator {
    if (at->doubled || elsewhere_[slot_of(*at)]) look_again_soon();
    const auto another_way = [&](const auto& r) { return r.further && r.destination == at->destination && r.metric == at->metric; };
    at = routes_.erase(at, std::find_if_not(at + 1, routes_.end(), another_way));
    routes_have_gone();
    return at;
}

std::size_t kernel_mirror::slot_of(const netlink::route_change& r) noexcept {
    const std::uint64_t address = r.destination.address.v4().value();
    const std::uint64_t what = address << 32 ^ std::uint64_t{r.metric} << 8 ^ r.destination.length;
    return what * 0x9e37'79b9'7f4a'7c15 >> 52; // the upper bits of a product depend on all of it
}

/// The route of exactly these ways.
auto kernel_mirror::find_ipv4_route(std::span<const netlink::route_change> ways) noexcept -> std::vector<netlink::route_change>::iterator {
    const auto same = [](const netlink::route_change& a, const netlink::route_change& b) {
        return a.same_route(b) && a.further == b.further && a.partial == b.partial;
    };
    for (auto at = routes_.begin();; ++at) {
        at = std::search(at, routes_.end(), ways.begin(), ways.end(), same);
        if (at == routes_.end()) return at;
        const auto end = at + std::ssize(ways);
        const bool goes_on = end != routes_.end() && end->further && end->destination == at->destination && end->metric == at->metric;
        if (!goes_on) return at;
    }
}

/// One that we do not know so was left out, or what we know is wrong.
void kernel_mirror::remove_ipv4_route(std::span<const netlink::route_change> ways) {
    if (const auto at = find_ipv4_route(ways); at != routes_.end() && std::exchange(at->doubled, false)) { // the other may be there yet
        look_again_soon();
    } else if (at != routes_.end()) {
        routes_.erase(at, at + std::ssize(ways));
        routes_have_gone();
    } else if (no_room_) {
        one_less_is_left_out();
    } else if (std::ranges::any_of(routes_, [&](const netlink::route_change& known) { return known.same_route(ways.front()); })) {
        look_again(pause);
    }
}

bool kernel_mirror::send_about(std::uint16_t type, std::uint16_t flags, const net_address& neighbor) noexcept {
    alignas(8) std::byte message[128]{};
    nlmsghdr* header = mnl_nlmsg_put_header(message);
    header->nlmsg_type = type;
    header->nlmsg_flags = flags;
    header->nlmsg_seq = ++sequence_;
    auto* entry = static_cast<ndmsg*>(mnl_nlmsg_put_extra_header(header, sizeof(ndmsg)));
    entry->ndm_family = neighbor.is_v4() ? AF_INET : AF_INET6;
    entry->ndm_ifindex = static_cast<int>(interface_);
    if (type == RTM_NEWNEIGH) {
        entry->ndm_flags = NTF_USE; // as if a packet of the kernel's own went there
        entry->ndm_state = NUD_NONE;
    }
    std::array<std::byte, 16> octets;
    if (neighbor.is_v4()) neighbor.v4().store(octets.data());
    else neighbor.v6().store(octets.data());
    mnl_attr_put(header, NDA_DST, neighbor.is_v4() ? 4 : 16, octets.data());
    return ::send(socket_.get(), message, header->nlmsg_len, MSG_DONTWAIT) >= 0;
}

void kernel_mirror::ask(const net_address& neighbor) noexcept {
    ++statistics_.asked;
    if (send_about(RTM_GETNEIGH, NLM_F_REQUEST, neighbor)) questions_[sequence_ % questions_.size()] = {sequence_, neighbor};
    else ++statistics_.asks_dropped;
}

/// `known`: what the kernel has, or null. Has it find out, unless it is sure.
void kernel_mirror::answered(std::uint32_t sequence, const netlink::neighbor_change* known) noexcept {
    question& q = questions_[sequence % questions_.size()];
    if (sequence == 0 || q.sequence != sequence || (known != nullptr && known->address != q.neighbor)) return;
    const net_address neighbor = std::exchange(q, {}).neighbor;
    const auto word = known == nullptr ? netlink::neighbor_word::unknown : known->word;
    if (word == netlink::neighbor_word::permanent || word == netlink::neighbor_word::reachable) return;
    if (!send_about(RTM_NEWNEIGH, NLM_F_REQUEST | NLM_F_CREATE, neighbor)) ++statistics_.asks_dropped;
}

std::vector<netlink::address_change> kernel_addresses(unsigned interface) {
    const unique_fd fd = open_socket(0);
    ask_for_dump(fd.get(), RTM_GETADDR, 1);
    std::vector<netlink::address_change> out;
    alignas(8) std::array<std::byte, 32768> datagram;
    for (;;) {
        wait_readable(fd.get());
        const ssize_t n = ::recv(fd.get(), datagram.data(), datagram.size(), MSG_DONTWAIT);
        if (n < 0) fail(errno, "the kernel does not say its addresses");
        message_reader messages(byte_span(datagram).first(static_cast<std::size_t>(n)));
        netlink::change news;
        for (auto v = messages.next(news); v != message_reader::verdict::end; v = messages.next(news)) {
            if (v == message_reader::verdict::done) return out;
            const auto* a = v == message_reader::verdict::told ? std::get_if<netlink::address_change>(&news) : nullptr;
            if (a != nullptr && a->interface == interface) out.push_back(*a);
        }
    }
}

} // namespace corewire
