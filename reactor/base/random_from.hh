// What random_seed() and random_bytes() give on this thread while it stands: numbers of a generator in place of the kernel's. For a
// simulator, in whose hosts everything is drawn from one seed. Nothing drawn so is a secret.
#pragma once

#include <corewire/reactor/base/random.hh>

namespace corewire {

class random_from {
public:
    explicit random_from(random_generator& source) noexcept;
    ~random_from();
    random_from(const random_from&) = delete;
    random_from& operator=(const random_from&) = delete;

private:
    random_generator* previous_;
};

} // namespace corewire
