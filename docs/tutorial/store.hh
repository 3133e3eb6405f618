// docs/tutorial/store.hh
#pragma once
#include <corewire/shard.hh>
#include <corewire/task.hh>

#include <functional>
#include <map>
#include <optional>
#include <string>
namespace cw = corewire;

namespace tutorial {

/// What one shard keeps. Only that shard touches it: no locks.
struct part {
    std::map<std::string, std::string> entries;
};

class store {
public:
    cw::task<> start() { co_await parts_.start(); }
    cw::task<> stop() { co_await parts_.stop(); }

    cw::task<> set(std::string key, std::string value) {
        const unsigned shard = owner_of(key);
        auto put = [key = std::move(key), value = std::move(value)](part& here) { here.entries[key] = value; };
        auto call = parts_.invoke_on(shard, std::move(put)); // a name first: see docs/STYLE.md, "Coroutines"
        co_await call;
    }
    cw::task<std::optional<std::string>> get(std::string key) {
        const unsigned shard = owner_of(key);
        auto find = [key = std::move(key)](part& here) -> std::optional<std::string> {
            const auto found = here.entries.find(key);
            if (found == here.entries.end()) return std::nullopt;
            return found->second;
        };
        auto call = parts_.invoke_on(shard, std::move(find));
        co_return co_await call;
    }
    cw::sharded<part>& parts() { return parts_; }

private:
    static unsigned owner_of(const std::string& key) {
        return static_cast<unsigned>(std::hash<std::string>{}(key) % cw::this_shard::count());
    }
    cw::sharded<part> parts_;
};

} // namespace tutorial
