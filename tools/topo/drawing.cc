#include "drawing.hh"

#include "describe.hh"
#include "planner.hh"

#include <algorithm>
#include <fmt/format.h>
#include <hwloc.h>
#include <map>
#include <numeric>
#include <set>

namespace corewire::topo {

namespace {

// Pixels.
constexpr double gap = 8, title_height = 22, strip_height = 22, pill_height = 26;
constexpr double core_width = 78, core_title = 16, cpu_height = 20, widest = 1500;
constexpr double letter = 6.6; ///< of the 12-pixel font, on average

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else
            out += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
    }
    return out;
}

std::string fitting(std::string text, double width) {
    const auto most = static_cast<std::size_t>(std::max(4.0, width / letter));
    if (text.size() > most) text = text.substr(0, most - 3) + "...";
    return escaped(text);
}

struct box {
    std::string title; ///< empty: no frame
    std::string style = "package";
    std::vector<std::string> strips; ///< NUMA nodes
    std::vector<box> parts;
    std::vector<std::vector<unsigned>> cores; ///< their CPUs
    std::vector<std::string> pills;           ///< devices
    double width = 0, height = 0, x = 0, y = 0;
    double core_height = 0;
    std::size_t core_columns = 1;
};

class drawing {
public:
    drawing(const machine& on, const placement& placed) : on_(on) {
        for (unsigned shard = 0; shard < placed.shards.size(); ++shard) {
            shards_[placed.shards[shard].cpu] = shard;
            if (const processing_unit* unit = on.find(placed.shards[shard].cpu)) busy_cores_.insert(unit->core);
        }
        interface_ = placed.interface;
    }

    std::string run(const placement& placed) {
        box root = build(hwloc_get_root_obj(on_.topology()));
        root.style = "none";
        measure(root);
        const double head = 46;
        const double legend_y = head + root.height + 10;
        const std::vector<std::string> lines = legend(placed);
        const double width = std::max(root.width, 640.0) + 2 * gap;
        const auto columns = static_cast<std::size_t>(std::max(1.0, width / 250));
        const double list = lines.empty() ? 0 : 20 * static_cast<double>((lines.size() + columns - 1) / columns) + 16;
        out_ = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
                           "width=\"{0:.0f}\" height=\"{1:.0f}\">\n",
                           width, legend_y + 40 + list);
        out_ +=
            "<style>text{font:12px 'DejaVu "
            "Sans',Verdana,sans-serif;fill:#1b2733}.t{font-weight:bold}.h{font-size:17px;font-weight:bold}"
            ".s{font-size:10px}.w{fill:#fff;font-weight:bold}rect{stroke:#8796a5}.package{fill:#f3f6f9}.node{fill:#"
            "e6eef5}"
            ".cache{fill:#fbfcfd}.core{fill:#fff}.memory{fill:#dbe9d5;stroke:#8fb07f}.nic{fill:#fdeecb;stroke:#d1a53b}"
            ".chosen{fill:#f5c542;stroke:#a87b00;stroke-width:2}.free{fill:#fff}.shard{fill:#1769aa;stroke:#0d4877}."
            "idle{fill:#cfe2f3}"
            ".forbidden{fill:#c9ced3}.slow{fill:#eef0f2}.isolated{stroke:#b3261e;stroke-width:2}</style>\n";
        out_ += "<rect width=\"100%\" height=\"100%\" style=\"fill:#fff;stroke:none\"/>\n";
        text(gap, 28, "h",
             fitting(in_one_line(on_) + (placed.shards.empty() ? "" : fmt::format("; {} shards", placed.shards.size())),
                     width * 0.7));
        draw_box(root, gap, head);
        key(gap, legend_y);
        for (std::size_t i = 0; i < lines.size(); ++i)
            text(gap + 250 * static_cast<double>(i % columns), legend_y + 52 + 20 * static_cast<double>(i / columns),
                 "", escaped(lines[i]));
        return out_ + "</svg>\n";
    }

