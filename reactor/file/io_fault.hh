// The seam at which tests make operations go wrong: asked about every request on its way to the kernel.
//
//     struct full_disk final : cw::io_fault_source {
//         cw::io_fault next(const cw::io_arguments& a) noexcept override {
//             return a.opcode == cw::io_opcode::write ? cw::io_fault{.fail_with = ENOSPC} : cw::io_fault{};
//         }
//     };
//     reactor.files().inject(&source);
//
// Without a source it costs one comparison a request.
#pragma once

#include <corewire/reactor/file/io_arguments.hh>

namespace corewire {

struct io_fault {
    /// An errno: the request is answered with it and not performed. EINTR is retried like the kernel's own.
    int fail_with = 0;
    /// An errno: the request is performed, and answered with this all the same: a disk that fails on write-back.
    int report = 0;
    /// A read or write moves this many bytes at most. A vectored one becomes one of its first piece.
    std::uint64_t at_most = ~std::uint64_t{0};
    /// The request stays on its way until io_engine::release_held().
    bool hold = false;
};

class io_fault_source {
public:
    virtual io_fault next(const io_arguments& arguments) noexcept = 0;

protected:
    ~io_fault_source() = default;
};

} // namespace corewire
