#include "checks.hh"

#include <nlohmann/json.hpp>

namespace corewire::verbs_check {

std::string as_json(const report& r) {
    nlohmann::ordered_json out{{"device", r.device}, {"usable", r.usable()}};
    for (const auto& [name, value] : r.facts) out["facts"][name] = value;
    for (const finding& f : r.findings) {
        constexpr const char* words[] = {"works", "lacking", "unproved", "fails"};
        const char* how = words[static_cast<unsigned>(f.how)];
        out["findings"].push_back({{"what", f.what}, {"how", how}, {"detail", f.detail}});
    }
    return out.dump(1);
}

} // namespace corewire::verbs_check
