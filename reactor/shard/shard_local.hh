// shard_local<T>: a T of its own for each shard, made when the shard first asks for it, on that shard, and destroyed there when
// the shard ends: what thread_local is to threads.
//
//     cw::shard_local<counters> hits;              // may be global, or stand in an object that many shards use
//     ++hits->served;                              // this shard's; nobody else sees it
//
// Asking costs a load or two. To look at the others' use submit_to(); for services that are started and stopped in order,
// sharded.hh. Bounded: `shard_local_table::limit` of them in a process at a time; their places are used again.
#pragma once

#include <corewire/reactor/base/assert.hh>
#include <corewire/reactor/shard/shard_local_table.hh>

#include <memory>
#include <utility>

namespace corewire {

template <typename T>
class shard_local {
public:
    shard_local() : key_(shard_local_table::take_key()) {}
    shard_local(const shard_local&) = delete;
    shard_local& operator=(const shard_local&) = delete;
    /// What shards have made lives on until they end (or until another shard_local takes this one's place there).
    ~shard_local() { shard_local_table::give_back(key_); }

    /// This shard's T; T() if it has none yet. Asserts that the current reactor belongs to a runtime.
    T& local() const {
        shard_local_table& here = shard_local_table::current();
        if (void* mine = here.find(key_)) [[likely]]
            return *static_cast<T*>(mine);
        auto made = std::make_unique<T>();
        here.put(key_, made.get(), [](void* value) noexcept { delete static_cast<T*>(value); });
        return *made.release();
    }
    T& operator*() const { return local(); }
    T* operator->() const { return &local(); }
    /// This shard's T if it has made one.
    T* local_if_made() const noexcept { return static_cast<T*>(shard_local_table::current().find(key_)); }

private:
    shard_local_table::key key_;
};

} // namespace corewire
