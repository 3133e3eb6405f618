#include <corewire/net/resolve/resolver.hh>

#include <corewire/net/resolve/destination_order.hh>
#include <corewire/net/socket/tcp_stream.hh>
#include <corewire/net/socket/udp_socket.hh>
#include <corewire/reactor/task/event.hh>
#include <corewire/reactor/task/when_all.hh>
#include <corewire/reactor/task/with_deadline.hh>

#include <algorithm>
#include <array>

namespace corewire {

namespace {

constexpr unsigned most_strangers = 32; ///< datagrams to one question that do not answer it
constexpr std::size_t longest_name = 255;

[[noreturn]] void fail(resolve_error why, const std::string& name) {
    throw std::system_error(why, "resolving " + name.substr(0, longest_name));
}

bool wanted(const ip_address& a, address_family family) noexcept {
    return family == address_family::any || std::holds_alternative<ipv4>(a) == (family == address_family::v4);
}

void six_first(std::vector<ip_address>& all) {
    std::stable_partition(all.begin(), all.end(), [](const ip_address& a) { return std::holds_alternative<ipv6>(a); });
}

/// The addresses of an answer that says how it is.
std::vector<ip_address> addresses_of(dns_answer answer, const std::string& name) {
    if (answer.outcome == dns_outcome::no_such_name) fail(resolve_error::no_such_name, name);
    if (answer.outcome == dns_outcome::no_data) fail(resolve_error::no_address, name);
    return std::move(answer.addresses);
}

/// try_again, and a server has said so (SERVFAIL, REFUSED): it took no time, and another name may be known.
struct nobody_tells : std::system_error {
    using std::system_error::system_error;
};

bool says_there_is_none(const std::error_code& e) noexcept {
    return e == make_error_code(resolve_error::no_such_name) || e == make_error_code(resolve_error::no_address);
}

} // namespace

resolver::resolver(resolver_config config, std::uint64_t seed)
    : config_(std::move(config)), cache_(config_.cache_entries), random_(seed),
      asking_(std::max<std::size_t>(config_.questions_at_once, 1)) {}

task<std::vector<ip_address>> resolver::resolve(std::string name, address_family family, wait_limits limits) {
    addresses all;
    address_listener gather = [&all](addresses some, bool) { all.insert(all.end(), some.begin(), some.end()); };
    co_await resolve_each(std::move(name), family, std::move(gather), limits);
    six_first(all);
    sort_destinations(all);
    co_return all;
}

task<> resolver::resolve_each(std::string name, address_family family, address_listener tell, wait_limits limits) {
    if (auto found = known(name, family)) {
        if (found->empty()) fail(resolve_error::no_address, name);
        tell(std::move(*found), false);
        co_return;
    }
    if (name.empty() || name.size() > longest_name) fail(resolve_error::no_such_name, name);
    if (limits.bounded()) co_await with_deadline(look_up(std::move(name), family, std::move(tell)), limits);
    else co_await look_up(std::move(name), family, std::move(tell));
}

/// What needs no asking. Empty: it is known that there is none of the family.
std::optional<resolver::addresses> resolver::known(const std::string& name, address_family family) const {
    addresses all;
    const std::string key = plain_name(name);
    if (const auto v4 = ipv4::parse(name)) {
        all.emplace_back(*v4);
    } else if (const auto v6 = ipv6::parse(name)) {
        all.emplace_back(*v6);
    } else {
        for (const known_host& h : config_.hosts) // of another family alone: servers are asked for this one, as by nsswitch.conf(5)
            if (wanted(h.address, family) && plain_name(h.name) == key) all.push_back(h.address);
        if (all.empty() && (key == "localhost" || key.ends_with(".localhost"))) all = {ipv6::loopback(), ipv4::loopback()};
        if (all.empty()) return std::nullopt;
        six_first(all);
    }
    std::erase_if(all, [family](const ip_address& a) { return !wanted(a, family); });
    return all;
}

/// What the network says, where that counts and it says something.
const learned_names* resolver::told() const noexcept {
    const auto* const provider = static_cast<const socket_provider*>(reactor::current().attached(reactor::attachment::network));
    return !config_.follow_network || provider == nullptr || provider->names().servers.empty() ? nullptr : &provider->names();
}

/// Where none of the servers is there any more it is another network, and what they have said counts no more.
void resolver::follow_servers() {
    if (servers() == asked_of_) return;
    const std::vector<socket_address> before = std::exchange(asked_of_, servers());
    const auto is_there = [this](const socket_address& s) { return std::ranges::find(asked_of_, s) != asked_of_.end(); };
    if (std::ranges::any_of(before, is_there)) return;
    ++network_;
    cache_.forget_all();
}

const std::vector<socket_address>& resolver::servers() const { return told() == nullptr ? config_.servers : told()->servers; }

/// resolv.conf(5): `search` and `ndots`.
std::vector<std::string> resolver::candidates(const std::string& name) const {
    if (name.ends_with('.')) return {name};
    std::vector<std::string> out;
    const std::vector<std::string>& search = told() == nullptr || told()->search.empty() ? config_.search : told()->search;
    for (const std::string& domain : search)
        if (name.size() + 1 + domain.size() <= longest_name) out.push_back(name + '.' + domain);
    const bool is_short = static_cast<unsigned>(std::count(name.begin(), name.end(), '.')) < config_.dots;
    out.insert(is_short ? out.end() : out.begin(), name);
    return out;
}

/// Of one candidate at a time, whatever the family: the next is another host.
task<> resolver::look_up(std::string name, address_family family, address_listener tell) {
    if (servers().empty()) fail(resolve_error::no_servers, name);
    std::optional<std::system_error> why;
    bool unknown = false; // whether one of the names has an address
    for (const std::string& candidate : candidates(name)) {
        try {
            co_await ask_families(candidate, family, tell);
            co_return;
        } catch (const nobody_tells&) {
            unknown = true;
        } catch (const std::system_error& e) {
            if (!says_there_is_none(e.code())) throw; // silence: each name more would take as long
            if (!why || why->code() == make_error_code(resolve_error::no_such_name)) why = e;
        }
    }
    if (unknown) fail(resolve_error::try_again, name);
    throw *why;
}

/// The questions about one candidate.
struct resolver::questions {
    unsigned open = 0;
    bool answered = false; ///< with addresses: one family is enough
    std::exception_ptr why{};
    unsigned weight = 0; ///< of `why`: what we know the less, the more it counts; "there is none" is said if both families say so

