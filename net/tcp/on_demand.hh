// on_demand<T>: what few connections need, made when it is first written to. Until then it reads as a T that nothing has happened to.
// Owned by whatever it is in; costs a pointer.
#pragma once

#include <memory>

namespace corewire::tcp {

template <typename T>
class on_demand {
public:
    bool made() const noexcept { return at_ != nullptr; }
    const T& get() const noexcept { return at_ != nullptr ? *at_ : nothing; }
    /// To be written to.
    T* operator->() { return &own(); }
    T& own() {
        if (at_ == nullptr) [[unlikely]] make();
        return *at_;
    }

private:
    [[gnu::noinline, gnu::cold]] void make() { at_ = std::make_unique<T>(); }
    static inline const T nothing{};
    std::unique_ptr<T> at_;
};

} // namespace corewire::tcp
