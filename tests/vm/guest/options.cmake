# These suites need the devices that tests/vm/guest/init makes: tests/vm/suites.sh runs the program in the virtual machine.
set(TEST_ENTRIES OFF)
