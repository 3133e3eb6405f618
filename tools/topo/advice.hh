// What to tell the kernel so that a placement gets its packets on its own CPUs: which CPU each of the NIC's interrupts goes to, which
// queues the NIC's hash uses, and that irqbalance keeps its hands off. Values worked out from a host; nothing is changed here.
#pragma once

#include "host.hh"

#include <corewire/reactor/topology/machine.hh>
#include <corewire/reactor/topology/placement.hh>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace corewire::topo {

/// One thing to do, and what it was before.
struct step {
    enum class kind { irqbalance, channels, hash, interrupt };
    kind what = kind::interrupt;
    std::string interface{};            ///< channels, hash
    unsigned number = 0;                ///< interrupt: its number; channels: how many
    std::string cpus{};                 ///< interrupt: the CPUs that shall serve it
    std::vector<unsigned> queues{};     ///< hash: those that it shall use
    std::string name{};                 ///< interrupt: as is_interrupt_name() says, or empty if it is not known
    std::string before{};               ///< interrupt: the CPUs until now; channels: how many (receiving ones) until now
    std::string why{};
    bool separate = false;              ///< channels: receiving and sending ones are counted apart
    unsigned sending = 0;               ///< channels, separate: sending ones until now; 0: not known, as many as receiving ones
};

/// The command that does it, or undoes it, as one types it in a shell.
std::string do_text(const step& s);
std::string undo_text(const step& s);

struct advice {
    std::vector<step> steps;
    std::vector<std::string> notes; ///< one sentence each
    bool again = false;             ///< queues have to be made first; their interrupts can be seen only then
};

/// Throws std::invalid_argument with a sentence: no interface, or none such.
advice make_advice(const host& on, const machine& cpus, const placement& placed);

/// Number and name of every interrupt of the host (/proc/interrupts); none if it cannot be read.
std::map<unsigned, std::string> interrupt_names(const host& on);

/// What a name of an interrupt may be to be kept and printed: 1 to 128 visible ASCII characters.
bool is_interrupt_name(std::string_view name) noexcept;

/// The queue that an interrupt with this name (/proc/interrupts) serves; nothing: none, or it cannot be told.
std::optional<unsigned> queue_of(std::string_view interrupt_name, std::string_view interface);

/// May be put behind a command: no path, no option.
bool is_interface_name(std::string_view name) noexcept;

} // namespace corewire::topo
