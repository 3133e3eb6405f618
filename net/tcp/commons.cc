#include <corewire/net/tcp/commons.hh>

#include <corewire/reactor/base/assert.hh>

#include <algorithm>

namespace corewire::tcp {

commons::~commons() {
    for (const auto& s : sets_) CW_ASSERT(s->users == 0, "a connection has outlived its stack's parameters");
}

std::uint64_t commons::users() const noexcept {
    std::uint64_t all = 0;
    for (const auto& s : sets_) all += s->users;
    for (const auto& c : controllers_) all += c.made->users();
    return all;
}

parameter_set* commons::find_set(const parameters& p) {
    auto found = std::find_if(sets_.begin(), sets_.end(), [&](const auto& s) { return s->value == p; });
    if (found == sets_.end() && sets_.size() >= set_limit) {
        found = std::find_if(sets_.begin(), sets_.end(), [](const auto& s) { return s->users == 0; });
        if (found == sets_.end()) {
            ++refused_;
            return nullptr;
        }
        (*found)->value = p;
    }
    if (found == sets_.end()) {
        sets_.push_back(std::make_unique<parameter_set>(parameter_set{.value = p, .users = 0, .listed = true}));
        found = sets_.end() - 1;
    }
    std::iter_swap(sets_.begin(), found);
    ++sets_.front()->users;
    return sets_.front().get();
}

congestion_controller* commons::find_controller(congestion_factory how, std::uint32_t mss) {
    auto found = std::find_if(controllers_.begin(), controllers_.end(), [&](const auto& c) { return c.how == how && c.mss == mss; });
    if (found == controllers_.end() && controllers_.size() >= controller_limit) {
        found = std::find_if(controllers_.begin(), controllers_.end(), [](const auto& c) { return c.made->users() == 0; });
        if (found == controllers_.end()) {
            ++refused_;
            return nullptr;
        }
        *found = {how, mss, std::unique_ptr<congestion_controller>(how(mss))};
    }
    if (found == controllers_.end()) {
        controllers_.push_back({how, mss, std::unique_ptr<congestion_controller>(how(mss))});
        found = controllers_.end() - 1;
    }
    found->made->join();
    return found->made.get();
}

parameter_set* shared_parameters::take(const parameters& p) {
    parameter_set* const common = p.common != nullptr ? p.common->find_set(p) : nullptr;
    return common != nullptr ? common : new parameter_set{.value = p, .users = 1, .listed = false};
}

void shared_parameters::let_go(parameter_set* set) noexcept {
    --set->users;
    if (!set->listed) delete set;
}

} // namespace corewire::tcp
