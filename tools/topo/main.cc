// cw-topo: the machine as a person reads it, and where shards should run on it.
#include "commands.hh"

int main(int argc, char** argv) { return corewire::topo::run(argc, argv); }
