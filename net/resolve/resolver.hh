// resolver: names to addresses, by DNS over this shard's own sockets.
//
//     cw::resolver names;                                         // /etc/resolv.conf and /etc/hosts
//     auto addresses = co_await names.resolve("www.example.com"); // std::vector<ip_address>, at least one
//
//     resolve --> literal? own table? --> cache --> UDP to each server in turn, TCP for what is longer --> cache --> addresses
//
// Throws std::system_error with a resolve_error (what getaddrinfo says); ETIMEDOUT or ECANCELED when the limits come first.
// A forger has to guess the question's number and the port it left from (RFC 5452), both random, and sees each question once a
// server, however many ask it at once. Belongs to the shard that made it, and outlives what waits on it. Bounded: questions at once,
// answers remembered, foreign datagrams looked at per question.
#pragma once

#include <corewire/net/resolve/dns_cache.hh>
#include <corewire/net/resolve/resolve_error.hh>
#include <corewire/net/resolve/resolver_config.hh>
#include <corewire/reactor/base/random.hh>
#include <corewire/reactor/task/semaphore.hh>
#include <corewire/reactor/task/task.hh>
#include <corewire/reactor/task/waiter.hh>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace corewire {

enum class address_family : std::uint8_t { any, v4, v6 };

struct resolver_statistics {
    std::uint64_t asked = 0;        ///< questions sent, by UDP or TCP
    std::uint64_t answered = 0;     ///< with addresses, or that there are none
    std::uint64_t from_cache = 0;
    std::uint64_t joined = 0;       ///< waited for the answer to the same question of somebody else
    std::uint64_t by_tcp = 0;       ///< of those asked: the answer was longer than a datagram
    std::uint64_t silent = 0;       ///< no answer in time, or the server could not be reached
    std::uint64_t unusable = 0;     ///< answers that are malformed, or refuse
    std::uint64_t not_ours = 0;     ///< datagrams that answer another question
};

struct learned_names;

class resolver {
public:
    explicit resolver(resolver_config config = resolver_config::from_system(), std::uint64_t seed = random_seed());

    /// All addresses of `name`, the likeliest to work first (RFC 6724 6), else as the servers have them; an address in text is its
    /// own. Short names are tried with the search list. "localhost" is never asked for (RFC 6761).
    task<std::vector<ip_address>> resolve(std::string name, address_family family = address_family::any, wait_limits limits = {});

    /// The addresses of one family, none if it has none. `more`: what the other has is not known yet.
    using address_listener = std::function<void(std::vector<ip_address> found, bool more)>;

    /// resolve() for those who need not wait for the slower family (RFC 8305 3): `tell` hears of each as soon as it is known, in the
    /// servers' order. All are addresses of one host: where a name has several candidates, the next is asked for only when neither
    /// family has an address of the one before. Ends, or throws as resolve() does, when both are known. What `tell` throws ends it.
    task<> resolve_each(std::string name, address_family family, address_listener tell, wait_limits limits = {});

    const resolver_config& config() const noexcept { return config_; }
    const resolver_statistics& statistics() const noexcept { return statistics_; }
    dns_cache& cache() noexcept { return cache_; }

private:
    using addresses = std::vector<ip_address>;
    std::optional<addresses> known(const std::string& name, address_family family) const;
    const learned_names* told() const noexcept;
    const std::vector<socket_address>& servers() const; ///< as long as the network says no others
    void follow_servers();
    std::vector<std::string> candidates(const std::string& name) const;
    task<> look_up(std::string name, address_family family, address_listener tell);
    struct questions;
    task<> ask_families(const std::string& name, address_family family, const address_listener& tell);
    task<> ask_family(const std::string& name, dns_type type, const address_listener& tell, questions& all);
    struct open_question;
    task<dns_answer> ask(std::string name, dns_type type);
    task<> ask_once(std::string name, dns_type type, open_question& mine);
    task<dns_answer> ask_servers(std::string name, dns_type type);
    task<dns_answer> ask_server(socket_address server, dns_question question);
    task<dns_answer> by_datagrams(socket_address server, const dns_question& question, time_point give_up);
    task<dns_answer> by_stream(socket_address server, const dns_question& question, time_point give_up);

    resolver_config config_;
    dns_cache cache_;
    std::vector<socket_address> asked_of_; ///< whose answers are in cache_
    std::uint32_t network_ = 0;            ///< counts those that asked_of_ was of: what others have said is not kept
    random_generator random_;
    semaphore asking_;
    std::unordered_map<std::string, std::shared_ptr<open_question>> open_; ///< by dns_key() and network_
    resolver_statistics statistics_;
};

} // namespace corewire
