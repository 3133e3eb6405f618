// How the program's own threads find the shards: closed until every shard's body has begun, open while they run, closed for good after.
// Owned by app; enter() and leave() from any thread that is no shard's. Bounds: nobody waits longer than the run lasts.
#pragma once

#include <condition_variable>
#include <mutex>

namespace corewire {

class runtime;

class shards_door {
public:
    ~shards_door() { close(); }

    /// Everybody outside may come in.
    void open(runtime& shards) noexcept;
    /// Whoever waits or comes is turned away; blocks until those inside have left.
    void close() noexcept;
    /// A run begins: who comes waits.
    void wait_for_opening() noexcept;

    /// Inside for as long as it lives. Waits for the door to open; throws std::system_error ECANCELED when it was closed.
    class visit {
    public:
        explicit visit(shards_door& through) : door_(through), shards_(through.enter()) {}
        ~visit() { door_.leave(); }
        visit(const visit&) = delete;
        visit& operator=(const visit&) = delete;
        runtime& operator*() const noexcept { return shards_; }

    private:
        shards_door& door_;
        runtime& shards_;
    };

private:
    runtime& enter();
    void leave() noexcept;

    enum class state { not_yet, open, closed };
    std::mutex mutex_;
    std::condition_variable changed_;
    state state_ = state::not_yet;
    runtime* shards_ = nullptr;
    unsigned inside_ = 0;
};

} // namespace corewire
