# These suites need the devices that tests/vm/guest/init makes: tests/vm/run runs the program in the virtual machine.
set(TEST_ENTRIES OFF)
