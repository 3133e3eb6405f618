// The memory window behind what rc_channel::expose() gives. The connection lists it, as its queue pair is held fast by it; the
// exposed_region lets go of it, and by that it goes: at once, or, while a work request names it, when that is over.
//
//     made, listed --bind posted--> under way --completed--> bound      any --let_go()--> away (later, if under way)
//                                                                       any --the queue pair goes--> freed; let_go() ends the rest
#pragma once

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
    bool under_way = false; ///< a work request names it
    bool wanted = true;     ///< an exposed_region has it
};

} // namespace corewire::rdma
