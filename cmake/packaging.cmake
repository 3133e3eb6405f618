# cmake --install: headers, static libraries, find_package(corewire) and pkg-config.
