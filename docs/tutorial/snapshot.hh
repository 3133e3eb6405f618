// docs/tutorial/snapshot.hh
#pragma once
#include "store.hh"

#include <corewire/file.hh>
#include <corewire/sync.hh>

#include <string>
namespace cw = corewire;

namespace tutorial {

/// Writes snapshots of a store, one at a time. After a crash the file is the last complete one.
class snapshots {
public:
    snapshots(store& of, std::string path) : store_(of), path_(std::move(path)) {}

    cw::task<> save() {
        auto turn = co_await busy_.lock();
        cw::file_writer out(co_await cw::file::create(path_ + ".new"));
        for (unsigned shard = 0; shard < cw::this_shard::count(); ++shard) {
            auto call = store_.parts().invoke_on(shard, [](part& here) { return here.entries; });
            const auto entries = co_await call; // a copy, made by its owner
            for (const auto& [key, value] : entries) {
                const std::string line = key + '\t' + value + '\n';
                co_await out.write(std::string_view(line));
                co_await cw::maybe_yield(); // a large store must not hold the core
            }
        }
        co_await out.sync(); // on the disk, or it throws
        co_await out.close();
        co_await cw::fs::rename(path_ + ".new", path_);
    }

private:
    store& store_;
    std::string path_;
    cw::mutex busy_;
};

} // namespace tutorial
