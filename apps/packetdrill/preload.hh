// libc's getsockopt(), for who asks libc itself about a socket of ours: packetdrill's `%{ tcpi_... }%` blocks do.
//     LD_PRELOAD=libcorewire_packetdrill.so packetdrill --so_filename=libcorewire_packetdrill.so ...
#pragma once

namespace corewire::packetdrill {

class calls;

/// Whose sockets getsockopt() knows from now on; null: nobody's.
void remember_for_preload(calls* current) noexcept;

} // namespace corewire::packetdrill
