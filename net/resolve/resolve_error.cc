#include <corewire/net/resolve/resolve_error.hh>

#include <string>

namespace corewire {

namespace {

class category final : public std::error_category {
    const char* name() const noexcept override { return "getaddrinfo"; }
    std::string message(int value) const override { return ::gai_strerror(value); }
};

} // namespace

const std::error_category& resolve_category() noexcept {
    static const category only;
    return only;
}

std::error_code make_error_code(resolve_error e) noexcept { return {static_cast<int>(e), resolve_category()}; }

} // namespace corewire