private:
    box build(hwloc_obj* object) {
        box b;
        if (object->type == HWLOC_OBJ_PACKAGE) {
            const char* model = hwloc_obj_get_info_by_name(object, "CPUModel");
            b.title = fmt::format("package {}{}{}", object->logical_index, model != nullptr ? ": " : "",
                                  model != nullptr ? model : "");
        } else if (object->type == HWLOC_OBJ_L3CACHE) {
            b.title = fmt::format("L3 {}", size_text(object->attr->cache.size));
            b.style = "cache";
        } else {
            b.style = "node";
        }
        for (hwloc_obj* memory = object->memory_first_child; memory != nullptr; memory = memory->next_sibling)
            if (memory->type == HWLOC_OBJ_NUMANODE)
                b.strips.push_back(
                    fmt::format("NUMA node {}: {}", memory->os_index, size_text(memory->attr->numanode.local_memory)));
        for (hwloc_obj* child = object->first_child; child != nullptr; child = child->next_sibling)
            add(b, child);
        for (hwloc_obj* io = object->io_first_child; io != nullptr; io = io->next_sibling)
            devices(b, io);
        return b;
    }

    void add(box& to, hwloc_obj* object) {
        const bool frame = object->type == HWLOC_OBJ_PACKAGE || object->type == HWLOC_OBJ_L3CACHE ||
                           object->memory_first_child != nullptr || object->io_first_child != nullptr;
        if (object->type == HWLOC_OBJ_CORE || object->type == HWLOC_OBJ_PU) {
            std::vector<unsigned> cpus;
            for (int n = hwloc_bitmap_first(object->cpuset); n >= 0; n = hwloc_bitmap_next(object->cpuset, n))
                cpus.push_back(static_cast<unsigned>(n));
            to.cores.push_back(std::move(cpus));
        } else if (frame) {
            to.parts.push_back(build(object));
        } else {
            for (hwloc_obj* child = object->first_child; child != nullptr; child = child->next_sibling)
                add(to, child);
        }
    }

    void devices(box& to, hwloc_obj* object) {
        for (hwloc_obj* io = object->io_first_child; io != nullptr; io = io->next_sibling)
            devices(to, io);
        if (object->type == HWLOC_OBJ_OS_DEVICE && object->name != nullptr && on_.device(object->name) != nullptr)
            to.pills.push_back(object->name);
    }

    void measure(box& b) {
        for (box& part : b.parts)
            measure(part);
        std::size_t threads = 1;
        for (const auto& core : b.cores)
            threads = std::max(threads, core.size());
        b.core_height = core_title + cpu_height * static_cast<double>(threads) + 4;
        const std::size_t n = b.cores.size();
        b.core_columns = n <= 4 ? std::max<std::size_t>(n, 1) : n <= 8 ? 4 : n <= 48 ? 8 : 16;
        double width = 200;
        double y =
            (b.title.empty() ? gap : title_height + gap) + (strip_height + 4) * static_cast<double>(b.strips.size());
        if (n > 0) {
            width = std::max(width, static_cast<double>(b.core_columns) * (core_width + 4) - 4);
            y += static_cast<double>((n + b.core_columns - 1) / b.core_columns) * (b.core_height + 4) + 4;
        }
        y = arrange(b, y, width);
        double pill_x = 0;
        for (const std::string& name : b.pills) {
            pill_x += pill_width(name) + gap;
            width = std::max(width, pill_width(name)); // a package of one core is narrower than its NIC's name
        }
        const double inner = b.parts.empty() && b.cores.empty() ? std::max(width, std::min(pill_x, widest)) : width;
        b.width = inner + 2 * gap;
        b.height = y + static_cast<double>(pill_rows(b, inner)) * (pill_height + 6) + (b.style == "none" ? 0 : 4);
    }

    /// The parts in as many columns as fit; returns where they end.
    static double arrange(box& b, double y, double& width) {
        if (b.parts.empty()) return y;
        std::size_t columns = std::min<std::size_t>(b.parts.size(), 4);
        double part_width = 0;
        for (const box& part : b.parts)
            part_width = std::max(part_width, part.width);
        while (columns > 1 && static_cast<double>(columns) * (part_width + gap) > widest)
            --columns;
        if (columns == 3 && b.parts.size() == 4) columns = 2;
        double row_height = 0;
        for (std::size_t i = 0; i < b.parts.size(); ++i) {
            if (i > 0 && i % columns == 0) {
                y += row_height + gap;
                row_height = 0;
            }
            b.parts[i].x = static_cast<double>(i % columns) * (part_width + gap);
            b.parts[i].y = y;
            row_height = std::max(row_height, b.parts[i].height);
        }
        width = std::max(width, static_cast<double>(columns) * (part_width + gap) - gap);
        return y + row_height + gap;
    }

    std::string pill_text(const std::string& name) const {
        const io_device& d = *on_.device(name);
        return fmt::format("{} {}{}{}", d.what == io_device::type::rdma ? "RDMA" : "NIC", d.name,
                           d.queues != 0 ? fmt::format(", {} queue{}", d.queues, d.queues == 1 ? "" : "s") : "",
                           d.model.empty() || d.what == io_device::type::rdma ? "" : ": " + d.model);
    }
    double pill_width(const std::string& name) const {
        return std::min(460.0, letter * static_cast<double>(pill_text(name).size()) + 26);
    }

    std::size_t pill_rows(const box& b, double width) const {
        std::size_t rows = b.pills.empty() ? 0 : 1;
        double x = 0;
        for (const std::string& name : b.pills) {
            if (x > 0 && x + pill_width(name) > width) {
                ++rows;
                x = 0;
            }
            x += pill_width(name) + gap;
        }
        return rows;
    }

    void rect(double x, double y, double w, double h, std::string_view style, double round = 3) {
        out_ +=
            fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{}\" class=\"{}\"/>\n",
                        x, y, w, h, round, style);
    }
    void text(double x, double y, std::string_view style, std::string_view escaped_text, std::string_view anchor = {}) {
        out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}{}>{}</text>\n", x, y,
                            style.empty() ? "" : fmt::format(" class=\"{}\"", style),
                            anchor.empty() ? "" : fmt::format(" text-anchor=\"{}\"", anchor), escaped_text);
    }

    void draw_box(const box& b, double x, double y) {
        if (b.style != "none") rect(x, y, b.width, b.height, b.style, 5);
        const double inner = b.width - 2 * gap;
        const double left = b.style == "none" ? x : x + gap;
        double at = y + gap;
        if (!b.title.empty()) {
            text(left, y + 16, "t", fitting(b.title, inner));
            at = y + title_height + gap - 4;
        }
        for (const std::string& strip : b.strips) {
            rect(left, at, inner, strip_height, "memory");
            text(left + 8, at + 15, "", fitting(strip, inner - 16));
            at += strip_height + 4;
        }
        for (std::size_t i = 0; i < b.cores.size(); ++i)
            draw_core(b.cores[i], left + static_cast<double>(i % b.core_columns) * (core_width + 4),
                      at + static_cast<double>(i / b.core_columns) * (b.core_height + 4), b.core_height);
        for (const box& part : b.parts)
            draw_box(part, left + part.x, y + part.y);
        draw_pills(b, left, y, inner);
    }

    void draw_pills(const box& b, double left, double y, double width) {
        double x = 0;
        double at =
            y + b.height - static_cast<double>(pill_rows(b, width)) * (pill_height + 6) - (b.style == "none" ? 0 : 2);
        for (const std::string& name : b.pills) {
            if (x > 0 && x + pill_width(name) > width) {
                x = 0;
                at += pill_height + 6;
            }
            rect(left + x, at, pill_width(name), pill_height, name == interface_ ? "chosen" : "nic", 12);
            text(left + x + 12, at + 17, "", fitting(pill_text(name), pill_width(name) - 16));
            x += pill_width(name) + gap;
        }
    }

    void draw_core(const std::vector<unsigned>& cpus, double x, double y, double height) {
        const processing_unit* first = on_.find(cpus.front());
        rect(x, y, core_width, height, first->kind > 0 ? "slow" : "core");
        std::string title = fmt::format("core {}", first->core);
        if (on_.kinds().size() > 1) title += first->kind == 0 ? " fast" : " slow";
        text(x + 5, y + 12, "s", escaped(title));
        for (std::size_t i = 0; i < cpus.size(); ++i) {
            const processing_unit* unit = on_.find(cpus[i]);
            const double top = y + core_title + cpu_height * static_cast<double>(i);
            const auto shard = shards_.find(cpus[i]);
            std::string style = shard != shards_.end()             ? "shard"
                                : !unit->nameable                  ? "forbidden"
                                : busy_cores_.contains(unit->core) ? "idle"
                                                                   : "free";
            const std::string ink = style == "shard" ? "w" : "";
            if (unit->isolated) style += " isolated";
            rect(x + 3, top, core_width - 6, cpu_height - 2, style, 2);
            text(x + 8, top + 13, ink, fmt::format("{}", cpus[i]));
            if (shard != shards_.end())
                text(x + core_width - 8, top + 13, ink, fmt::format("s{}", shard->second), "end");
        }
    }

    void key(double x, double y) {
        const auto entry = [&](std::string_view style, std::string_view what) {
            rect(x, y, 26, 16, style, 2);
            if (style == "shard") text(x + 4, y + 12, "w s", "s7");
            text(x + 32, y + 12, "", what);
            x += 32 + letter * static_cast<double>(what.size()) + 22;
        };
        if (!shards_.empty()) {
            entry("shard", "shard 7 runs here");
            entry("idle", "idle: its core is a shard's");
        }
        entry("free", "free");
        const auto any = [&](auto&& is) { return std::ranges::any_of(on_.processing_units(), is); };
        if (any([](const processing_unit& u) { return !u.nameable; })) entry("forbidden", "not for this process");
        if (any([](const processing_unit& u) { return u.isolated; })) entry("free isolated", "isolated");
    }

    static std::vector<std::string> legend(const placement& placed) {
        std::vector<std::string> lines;
        for (unsigned shard = 0; shard < placed.shards.size(); ++shard) {
            const shard_place& p = placed.shards[shard];
            std::string line = fmt::format("s{}: CPU {}", shard, p.cpu);
            if (p.numa_node) line += fmt::format(", memory {}", *p.numa_node);
            for (std::size_t i = 0; i < std::min<std::size_t>(p.queues.size(), 4); ++i)
                line += fmt::format("{}{}", i == 0 ? ", queue " : "+", p.queues[i]);
            if (p.queues.size() > 4) line += "+...";
            lines.push_back(std::move(line));
        }
        return lines;
    }

    const machine& on_;
    std::map<unsigned, unsigned> shards_; ///< by CPU
    std::set<unsigned> busy_cores_;
    std::string interface_;
    std::string out_;
};

} // namespace

std::string draw(const machine& on, const placement& placed) { return drawing(on, placed).run(placed); }

} // namespace corewire::topo