    void fails(dns_type about, unsigned how_much) {
        if (why && (how_much < weight || (how_much == weight && about != dns_type::a))) return;
        why = std::current_exception();
        weight = how_much;
    }
};

task<> resolver::ask_families(const std::string& name, address_family family, const address_listener& tell) {
    questions all;
    if (family == address_family::any) {
        all.open = 2;
        co_await when_all(ask_family(name, dns_type::aaaa, tell, all), ask_family(name, dns_type::a, tell, all));
    } else {
        all.open = 1;
        co_await ask_family(name, family == address_family::v4 ? dns_type::a : dns_type::aaaa, tell, all);
    }
    if (!all.answered) std::rethrow_exception(all.why);
}

task<> resolver::ask_family(const std::string& name, dns_type type, const address_listener& tell, questions& all) {
    addresses found;
    try {
        dns_answer answer = co_await ask(name, type);
        found = addresses_of(std::move(answer), name);
        all.answered = true;
    } catch (const nobody_tells&) {
        all.fails(type, 1);
    } catch (const std::system_error& e) {
        all.fails(type, says_there_is_none(e.code()) ? 0 : 2);
    } catch (...) {
        all.fails(type, 2);
    }
    --all.open;
    tell(std::move(found), all.open != 0);
}

/// Who asks for it, and what has come of it: nothing, if the asker's limits ended it.
struct resolver::open_question {
    std::uint32_t network; ///< network_, when it was asked
    event ended;
    std::optional<dns_answer> answer;
    std::exception_ptr why;
};

/// RFC 5452 5: of like questions one is out at a time, or a forger would have as many numbers to hit.
task<dns_answer> resolver::ask(std::string name, dns_type type) {
    for (;;) {
        follow_servers();
        const std::string key = dns_key(name, type) + ' ' + std::to_string(network_);
        if (const dns_answer* found = cache_.find(reactor::current().now(), name, type)) {
            ++statistics_.from_cache;
            co_return *found;
        }
        std::shared_ptr<open_question>& place = open_[key];
        if (!place) {
            const std::shared_ptr<open_question> mine = place = std::make_shared<open_question>(network_);
            const auto end = [&](open_question* q) noexcept {
                open_.erase(key);
                q->ended.set();
            };
            const std::unique_ptr<open_question, decltype(end)> closed(mine.get(), end); // when our frame goes, too
            co_await ask_once(std::move(name), type, *mine);
            co_return *mine->answer;
        }
        const std::shared_ptr<open_question> theirs = place;
        ++statistics_.joined;
        co_await theirs->ended.wait();
        if (theirs->why) std::rethrow_exception(theirs->why);
        if (theirs->answer) co_return *theirs->answer;
    }
}

task<> resolver::ask_once(std::string name, dns_type type, open_question& mine) {
    const auto turn = co_await asking_.acquire(1);
    try {
        mine.answer = co_await ask_servers(name, type);
    } catch (...) {
        mine.why = std::current_exception();
        throw;
    }
    if (mine.network == network_) cache_.keep(reactor::current().now(), name, type, *mine.answer);
}

task<dns_answer> resolver::ask_servers(std::string name, dns_type type) {
    dns_question question{std::move(name), type};
    if (encode_dns_question(question).empty()) co_return dns_answer{.outcome = dns_outcome::no_such_name};
    const std::vector<socket_address> known = servers(); // the network may say others while we wait
    bool refused = false;
    for (unsigned round = 0; round < std::max(config_.attempts, 1u); ++round) {
        for (const socket_address& server : known) {
            question.id = static_cast<std::uint16_t>(random_.next());
            dns_answer answer;
            try {
                answer = co_await ask_server(server, question);
            } catch (const std::system_error& e) { // silent, or out of reach
                if (e.code() == std::errc::operation_canceled) throw; // nobody waits any more: the program stops
                ++statistics_.silent;
                continue;
            }
            switch (answer.outcome) {
            case dns_outcome::unusable:
            case dns_outcome::truncated:
            case dns_outcome::no_edns:
                ++statistics_.unusable;
                refused = true;
                break;
            case dns_outcome::not_ours: ++statistics_.silent; break;
            default: ++statistics_.answered; co_return answer;
            }
        }
    }
    if (refused) throw nobody_tells(resolve_error::try_again, "resolving " + question.name);
    fail(resolve_error::try_again, question.name);
}

task<dns_answer> resolver::ask_server(socket_address server, dns_question question) {
    const time_point give_up = reactor::current().now() + config_.timeout;
    dns_answer answer = co_await by_datagrams(server, question, give_up);
    if (answer.outcome == dns_outcome::no_edns) {
        question.edns = false;
        question.id = static_cast<std::uint16_t>(random_.next());
        answer = co_await by_datagrams(server, question, give_up);
    }
    if (answer.outcome != dns_outcome::truncated) co_return answer;
    ++statistics_.by_tcp;
    const time_point give_up_again = reactor::current().now() + config_.timeout;
    answer = co_await by_stream(server, question, give_up_again);
    co_return answer;
}

task<dns_answer> resolver::by_datagrams(socket_address server, const dns_question& question, time_point give_up) {
    const std::vector<std::byte> wire = encode_dns_question(question);
    auto socket = udp_socket::connect(server);
    ++statistics_.asked;
    co_await socket.send(byte_span(wire), {.deadline = give_up});
    for (unsigned strangers = 0; strangers < most_strangers; ++strangers) {
        const datagram d = co_await socket.receive_from({.deadline = give_up});
        dns_answer answer = decode_dns_answer(d.data.bytes(), question);
        if (answer.outcome != dns_outcome::not_ours) co_return answer;
        ++statistics_.not_ours;
    }
    co_return dns_answer{};
}

/// RFC 1035 4.2.2: each message behind its length.
task<dns_answer> resolver::by_stream(socket_address server, const dns_question& question, time_point give_up) {
    const wait_limits soon{.deadline = give_up};
    auto stream = co_await tcp_stream::connect(server, {}, soon);
    ++statistics_.asked;
    const std::vector<std::byte> wire = encode_dns_question(question);
    std::array<std::byte, 2> length{};
    store_be16(length.data(), static_cast<std::uint16_t>(wire.size()));
    std::vector<std::byte> message(length.begin(), length.end());
    message.insert(message.end(), wire.begin(), wire.end());
    co_await stream.write(byte_span(message), soon);
    std::size_t got = co_await stream.read_exactly(length, soon);
    if (got != length.size()) co_return dns_answer{.outcome = dns_outcome::unusable};
    message.resize(load_be16(length.data()));
    got = co_await stream.read_exactly(message, soon);
    if (got != message.size()) co_return dns_answer{.outcome = dns_outcome::unusable};
    dns_answer answer = decode_dns_answer(message, question);
    if (answer.outcome == dns_outcome::not_ours) answer.outcome = dns_outcome::unusable; // nobody else speaks here
    co_return answer;
}

} // namespace corewire
