// Whether any other thread of this process is running, as the kernel sees it.
// Looks into /proc/self/task, once a call; where that can't be read the answer is no.
#pragma once

namespace corewire::packetdrill {

bool other_threads_run();

} // namespace corewire::packetdrill
