#include "commands.hh"

#include "apply.hh"
#include "describe.hh"
#include "drawing.hh"
#include "planner.hh"

#include <corewire/apps/runtime/command_line.hh>
#include <corewire/reactor/topology/placement_fit.hh>

#include <cstdio>
#include <fmt/format.h>
#include <fstream>
#include <functional>
#include <stdexcept>

namespace corewire::topo {

namespace {

/// What was asked for.
struct wishes {
    std::string machine_file, synthetic, svg, xml, placement;
    bool json = false;
    plan_request plan;
    std::string smt = "one-per-core";
    std::string check_file, advise_file, state = "/run/cw-topo.state";
    bool apply = false, restore = false;
};

machine read_machine(const wishes& w) {
    if (!w.machine_file.empty() && !w.synthetic.empty())
        throw std::invalid_argument("--machine and --synthetic both name a machine: leave one out");
    if (!w.machine_file.empty()) return machine::from_xml_file(w.machine_file);
    if (!w.synthetic.empty()) return machine::synthetic(w.synthetic);
    return machine::detect(machine_detail::devices);
}

void write_file(const std::string& path, const std::string& text) {
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw std::invalid_argument(fmt::format("{} cannot be written", path));
}

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw std::invalid_argument("standard output cannot be written");
}

int show(const wishes& w) {
    const machine on = read_machine(w);
    if (!w.xml.empty()) write_file(w.xml, on.to_xml());
    if (!w.svg.empty()) {
        placement placed;
        if (!w.placement.empty()) {
            placed = read_placement(w.placement);
            require_fit(on, placed);
        }
        write_file(w.svg, draw(on, placed));
    }
    if (w.json) print(describe_json(on));
    else if (w.svg.empty() && w.xml.empty()) print(describe(on));
    return 0;
}

int plan_it(const wishes& w) {
    const machine on = read_machine(w);
    plan_request request = w.plan;
    request.every_thread = w.smt == "all";
    const plan planned = make_plan(on, request);
    if (!w.svg.empty()) write_file(w.svg, draw(on, planned.place));
    print(to_text(planned));
    return 0;
}

int check_it(const wishes& w) {
    const placement wanted = read_placement(w.check_file);
    const machine on = read_machine(w);
    std::size_t impossible = 0;
    for (const fit_finding& finding : check_fit(on, wanted)) {
        print(fmt::format("{}: {}\n", finding.impossible ? "does not fit" : "remark", finding.text));
        if (finding.impossible) ++impossible;
    }
    if (impossible == 0) print(fmt::format("{} fits this machine: {} on {}\n", w.check_file, wanted.shards.size() == 1 ? "1 shard" :
                                           fmt::format("{} shards", wanted.shards.size()), in_one_line(on)));
    return impossible == 0 ? 0 : 1;
}

/// Queues may be missing still, which is what advice is for.
void require_fit_of_cpus(const machine& on, placement placed) {
    placed.interface.clear();
    for (shard_place& shard : placed.shards) shard.queues.clear();
    require_fit(on, placed);
}

int advise(const wishes& w) {
    const report say = [](const std::string& line) { print(line + '\n'); };
    const host here = host::here();
    if (w.apply && w.restore) throw std::invalid_argument("--apply and --restore are opposites: leave one out");
    if (w.restore) {
        if (!w.advise_file.empty()) throw std::invalid_argument("--restore undoes what the state file says: leave the placement out");
        print(fmt::format("# {} undone\n", restore(here, w.state, say)));
        return 0;
    }
    if (w.advise_file.empty()) throw std::invalid_argument("advise what? name a placement: cw-topo advise FILE");
    const placement placed = read_placement(w.advise_file);
    const machine on = machine::detect(machine_detail::devices);
    require_fit_of_cpus(on, placed);
    if (w.apply) {
        print(fmt::format("# {} done; `cw-topo advise --restore` undoes them\n", apply(here, on, placed, w.state, say)));
        return 0;
    }
    const advice wanted = make_advice(here, on, placed);
    for (const step& each : wanted.steps) print(fmt::format("{}  # {}\n", do_text(each), each.why));
    for (const std::string& note : wanted.notes) print(fmt::format("# {}\n", note));
    if (wanted.steps.empty()) print("# nothing to do\n");
    return 0;
}

void add_machine_options(command_line& to, wishes& w) {
    to.add_option("--machine", w.machine_file, "Another machine: an XML file of --xml or lstopo").type_name("FILE");
    to.add_option("--synthetic", w.synthetic, "A machine in hwloc's words: \"package:2 core:8 pu:2\"").type_name("TEXT");
}

void add_commands(command_line& app, wishes& w, std::function<int(const wishes&)>& chosen) {
    add_machine_options(app, w);
    app.add_flag("--json", w.json, "Print one JSON object");
    app.add_option("--svg", w.svg, "Draw the machine into this file").type_name("FILE");
    app.add_option("--placement", w.placement, "With --svg: colour this placement in").type_name("FILE");
    app.add_option("--xml", w.xml, "Write the machine into this file, for --machine elsewhere").type_name("FILE");

    command_line plan = app.add_subcommand("plan", "Print a placement file: which CPU, memory and NIC queue each shard gets, and why");
    add_machine_options(plan, w);
    plan.add_option("--shards", w.plan.shards, "How many (default: the cores next to the NIC, as far as it has queues)").type_name("N");
    plan.add_option("--nic", w.plan.nic, "Be next to this interface or RDMA device (default: the only NIC); none: to none")
        .type_name("IFNAME|RDMADEV");
    plan.add_option("--smt", w.smt, "one-per-core (default) or all: a shard on every thread of a core")
        .check_one_of({"one-per-core", "all"}).type_name("WHICH");
    plan.add_option("--leave", w.plan.leave, "Cores for the kernel and other programs (default: 1 if there are 4)").type_name("CORES");
    plan.add_option("--svg", w.svg, "Draw the machine with this plan into a file, too").type_name("FILE");
    plan.callback([&chosen] { chosen = plan_it; });

    command_line check = app.add_subcommand("check", "Say whether a placement file fits this machine, and what to do if not");
    add_machine_options(check, w);
    check.add_option("file", w.check_file, "The placement").required().type_name("FILE");
    check.callback([&chosen] { chosen = check_it; });

    command_line tune = app.add_subcommand("advise", "Print the commands that bring each queue's interrupts to its shard's CPU");
    tune.add_option("file", w.advise_file, "The placement").type_name("FILE");
    tune.add_flag("--apply", w.apply, "Run them (as root)");
    tune.add_flag("--restore", w.restore, "Undo what --apply did");
    tune.add_option("--state", w.state, "Where --apply notes what was before").type_name("FILE").capture_default_str();
    tune.callback([&chosen] { chosen = advise; });
}

} // namespace

int run(int argc, char** argv) {
    wishes w;
    std::function<int(const wishes&)> chosen = show;
    command_line app("cw-topo", "The machine: packages, NUMA nodes, caches, cores, NICs; and where shards should run on it");
    app.require_subcommand(0, 1);
    add_commands(app, w, chosen);
    if (const auto status = app.parse(argc, argv)) return *status;
    try {
        if (!w.placement.empty() && w.svg.empty()) throw std::invalid_argument("--placement colours a drawing: add --svg FILE");
        return chosen(w);
    } catch (const std::exception& error) {
        return app.refuse(error.what());
    }
}

} // namespace corewire::topo
