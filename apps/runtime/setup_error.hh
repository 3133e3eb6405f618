// An error of setting up, with a sentence that says what to do. A program that ends with one prints it and exits with 2.
#pragma once

#include <stdexcept>

namespace corewire {

struct setup_error : std::runtime_error {
    using std::runtime_error::runtime_error;
};

} // namespace corewire
