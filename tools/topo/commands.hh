// cw-topo's command line. Owned by main(); one thread.
#pragma once

namespace corewire::topo {

/// Exit codes: 0 done, or the placement fits; 1 `check`: it does not fit; 2 what was asked for cannot be done, and one line on
/// stderr says what to do.
int run(int argc, char** argv);

} // namespace corewire::topo
