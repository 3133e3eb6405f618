// What opens the memory behind what rc_channel::expose() gives: a memory window, or on a device without them a registration. The
// connection lists it, as its queue pair is held fast by a window, and as a registration would serve other queue pairs when this
// connection is over; the exposed_region lets go of it, and by that it goes: at once, or, while a work request names it, when that is over.
//
//     made, listed --bind posted--> under way --completed--> bound      any --let_go()--> away (later, if under way)
//        `--registered--> open to all of the context                    any --the connection ends--> freed; let_go() ends the rest
#pragma once

#include <corewire/rdma/verbs/memory_region.hh>
#include <corewire/reactor/base/intrusive_list.hh>

#include <infiniband/verbs.h>

namespace corewire::rdma {

struct exposed_window final : list_hook {
    exposed_window() noexcept = default;
    ~exposed_window() { free(); }

    /// Before the queue pair to which it may be bound.
    void free() noexcept {
        if (handle != nullptr) ::ibv_dealloc_mw(handle);
        handle = nullptr;
        region = {};
    }
    /// By its exposed_region.
    void let_go() noexcept {
        wanted = false;
        if (!under_way) delete this;
    }
    /// By the connection: no work request names it any more.
    void over() noexcept {
        under_way = false;
        if (!wanted) delete this;
    }

    ibv_mw* handle = nullptr;
    verbs::memory_region region; ///< instead of a window
    bool under_way = false; ///< a work request names it
    bool wanted = true;     ///< an exposed_region has it
};

} // namespace corewire::rdma
