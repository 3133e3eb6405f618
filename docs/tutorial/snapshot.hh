// docs/tutorial/snapshot.hh
#pragma once
#include "protocol.hh"
#include "store.hh"

#include <corewire/file.hh>
#include <corewire/sync.hh>

#include <array>
#include <string>
#include <system_error>
namespace cw = corewire;

namespace tutorial {

/// Writes snapshots of a store, one at a time, and reads them. After a crash the file is the last complete one.
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
                const std::string bytes = record(key, value);
                co_await out.write(std::string_view(bytes));
                co_await cw::maybe_yield(); // a large store must not hold the core
            }
        }
        co_await out.sync(); // on the disk, or it throws
        co_await out.close();
        co_await cw::fs::rename(path_ + ".new", path_);
    }

    /// Into the store; nothing if there is no file yet. Throws EBADMSG for a file that is no snapshot.
    cw::task<> load() {
        cw::file from;
        try {
            from = co_await cw::file::open(path_);
        } catch (const std::system_error& e) {
            if (e.code() == std::errc::no_such_file_or_directory) co_return;
            throw;
        }
        cw::file_reader in(from);
        std::array<std::byte, 8> head;
        while (const std::size_t got = co_await in.read_exactly(cw::mutable_byte_span(head))) {
            const std::size_t key = cw::load_be32(head.data()), value = cw::load_be32(head.data() + 4);
            const bool plausible = got == head.size() && key <= longest_frame && value <= longest_frame;
            std::string both(plausible ? key + value : 0, '\0');
            const std::size_t there = co_await in.read_exactly(std::as_writable_bytes(std::span(both)));
            if (!plausible || there < both.size())
                throw std::system_error(std::make_error_code(std::errc::bad_message), path_);
            co_await store_.set(both.substr(0, key), both.substr(key));
            co_await cw::maybe_yield();
        }
    }

private:
    /// The sizes of both, then both: whatever bytes they have.
    static std::string record(const std::string& key, const std::string& value) {
        std::string bytes(8, '\0');
        auto* head = reinterpret_cast<std::byte*>(bytes.data());
        cw::store_be32(head, static_cast<std::uint32_t>(key.size()));
        cw::store_be32(head + 4, static_cast<std::uint32_t>(value.size()));
        return bytes + key + value;
    }

    store& store_;
    std::string path_;
    cw::mutex busy_;
};

} // namespace tutorial
